// Copying files to, from and within a project, with a real platform.
import assert from 'node:assert/strict'
import { statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { writeIn } from './plinth.ts'
import { below, codes, storageProject } from './storage-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const projectDirectory = (files: Record<string, string> = {}) => storageProject(platform, files)

test('storage cp: uploads and downloads a file under its own name or another', async () => {
  const { storage, served, cwd, read } = await projectDirectory({
    'logo.svg': '<svg/>',
    'notes.txt': 'hello',
    odd: '??',
  })
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

test('storage cp: replaces existing files, remote and local', async () => {
  const { storage, served, cwd, read } = await projectDirectory({
    'a.txt': 'one',
    'run.sh': 'old and longer',
  })
  await storage(['cp', 'a.txt', 'ss:///media/'])
  writeIn(cwd, 'a.txt', 'two')
  assert.equal((await storage(['cp', 'a.txt', 'ss:///media/', '--content-type', 'text/csv'])).code, 0)
  const { text, type } = await served('media/a.txt')
  assert.deepEqual([text, type!.split(';')[0]], ['two', 'text/csv'])

  // Follows a symbolic link to its file, which keeps its mode.
  writeFileSync(join(cwd, 'tool'), 'old', { mode: 0o750 })
  symlinkSync('tool', join(cwd, 'link'))
  assert.equal((await storage(['cp', 'ss:///media/a.txt', 'link'])).code, 0)
  assert.equal(read('tool'), 'two')
  assert.equal(statSync(join(cwd, 'tool')).mode & 0o777, 0o750)
  assert.equal((await storage(['cp', 'ss:///media/a.txt', 'run.sh'])).code, 0)
  assert.equal(read('run.sh'), 'two')
})

test('storage cp: copies an empty file', async () => {
  const { storage, served, read } = await projectDirectory({ 'empty.txt': '' })
  assert.equal((await storage(['cp', 'empty.txt', 'ss:///media/'])).json.data.bytes, 0)
  assert.deepEqual((({ status, text }) => [status, text])(await served('media/empty.txt')), [200, ''])
  assert.equal((await storage(['cp', 'ss:///media/empty.txt', 'back'])).code, 0)
  assert.equal(read('back'), '')
})

test('storage cp -r: uploads and downloads a folder as cp -r does', async () => {
  const files = { 'docs/a.txt': 'a', 'docs/sub/b.json': '{}', 'docs/sub/deep/c': 'c' }
  const { storage, keys, cwd, read } = await projectDirectory(files)
  symlinkSync('a.txt', join(cwd, 'docs/link'))
  const unasked = await storage(['cp', 'docs', 'ss:///media/docs'])
  assert.deepEqual(codes(unasked), [1, 'recursive_missing'])
  assert.match(unasked.json.error.suggestion, /-r/)

  const sent = await storage(['cp', '-r', 'docs', 'ss:///media/docs', '-j', '2'])
  assert.equal(sent.code, 0, sent.stdout)
  assert.match(sent.stderr, /docs\/link is skipped/)
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
  // In an existing folder, after a slash and in a bucket it keeps its name; `docs/.` copies only the content.
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

test('storage cp: copies within the project, to other buckets and with other types', async () => {
  const { storage, served, keys } = await projectDirectory({ 'd/a.txt': 'a', 'd/b.txt': 'b' })
  await storage(['cp', '-r', 'd', 'ss:///media/d', '--cache-control', 'max-age=5'])
  await storage(['mb', 'ss:///other'])
  const one = await storage(['cp', 'ss:///media/d/a.txt', 'ss:///other/'])
  assert.equal(one.code, 0, one.stdout)
  assert.deepEqual(one.json.data.files, [
    { from: 'ss:///media/d/a.txt', to: 'ss:///other/a.txt', bytes: 1, content_type: 'text/plain' },
  ])
  const copied = await served('other/a.txt')
  assert.deepEqual([copied.text, copied.type!.split(';')[0], copied.cache], ['a', 'text/plain', 'max-age=5'])
  // Replaces the file and changes only the type.
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

test('storage cp: a rejected file fails the command, and the other files are copied', async () => {
  const { storage, keys } = await projectDirectory({
    'in/fine.png': 'p',
    'in/sub/größe.png': 'g',
    'in/zebra.png': 'z',
    'notes.txt': 'n',
    'large.png': 'x'.repeat(2000),
  })
  await storage(['mb', 'ss:///media', '--file-size-limit', '1KB', '--allowed-mime-types', 'image/*'])
  const some = await storage(['cp', '-r', 'in/.', 'ss:///media'])
  assert.deepEqual(codes(some), [1, 'transfer_incomplete'])
  assert.match(some.json.error.message, /^1 of 3 files could not be copied/)
  assert.match(some.json.error.suggestion, /Names may contain only/)
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

test('storage cp: a download replaces only files, and a failed download leaves nothing', async () => {
  const { storage, cwd } = await projectDirectory({ 'a.txt': 'a', 'taken/x': 'x' })
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
