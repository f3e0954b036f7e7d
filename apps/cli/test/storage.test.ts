// Buckets and files, through a real platform.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type How, plinth as run, workplace, writeIn } from './plinth.ts'
import { relay } from './relay.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

/** A directory with a project of its own in force. */
async function desk(files: Record<string, string> = {}) {
  const { id, service_role_key } = await platform.createProject()
  const cwd = workplace(files)
  const storage = (args: string[], how: How = {}) =>
    run(['storage', ...args], {
      cwd,
      ...how,
      env: {
        PLATFORM_URL: platform.url,
        PLATFORM_TOKEN: platform.adminToken,
        PLATFORM_PROJECT: id,
        ...how.env,
      },
    })
  /** As an application sees it. */
  const served = async (path: string) => {
    const reply = await fetch(`${platform.url}/v1/storage/${id}/object/${path}`, {
      headers: { apikey: service_role_key },
    })
    return {
      status: reply.status,
      type: reply.headers.get('content-type'),
      cache: reply.headers.get('cache-control'),
      text: await reply.text(),
    }
  }
  const keys = async (bucket: string) =>
    (await storage(['ls', `ss:///${bucket}`, '-r'])).json.data.entries.map((each: any) =>
      each.address.replace(`ss:///${bucket}/`, ''),
    )
  const read = (path: string) => readFileSync(join(cwd, path), 'utf8')
  return { id, cwd, storage, served, keys, read }
}

/** Every file below, and nothing else. */
const below = (directory: string) =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => join(each.parentPath, each.name).slice(directory.length + 1))
    .sort()

const codes = (ran: { code: number | null; json: any }) => [ran.code, ran.json?.error?.code]

test('a bucket is made with its rules, listed, and not made twice', async () => {
  const { storage } = await desk()
  assert.deepEqual((await storage(['ls'])).json, { ok: true, data: { entries: [], total: 0 } })
  const rules = ['--public', '--file-size-limit', '20MB', '--allowed-mime-types', 'image/*, application/pdf']
  const made = await storage(['mb', 'ss:///media', ...rules])
  assert.equal(made.code, 0, made.stdout)
  const { id, public: isPublic, file_size_limit, allowed_mime_types } = made.json.data
  assert.deepEqual(
    [id, isPublic, file_size_limit, allowed_mime_types],
    ['media', true, 20_000_000, ['image/*', 'application/pdf']],
  )
  const plain = await storage(['mb', 'ss:///attic/', '-o', 'text'])
  assert.match(plain.stdout, /^Made ss:\/\/\/attic\n\n {2}public +no\n {2}files up to +any size/)

  assert.deepEqual(codes(await storage(['mb', 'ss:///media'])), [1, 'BucketAlreadyExists'])
  const { entries, total } = (await storage(['ls'])).json.data
  assert.equal(total, 2)
  const { updated_at, ...media } = entries[1]
  assert.ok(Date.parse(updated_at))
  assert.deepEqual(media, {
    type: 'bucket',
    name: 'media/',
    address: 'ss:///media',
    bytes: null,
    content_type: null,
    public: true,
    file_size_limit: 20_000_000,
    allowed_mime_types: ['image/*', 'application/pdf'],
  })
  const text = await storage(['ls', '-o', 'text'])
  assert.match(text.stdout, /^media\/ +yes +20\.0 MB +image\/\*, application\/pdf /m)
})

test('a file goes up and comes down, under its own name or another', async () => {
  const { storage, served, cwd, read } = await desk({ 'logo.svg': '<svg/>', 'notes.txt': 'hello', odd: '??' })
  const sent = await storage(['cp', 'logo.svg', 'ss:///media/'])
  assert.equal(sent.code, 0, sent.stdout)
  assert.equal(sent.stderr, '')
  const { seconds, ...data } = sent.json.data
  assert.equal(typeof seconds, 'number')
  assert.deepEqual(data, {
    files: [{ from: 'logo.svg', to: 'ss:///media/logo.svg', bytes: 6, content_type: 'image/svg+xml' }],
    count: 1,
    bytes: 6,
  })
  const { type, cache, text } = await served('media/logo.svg')
  assert.deepEqual([type, cache, text], ['image/svg+xml', 'max-age=3600', '<svg/>'])

  const text2 = await storage(['cp', 'notes.txt', 'ss:///media/deep/er/n (1).txt', '-o', 'text'])
  assert.match(
    text2.stdout,
    /^Copied notes\.txt to ss:\/\/\/media\/deep\/er\/n \(1\)\.txt: 5 B in \S+ \(\S+ k?B\/s\)\.\n$/,
  )
  await storage(['cp', 'odd', 'ss:///media', '--content-type', 'text/x-odd', '--cache-control', '60'])
  const odd = await served('media/odd')
  assert.match(odd.type!, /^text\/x-odd/)
  assert.deepEqual([odd.cache, odd.text], ['max-age=60', '??'])

  for (const [to, path] of [
    ['.', 'n (1).txt'],
    ['new/folder/', 'new/folder/n (1).txt'],
    ['other.txt', 'other.txt'],
    [join(cwd, 'far/away.txt'), 'far/away.txt'],
  ] as const) {
    const got = await storage(['cp', 'ss:///media/deep/er/n (1).txt', to])
    assert.equal(got.code, 0, got.stdout)
    assert.equal(read(path), 'hello')
  }
})

test('what is there is replaced, on either side', async () => {
  const { storage, served, cwd, read } = await desk({ 'a.txt': 'one', 'run.sh': 'old and longer' })
  await storage(['cp', 'a.txt', 'ss:///media/'])
  writeIn(cwd, 'a.txt', 'two')
  assert.equal((await storage(['cp', 'a.txt', 'ss:///media/', '--content-type', 'text/csv'])).code, 0)
  const { text, type } = await served('media/a.txt')
  assert.deepEqual([text, type!.split(';')[0]], ['two', 'text/csv'])

  // Through a link to the file it points to, which keeps its mode.
  writeFileSync(join(cwd, 'tool'), 'old', { mode: 0o750 })
  symlinkSync('tool', join(cwd, 'link'))
  assert.equal((await storage(['cp', 'ss:///media/a.txt', 'link'])).code, 0)
  assert.equal(read('tool'), 'two')
  assert.equal(statSync(join(cwd, 'tool')).mode & 0o777, 0o750)
  assert.equal((await storage(['cp', 'ss:///media/a.txt', 'run.sh'])).code, 0)
  assert.equal(read('run.sh'), 'two')
})

test('an empty file is a file', async () => {
  const { storage, served, read } = await desk({ 'empty.txt': '' })
  assert.equal((await storage(['cp', 'empty.txt', 'ss:///media/'])).json.data.bytes, 0)
  assert.deepEqual((({ status, text }) => [status, text])(await served('media/empty.txt')), [200, ''])
  assert.equal((await storage(['cp', 'ss:///media/empty.txt', 'back'])).code, 0)
  assert.equal(read('back'), '')
})

test('a folder goes up and comes down again with everything in it, as cp -r does it', async () => {
  const files = { 'docs/a.txt': 'a', 'docs/sub/b.json': '{}', 'docs/sub/deep/c': 'c' }
  const { storage, keys, cwd, read } = await desk(files)
  symlinkSync('a.txt', join(cwd, 'docs/link'))
  const unasked = await storage(['cp', 'docs', 'ss:///media/docs'])
  assert.deepEqual(codes(unasked), [1, 'recursive_missing'])
  assert.match(unasked.json.error.suggestion, /-r/)

  const sent = await storage(['cp', '-r', 'docs', 'ss:///media/docs', '-j', '2'])
  assert.equal(sent.code, 0, sent.stdout)
  assert.match(sent.stderr, /docs\/link is left out/)
  assert.deepEqual(
    sent.json.data.files.map((each: any) => [each.to, each.content_type]),
    [
      ['ss:///media/docs/a.txt', 'text/plain'],
      ['ss:///media/docs/sub/b.json', 'application/json'],
      ['ss:///media/docs/sub/deep/c', 'application/octet-stream'],
    ],
  )
  const names = ['a.txt', 'sub/b.json', 'sub/deep/c']
  assert.deepEqual(
    await keys('media'),
    names.map(each => `docs/${each}`),
  )
  // Into a folder that is there, behind a slash and into a bucket it keeps its name; its content alone does not.
  await storage(['cp', '-r', 'docs', 'ss:///media/docs'])
  await storage(['cp', '-r', 'docs', 'ss:///second'])
  await storage(['cp', '-r', 'docs/', 'ss:///second/in/'])
  await storage(['cp', '-r', 'docs/.', 'ss:///third'])
  const prefixed = (prefix: string) => names.map(each => prefix + each)
  assert.deepEqual(await keys('media'), [...prefixed('docs/'), ...prefixed('docs/docs/')].sort())
  assert.deepEqual(await keys('second'), [...prefixed('docs/'), ...prefixed('in/docs/')])
  assert.deepEqual(await keys('third'), names)

  assert.deepEqual(codes(await storage(['cp', 'ss:///third', 'down'])), [1, 'recursive_missing'])
  assert.deepEqual(codes(await storage(['cp', 'ss:///third/sub', 'down'])), [1, 'recursive_missing'])
  assert.equal((await storage(['cp', '-r', 'ss:///third', 'down'])).code, 0)
  assert.deepEqual(below(join(cwd, 'down')), names)
  assert.equal(read('down/sub/b.json'), '{}')
  assert.equal((await storage(['cp', '-r', 'ss:///third/sub/', 'down'])).code, 0)
  assert.deepEqual(
    below(join(cwd, 'down')),
    [...names, 'sub/b.json', 'sub/deep/c'].filter((each, i, all) => all.indexOf(each) === i),
  )
  assert.equal((await storage(['cp', '-r', 'ss:///third/sub', 'fresh/'])).code, 0)
  assert.deepEqual(below(join(cwd, 'fresh')), ['sub/b.json', 'sub/deep/c'])
})

test('files are copied within the project, to other buckets and with other types', async () => {
  const { storage, served, keys } = await desk({ 'd/a.txt': 'a', 'd/b.txt': 'b' })
  await storage(['cp', '-r', 'd', 'ss:///media/d', '--cache-control', 'max-age=5'])
  await storage(['mb', 'ss:///other'])
  const one = await storage(['cp', 'ss:///media/d/a.txt', 'ss:///other/'])
  assert.equal(one.code, 0, one.stdout)
  assert.deepEqual(one.json.data.files, [
    { from: 'ss:///media/d/a.txt', to: 'ss:///other/a.txt', bytes: 1, content_type: 'text/plain' },
  ])
  const copied = await served('other/a.txt')
  assert.deepEqual([copied.text, copied.type!.split(';')[0], copied.cache], ['a', 'text/plain', 'max-age=5'])
  // Over what is there, and the type alone changes.
  const again = await storage([
    'cp',
    'ss:///media/d/b.txt',
    'ss:///other/a.txt',
    '--content-type',
    'text/csv',
  ])
  assert.equal(again.code, 0, again.stdout)
  const changed = await served('other/a.txt')
  assert.deepEqual([changed.text, changed.type!.split(';')[0], changed.cache], ['b', 'text/csv', 'max-age=5'])

  assert.equal((await storage(['cp', '-r', 'ss:///media/d', 'ss:///other/all'])).code, 0)
  assert.deepEqual(await keys('other'), ['a.txt', 'all/a.txt', 'all/b.txt'])
  const onto = await storage(['cp', 'ss:///media/d/a.txt', 'ss:///media/d/'])
  assert.deepEqual(codes(onto), [1, 'usage_invalid_value'])
  assert.match(onto.json.error.message, /onto itself/)
})

test('ls shows a level or everything, a folder, a file or what begins so', async () => {
  const { storage } = await desk({
    'in/a.txt': 'aa',
    'in/docs/b.txt': 'b',
    'in/docs/x/c.txt': 'c',
    'in/docx': 'd',
  })
  await storage(['cp', '-r', 'in/.', 'ss:///media'])
  await storage(['mb', 'ss:///bare'])
  const names = async (...args: string[]) => {
    const { code, json, stdout } = await storage(['ls', ...args])
    assert.equal(code, 0, stdout)
    return json.data.entries.map((each: any) => each.name)
  }
  assert.deepEqual(await names('ss:///media'), ['docs/', 'a.txt', 'docx'])
  assert.deepEqual(await names('ss:///media/docs'), ['x/', 'b.txt'])
  assert.deepEqual(await names('ss:///media/docs/'), ['x/', 'b.txt'])
  assert.deepEqual(await names('ss:///media/a.txt'), ['a.txt'])
  assert.deepEqual(await names('ss:///media/do'), ['docs/', 'docx'])
  assert.deepEqual(await names('ss:///media/docs', '-r'), ['/media/docs/b.txt', '/media/docs/x/c.txt'])
  assert.deepEqual(await names('ss:///bare'), [])
  assert.deepEqual(await names('--recursive'), [
    '/bare/',
    '/media/',
    '/media/a.txt',
    '/media/docs/b.txt',
    '/media/docs/x/c.txt',
    '/media/docx',
  ])

  const [folder, file] = (await storage(['ls', 'ss:///media'])).json.data.entries
  assert.deepEqual(folder, {
    type: 'folder',
    name: 'docs/',
    address: 'ss:///media/docs/',
    bytes: null,
    content_type: null,
    updated_at: null,
  })
  const { updated_at, ...rest } = file
  assert.ok(Math.abs(Date.parse(updated_at) - Date.now()) < 60_000)
  assert.deepEqual(rest, {
    type: 'file',
    name: 'a.txt',
    address: 'ss:///media/a.txt',
    bytes: 2,
    content_type: 'text/plain',
  })
  const text = await storage(['ls', 'ss:///media', '-o', 'text'])
  assert.match(text.stdout, /^NAME +SIZE +TYPE +UPDATED\ndocs\/ +- +- +-\na\.txt +2 B +text\/plain +\d{4}-/)
  assert.match(
    (await storage(['ls', 'ss:///bare', '-o', 'text'])).stderr,
    /plinth storage cp <file> ss:\/\/\/bare\//,
  )
})

test('rm removes files by name, and says which were not there', async () => {
  const { storage, keys } = await desk({ 'in/a': 'a', 'in/b': 'b', 'in/docs/c': 'c' })
  await storage(['cp', '-r', 'in/.', 'ss:///media'])
  await storage(['cp', 'in/a', 'ss:///other/'])
  const gone = await storage(['rm', 'ss:///media/a', 'ss:///other/a'])
  assert.deepEqual(gone.json, {
    ok: true,
    data: { files: ['ss:///media/a', 'ss:///other/a'], buckets: [], count: 2 },
  })
  const missing = await storage(['rm', 'ss:///media/b', 'ss:///media/nothing'])
  assert.deepEqual(codes(missing), [1, 'object_not_found'])
  assert.equal(missing.json.error.message, 'There is no file ss:///media/nothing; 1 file was removed.')
  for (const folder of ['ss:///media/docs', 'ss:///media/docs/', 'ss:///media']) {
    const refused = await storage(['rm', folder, '--yes'])
    assert.deepEqual(codes(refused), [1, 'recursive_missing'], folder)
  }
  assert.deepEqual(await keys('media'), ['docs/c'])
})

test('rm -r is confirmed, and takes a folder or a whole bucket', async () => {
  const { storage, keys } = await desk({ 'in/a': 'a', 'in/docs/b': 'b', 'in/docs/x/c': 'c', 'in/docsy': 'd' })
  await storage(['cp', '-r', 'in/.', 'ss:///media'])
  const between = await relay(platform.url)
  const unasked = await storage(['rm', '-r', 'ss:///media/docs'], { env: { PLATFORM_URL: between.url } })
  assert.deepEqual(codes(unasked), [1, 'confirmation_missing'])
  assert.match(unasked.json.error.message, /everything in ss:\/\/\/media\/docs/)
  assert.match(unasked.json.error.suggestion, /--yes/)
  assert.deepEqual(between.asked, [])

  const folder = await storage(['rm', '-r', 'ss:///media/docs', 'ss:///media/docs/x', '--yes'])
  assert.deepEqual(folder.json.data.files, ['ss:///media/docs/b', 'ss:///media/docs/x/c'])
  assert.deepEqual(await keys('media'), ['a', 'docsy'])
  assert.deepEqual(codes(await storage(['rm', '-r', 'ss:///media/docs', '--yes'])), [1, 'object_not_found'])

  const bucket = await storage([
    'rm',
    '-r',
    'ss:///media',
    'ss:///media/a',
    'ss:///media/',
    '-y',
    '-o',
    'text',
  ])
  assert.equal(bucket.stdout, 'Removed 2 files and ss:///media.\n')
  assert.equal((await storage(['ls'])).json.data.total, 0)
  assert.deepEqual(codes(await storage(['rm', '-r', 'ss:///media', '-y'])), [1, 'NoSuchBucket'])
})

test('what is missing is named, with where to look', async () => {
  const { storage, cwd } = await desk({ 'a.txt': 'a' })
  await storage(['cp', 'a.txt', 'ss:///media/'])
  for (const [args, code, suggestion] of [
    [['ls', 'ss:///nowhere'], 'NoSuchBucket', /plinth storage ls shows the buckets/],
    [['ls', 'ss:///media/nothing'], 'object_not_found', /plinth storage ls ss:\/\/\/media -r/],
    [['cp', 'ss:///nowhere/a.txt', '.'], 'NoSuchBucket', /plinth storage mb/],
    [['cp', 'ss:///media/b.txt', '.'], 'object_not_found', /plinth storage ls/],
    [['cp', '-r', 'ss:///media/none/', '.'], 'object_not_found', /plinth storage ls/],
    [['rm', 'ss:///nowhere/a.txt'], 'NoSuchBucket', /plinth storage ls/],
    [['rm', 'ss:///media/b.txt'], 'object_not_found', /plinth storage ls/],
  ] as const) {
    const refused = await storage([...args])
    assert.deepEqual(codes(refused), [1, code], `${args.join(' ')}: ${refused.stdout}`)
    assert.match(refused.json.error.suggestion, suggestion)
  }
  assert.deepEqual(below(cwd), ['a.txt'])
})

test('a mistake on the command line is found before anything is asked of the platform', async () => {
  const { storage } = await desk({ 'a.txt': 'a', 'none/.keep/x': '' })
  const between = await relay(platform.url)
  const env = { PLATFORM_URL: between.url }
  for (const [args, code] of [
    [['ls', 'media'], 'address_invalid'],
    [['ls', 'ss://media'], 'address_invalid'],
    [['cp', 'a.txt'], 'usage_missing_argument'],
    [['cp', 'a.txt', 'b.txt'], 'usage_invalid_value'],
    [['cp', 'a.txt', 'ss:///'], 'address_invalid'],
    [['cp', 'a.txt', 'ss:///media/../a'], 'address_invalid'],
    [['cp', 'ss:///media//a', '.'], 'address_invalid'],
    [['cp', 'absent.txt', 'ss:///media/'], 'file_unreadable'],
    [['cp', 'none', 'ss:///media/'], 'recursive_missing'],
    [['cp', 'a.txt', 'ss:///media/', '-j', '0'], 'usage_invalid_value'],
    [['cp', 'a.txt', 'ss:///media/', '--jobs', 'many'], 'usage_invalid_value'],
    [['rm'], 'usage_missing_argument'],
    [['rm', 'a.txt'], 'address_invalid'],
    [['rm', 'ss:///', '-r', '--yes'], 'address_invalid'],
    [['mb', 'ss:///'], 'address_invalid'],
    [['mb', 'ss:///media/folder'], 'address_invalid'],
    [['mb', 'ss:///media', '--file-size-limit', 'large'], 'usage_invalid_value'],
  ] as const) {
    const refused = await storage([...args], { env })
    assert.deepEqual(codes(refused), [1, code], args.join(' '))
  }
  assert.deepEqual(between.asked, [])
})

test('without a project, or with a token too weak to read its key, the answer says what to do', async () => {
  const { storage } = await desk()
  const unnamed = await storage(['ls'], { env: { PLATFORM_PROJECT: '' } })
  assert.deepEqual(codes(unnamed), [1, 'project_missing'])
  assert.match(unnamed.json.error.suggestion, /--project/)
  const { token } = await platform.platform.mintToken({ body: { name: 'reader', scope: 'read' } })
  const weak = await storage(['ls'], { env: { PLATFORM_TOKEN: token } })
  assert.deepEqual(codes(weak), [1, 'insufficient_scope'])
})

test('a refusal of the platform is passed on; of many files the others are copied', async () => {
  const { storage, keys } = await desk({
    'in/fine.png': 'p',
    'in/sub/größe.png': 'g',
    'in/zebra.png': 'z',
    'notes.txt': 'n',
    'large.png': 'x'.repeat(2000),
  })
  await storage(['mb', 'ss:///media', '--file-size-limit', '1KB', '--allowed-mime-types', 'image/*'])
  const some = await storage(['cp', '-r', 'in/.', 'ss:///media'])
  assert.deepEqual(codes(some), [1, 'transfer_incomplete'])
  assert.match(some.json.error.message, /^Of 3 files 1 could not be copied/)
  assert.match(some.json.error.suggestion, /Names consist of/)
  assert.match(some.stderr, /in\/sub\/größe\.png was not copied: /)
  assert.deepEqual(await keys('media'), ['fine.png', 'zebra.png'])

  const text = await storage(['cp', 'notes.txt', 'ss:///media/'])
  assert.deepEqual(codes(text), [1, 'InvalidMimeType'])
  assert.match(text.json.error.suggestion, /--content-type/)
  assert.deepEqual(codes(await storage(['cp', 'large.png', 'ss:///media/'])), [1, 'EntityTooLarge'])
  const open = await storage(['mb', 'ss:///user-files', '--public'])
  assert.equal(open.code, 1)
  assert.deepEqual(await keys('media'), ['fine.png', 'zebra.png'])
})

test('only a file can be replaced by a download, and a failed one leaves nothing', async () => {
  const { storage, cwd } = await desk({ 'a.txt': 'a', 'taken/x': 'x' })
  await storage(['cp', 'a.txt', 'ss:///media/taken'])
  await storage(['cp', 'a.txt', 'ss:///media/a.txt'])
  const onto = await storage(['cp', '-r', 'ss:///media', '.', '-j', '1'])
  assert.equal(onto.code, 0, onto.stdout)
  const refused = await storage(['cp', 'ss:///media/a.txt', 'a.txt/inside'])
  assert.deepEqual(codes(refused), [1, 'file_unwritable'])
  const device = await storage(['cp', 'ss:///media/a.txt', '/dev/null'])
  assert.deepEqual(codes(device), [1, 'file_unwritable'])
  assert.match(device.json.error.message, /it is not a file/)
  assert.deepEqual(below(cwd), ['a.txt', 'media/a.txt', 'media/taken', 'taken/x'])
})
