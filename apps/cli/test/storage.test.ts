// Buckets, listing and removing files, and errors, with a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { recordingProxy } from './recording-proxy.ts'
import { below, codes, storageProject } from './storage-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const projectDirectory = (files: Record<string, string> = {}) => storageProject(platform, files)

test('storage mb: creates a bucket with its limits, once', async () => {
  const { storage } = await projectDirectory()
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
  assert.match(plain.stdout, /^Created ss:\/\/\/attic\n\n {2}public +no\n {2}max file size +any size/)

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

test('storage ls: lists one level or everything, a folder, a file or a prefix', async () => {
  const { storage } = await projectDirectory({
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

test('storage rm: removes files by name and reports missing ones', async () => {
  const { storage, keys } = await projectDirectory({ 'in/a': 'a', 'in/b': 'b', 'in/docs/c': 'c' })
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

test('storage rm -r: needs a confirmation and removes a folder or a bucket', async () => {
  const { storage, keys } = await projectDirectory({
    'in/a': 'a',
    'in/docs/b': 'b',
    'in/docs/x/c': 'c',
    'in/docsy': 'd',
  })
  await storage(['cp', '-r', 'in/.', 'ss:///media'])
  const proxy = await recordingProxy(platform.url)
  const unasked = await storage(['rm', '-r', 'ss:///media/docs'], { env: { PLATFORM_URL: proxy.url } })
  assert.deepEqual(codes(unasked), [1, 'confirmation_missing'])
  assert.match(unasked.json.error.message, /everything in ss:\/\/\/media\/docs/)
  assert.match(unasked.json.error.suggestion, /--yes/)
  assert.deepEqual(proxy.requests, [])

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

test('storage: a missing bucket or file fails with a suggestion', async () => {
  const { storage, cwd } = await projectDirectory({ 'a.txt': 'a' })
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

test('storage: invalid arguments fail before any request', async () => {
  const { storage } = await projectDirectory({ 'a.txt': 'a', 'none/.keep/x': '' })
  const proxy = await recordingProxy(platform.url)
  const env = { PLATFORM_URL: proxy.url }
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
  assert.deepEqual(proxy.requests, [])
})

test('storage: a missing project or an insufficient token fails with a suggestion', async () => {
  const { storage } = await projectDirectory()
  const unnamed = await storage(['ls'], { env: { PLATFORM_PROJECT: '' } })
  assert.deepEqual(codes(unnamed), [1, 'project_missing'])
  assert.match(unnamed.json.error.suggestion, /--project/)
  const { token } = await platform.platform.mintToken({ body: { name: 'reader', scope: 'read' } })
  const weak = await storage(['ls'], { env: { PLATFORM_TOKEN: token } })
  assert.deepEqual(codes(weak), [1, 'insufficient_scope'])
})
