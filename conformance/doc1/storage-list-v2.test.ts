// Storage contract §4, version 2: list a bucket page by page, flat or with folders.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unique, uuid } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import { assertOneOf, assertRefused, type StorageApi, storageProject, storageTarget } from '../storage.ts'
import type { Target } from '../target.ts'

let it: Target
let storage: StorageApi
let bucket: string
const keys = [
  'dir/b.txt',
  'a.txt',
  'B.txt',
  'dir/sub/c.txt',
  'Dir/x.txt',
  'dir/sub/d.txt',
  'dirt.txt',
  'a_b.txt',
  'axb.txt',
  'z/1.txt',
]
const byBytes = keys.toSorted((a, b) => (a < b ? -1 : 1))

interface Page {
  hasNext: boolean
  folders: any[]
  objects: any[]
  nextCursor?: string
}

before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
  for (const key of keys) await storage.store(bucket, key, key)
})
after(() => it.stop())

const list = async (body: Record<string, unknown> = {}, of = bucket): Promise<Page> =>
  bodyOf(await storage.post(`object/list-v2/${of}`, body))
const namesOf = (entries: any[]): string[] => entries.map(({ name }) => name)

/** All pages. Only the first request has the sort, the cursor contains it afterwards. */
async function walk(body: Record<string, unknown>, sortBy?: object): Promise<Page[]> {
  const pages = [await list({ ...body, ...(sortBy && { sortBy }) })]
  while (pages.at(-1)!.hasNext) {
    assert.ok(pages.length < 50, 'the pages do not end')
    pages.push(await list({ ...body, cursor: pages.at(-1)!.nextCursor }))
  }
  return pages
}

test('contract §4 without a delimiter all keys are listed in byte order', async () => {
  for (const shape of shapes) {
    const reply = bodyOf(await storage.post(`object/list-v2/${bucket}`, {}, { shape }))
    assert.deepEqual(namesOf(reply.objects), byBytes)
    assert.deepEqual([reply.folders, reply.hasNext, 'nextCursor' in reply], [[], false, false])
  }
  const { objects } = await list({ with_delimiter: false })
  const [first] = objects
  const { key: _, ...fields } = first
  assert.deepEqual(Object.keys(fields).sort(), [
    'created_at',
    'id',
    'last_accessed_at',
    'metadata',
    'name',
    'updated_at',
  ])
  assert.match(first.id, uuid)
  assert.deepEqual([first.name, first.metadata.size, first.metadata.mimetype], ['B.txt', 5, 'text/plain'])
})

for (const [prefix, found] of [
  ['dir', ['dir/b.txt', 'dir/sub/c.txt', 'dir/sub/d.txt', 'dirt.txt']],
  ['dir/', ['dir/b.txt', 'dir/sub/c.txt', 'dir/sub/d.txt']],
  ['D', ['Dir/x.txt']],
  ['a_', ['a_b.txt']],
  ['a', ['a.txt', 'a_b.txt', 'axb.txt']],
  ['%', []],
  ['a%', []],
  ['\\', []],
  ['nothing', []],
] as const)
  test(`contract §4 the prefix ${prefix} matches the beginning of a key literally`, async () => {
    assert.deepEqual(namesOf((await list({ prefix })).objects), found)
  })

test('contract §4 with a delimiter keys are grouped by folder, with the time of the folder’s earliest file', async () => {
  const top = await list({ with_delimiter: true })
  assert.deepEqual(
    top.folders.map(({ key, name, id }) => ({ key, name, id })),
    [
      { key: 'Dir', name: 'Dir/', id: null },
      { key: 'dir', name: 'dir/', id: null },
      { key: 'z', name: 'z/', id: null },
    ],
  )
  assert.deepEqual(namesOf(top.objects), ['B.txt', 'a.txt', 'a_b.txt', 'axb.txt', 'dirt.txt'])
  const inside = await list({ with_delimiter: true, prefix: 'dir/' })
  assert.deepEqual(
    inside.folders.map(({ key, name }) => ({ key, name })),
    [{ key: 'sub', name: 'dir/sub/' }],
  )
  assert.deepEqual(namesOf(inside.objects), ['dir/b.txt'])
  const earliest = (await list({ prefix: 'dir/b.txt' })).objects[0]
  assert.equal(top.folders[1].created_at, earliest.created_at)
  assert.equal(typeof top.folders[1].updated_at, 'string')
  const partly = await list({ with_delimiter: true, prefix: 'di' })
  assert.deepEqual([namesOf(partly.folders), namesOf(partly.objects)], [['dir/'], ['dirt.txt']])
  for (const [prefix, key, name] of [
    ['di', 'dir', 'dir/'],
    ['dir', 'dir', 'dir/'],
    ['dir/s', 'sub', 'dir/sub/'],
    ['dir/sub', 'sub', 'dir/sub/'],
  ] as const) {
    const [folder] = (await list({ with_delimiter: true, prefix })).folders
    assert.deepEqual([folder.key, folder.name], [key, name], `the last part, whole, of what ${prefix} finds`)
  }
})

for (const limit of [1, 2, 3, 100])
  test(`contract §4 pages of ${limit} return every entry exactly once`, async () => {
    const flat = await walk({ limit })
    assert.deepEqual(namesOf(flat.flatMap(({ objects }) => objects)), byBytes)
    const grouped = await walk({ limit, with_delimiter: true })
    assert.deepEqual(namesOf(grouped.flatMap(({ folders }) => folders)), ['Dir/', 'dir/', 'z/'])
    assert.deepEqual(namesOf(grouped.flatMap(({ objects }) => objects)), [
      'B.txt',
      'a.txt',
      'a_b.txt',
      'axb.txt',
      'dirt.txt',
    ])
    const inside = await walk({ limit, prefix: 'dir' })
    assert.equal(inside.flatMap(({ objects }) => objects).length, 4)
    for (const pages of [flat, grouped, inside])
      for (const [i, page] of pages.entries()) {
        const isLast = i === pages.length - 1
        assert.equal(page.hasNext, !isLast)
        assert.equal(page.objects.length + page.folders.length <= limit, true)
        if (!isLast) assert.equal(page.objects.length + page.folders.length, limit)
        assert.equal(page.nextCursor === undefined, isLast, 'a cursor only when there is more')
        if (page.nextCursor) assert.match(page.nextCursor, /^[\w+/=-]+$/)
      }
  })

test('contract §4 the cursor contains the sort order', async () => {
  for (const [sortBy, expected] of [
    [{ column: 'name', order: 'desc' }, byBytes.toReversed()],
    [{ column: 'name', order: 'asc' }, byBytes],
    [{ column: 'created_at', order: 'asc' }, keys],
    [{ column: 'created_at', order: 'desc' }, keys.toReversed()],
    [{ column: 'updated_at', order: 'asc' }, keys],
    [{ column: 'updated_at', order: 'desc' }, keys.toReversed()],
  ] as const)
    for (const limit of [3, 1000])
      assert.deepEqual(
        namesOf((await walk({ limit }, sortBy)).flatMap(({ objects }) => objects)),
        expected,
        JSON.stringify(sortBy),
      )
})

test('contract §4 files added after the cursor are listed, and files deleted before it change nothing', async () => {
  const own = await storage.bucket()
  for (const key of ['a', 'b', 'c', 'd']) await storage.store(own, key)
  const { nextCursor: cursor } = await list({ limit: 2 }, own)
  bodyOf(await storage.delete(`object/${own}/a`))
  await storage.store(own, 'c2')
  assert.deepEqual(namesOf((await list({ cursor }, own)).objects), ['c', 'c2', 'd'])
})

test('contract §4 the default and the maximum page size is 1000', async () => {
  const own = await storage.bucket()
  await storage.sql(`insert into storage.objects (bucket_id, name)
    select '${own}', 'f' || lpad(i::text, 4, '0') from generate_series(1, 1100) i`)
  const first = await list({}, own)
  assert.deepEqual([first.objects.length, first.hasNext], [1000, true])
  const rest = await list({ cursor: first.nextCursor }, own)
  assert.deepEqual([rest.objects.length, rest.hasNext, rest.objects[0].name], [100, false, 'f1001'])
  const reply = await storage.post(`object/list-v2/${own}`, { limit: 5000 })
  assertOneOf(reply, [200, 400])
  if (reply.status === 200) assert.equal(reply.body.objects.length, 1000)
})

for (const [what, body] of Object.entries({
  'an unknown column': { sortBy: { column: 'size', order: 'asc' } },
  'an unknown order': { sortBy: { column: 'name', order: 'sideways' } },
  'an invalid cursor': { cursor: 'nonsense' },
  'a forged cursor': { cursor: Buffer.from('{"k":"name; drop"}').toString('base64') },
  'a limit of 0': { limit: 0 },
  'a prefix that is not a string': { prefix: {} },
}))
  test(`contract §4 ${what} returns 400`, async () => {
    assertRefused(await storage.post(`object/list-v2/${bucket}`, body), 400)
  })

test('contract §4 a cursor gives no access to hidden files', async () => {
  const { nextCursor: cursor } = await list({ limit: 1 })
  const reply = await storage.post(`object/list-v2/${bucket}`, { cursor }, { as: 'anon' })
  assert.deepEqual(bodyOf(reply).objects, [])
})

test('contract §4 an unknown bucket returns an empty page', async () => {
  assert.deepEqual(await list({}, unique('none')), { hasNext: false, folders: [], objects: [] })
})
