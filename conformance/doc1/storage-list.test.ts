// Storage contract §4, version 1: list one folder of a bucket, files and folders together.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unique, uuid } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import { ada, assertRefused, type StorageApi, storageProject, storageTarget, upsert } from '../storage.ts'
import type { Target } from '../target.ts'

let it: Target
let storage: StorageApi
let bucket: string
const keys = [
  'b/1.txt',
  'a.txt',
  'Z.txt',
  'B.txt',
  'b/2.txt',
  '_under.txt',
  'C/deep/er/x.txt',
  'C/y.txt',
  '10.txt',
  '9.txt',
  'a_b/file.txt',
  'axb/file.txt',
  'same',
  'same/inside.txt',
]
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
  for (const key of keys) await storage.store(bucket, key, key)
})
after(() => it.stop())

const list = async (body: Record<string, unknown> = {}, of = bucket): Promise<any[]> =>
  bodyOf(await storage.post(`object/list/${of}`, { prefix: '', ...body }))
const namesOf = (entries: any[]): string[] => entries.map(({ name }) => name)
const names = async (body: Record<string, unknown> = {}) => namesOf(await list(body))
const by = (column: string, order = 'asc') => ({ sortBy: { column, order } })

// Lower-cased, in byte order: digits, then the underscore, then letters.
const inOrder = [
  '10.txt',
  '9.txt',
  '_under.txt',
  'a.txt',
  'a_b',
  'axb',
  'b',
  'B.txt',
  'C',
  'same',
  'same',
  'Z.txt',
]

test('contract §4 one level is listed: files and folders together, ordered by name', async () => {
  assert.deepEqual(await names(), inOrder)
  assert.deepEqual(await names(by('name')), inOrder)
  assert.deepEqual(await names(by('name', 'desc')), inOrder.toReversed())
  for (const shape of shapes) {
    const request = { prefix: '', limit: 100, offset: 0, ...by('name') }
    assert.deepEqual(
      namesOf(bodyOf(await storage.post(`object/list/${bucket}`, request, { shape }))),
      inOrder,
    )
  }
})

test('contract §4 all fields of a folder but its name are null, and its name has no slash', async () => {
  const folder = (await list()).find(({ name }) => name === 'b')
  assert.deepEqual(folder, {
    name: 'b',
    id: null,
    updated_at: null,
    created_at: null,
    last_accessed_at: null,
    metadata: null,
  })
})

test('contract §4 a file is listed with its metadata', async () => {
  const file = (await list()).find(({ name }) => name === 'a.txt')
  assert.deepEqual(
    Object.keys(file).sort(),
    ['created_at', 'id', 'last_accessed_at', 'metadata', 'name', 'updated_at'].sort(),
  )
  assert.match(file.id, uuid)
  assert.ok(Date.parse(file.created_at) > 0 && Date.parse(file.updated_at) > 0)
  const { eTag, lastModified, ...metadata } = file.metadata
  assert.deepEqual(metadata, {
    size: 5,
    mimetype: 'text/plain',
    cacheControl: 'no-cache',
    contentLength: 5,
    httpStatusCode: 200,
  })
  assert.match(eTag, /^"[^"]+"$/)
  assert.equal(new Date(lastModified).toISOString(), lastModified)
})

test('contract §4 names are relative to the prefix, with or without a trailing slash', async () => {
  for (const prefix of ['b', 'b/']) assert.deepEqual(await names({ prefix }), ['1.txt', '2.txt'])
  for (const prefix of ['C', 'C/']) assert.deepEqual(await names({ prefix }), ['deep', 'y.txt'])
  for (const prefix of ['C/deep', 'C/deep/']) assert.deepEqual(await names({ prefix }), ['er'])
  assert.deepEqual(await names({ prefix: 'C/deep/er' }), ['x.txt'])
  assert.deepEqual(await names({ prefix: 'same' }), ['inside.txt'])
})

test('contract §4 the prefix must be a folder: part of a name, a file or a missing folder returns an empty list', async () => {
  for (const prefix of ['ax', 'a.txt', 'nothing', 'C/de', 'C/deep/er/x.txt'])
    assert.deepEqual(await names({ prefix }), [], prefix)
})

test('contract §4 wildcard characters are matched literally', async () => {
  assert.deepEqual(await names({ prefix: 'a_b' }), ['file.txt'])
  for (const prefix of ['a%', '%', '_', 'a?b', 'a*b', 'a\\_b', '%/']) {
    const reply = await storage.post(`object/list/${bucket}`, { prefix })
    if (reply.status !== 400) assert.deepEqual(bodyOf(reply), [], prefix)
  }
  for (const search of ['%', 'a%', '\\', 'b_', '.*']) assert.deepEqual(await names({ search }), [], search)
  assert.deepEqual(await names({ search: '_' }), ['_under.txt'])
  assert.deepEqual(await names({ search: 'a_' }), ['a_b'])
})

test('contract §4 search matches the beginning of a name in the folder, case-insensitively', async () => {
  assert.deepEqual(await names({ search: 'b' }), ['b', 'B.txt'])
  assert.deepEqual(await names({ search: 'B' }), ['b', 'B.txt'])
  assert.deepEqual(await names({ search: 'SAME' }), ['same', 'same'])
  assert.deepEqual(await names({ search: 'txt' }), [], 'not somewhere in it')
  assert.deepEqual(await names({ search: 'x' }), [], 'not in a deeper folder')
  assert.deepEqual(await names({ prefix: 'b', search: '1' }), ['1.txt'])
  assert.deepEqual(await names({ prefix: 'C/', search: 'DE' }), ['deep'])
  assert.deepEqual(await names({ search: '' }), inOrder)
})

test('contract §4 limit and offset count folders and files together', async () => {
  for (let offset = 0; offset <= inOrder.length; offset += 5)
    assert.deepEqual(await names({ limit: 5, offset }), inOrder.slice(offset, offset + 5))
  assert.deepEqual(await names({ limit: 1, offset: 6 }), ['b'])
  assert.deepEqual(await names({ limit: 5, offset: 100 }), [])
  assert.deepEqual(await names({ limit: 3, ...by('name', 'desc') }), ['Z.txt', 'same', 'same'])
  assert.deepEqual(await names({ limit: 1, offset: 1, search: 'b' }), ['B.txt'])
})

test('contract §4 with another sort column folders come first, then the sorted files', async () => {
  const own = await storage.bucket()
  for (const key of ['z/1', 'm.txt', 'y/1', 'b.txt', 'x.txt']) await storage.store(own, key)
  for (const column of ['created_at', 'updated_at', 'last_accessed_at'])
    assert.deepEqual(namesOf(await list(by(column), own)).slice(0, 2), ['y', 'z'], column)
  for (const column of ['created_at', 'updated_at'])
    assert.deepEqual(namesOf(await list(by(column), own)), ['y', 'z', 'm.txt', 'b.txt', 'x.txt'])
  const descending = namesOf(await list(by('created_at', 'desc'), own))
  assert.deepEqual(descending.slice(0, 2).sort(), ['y', 'z'])
  assert.deepEqual(descending.slice(2), ['x.txt', 'b.txt', 'm.txt'])
  await storage.store(own, 'm.txt', 'again', { headers: upsert })
  assert.deepEqual(namesOf(await list(by('updated_at'), own)).slice(2), ['b.txt', 'x.txt', 'm.txt'])
  const pages = [0, 2, 4].map(offset => list({ limit: 2, offset, ...by('created_at') }, own))
  assert.deepEqual(namesOf((await Promise.all(pages)).flat()), ['y', 'z', 'm.txt', 'b.txt', 'x.txt'])
})

for (const [what, body] of Object.entries({
  'an unknown column': by('size'),
  'a column that is SQL': by('name; drop table storage.objects'),
  'an unknown order': by('name', 'sideways'),
  'a limit of 0': { limit: 0 },
  'a negative limit': { limit: -1 },
  'a limit that is not a number': { limit: 'many' },
  'a negative offset': { offset: -1 },
  'a prefix that is not a string': { prefix: 5 },
}))
  test(`contract §4 ${what} returns 400`, async () => {
    assertRefused(await storage.post(`object/list/${bucket}`, { prefix: '', ...body }), 400)
  })

test('contract §4 an unknown bucket returns an empty list for every caller', async () => {
  for (const as of ['service_role', 'anon', ada] as const)
    assert.deepEqual(bodyOf(await storage.post(`object/list/${unique('none')}`, { prefix: '' }, { as })), [])
})

test('contract §4 the default limit is 100, and a deleted file is not listed', async () => {
  const own = await storage.bucket()
  await storage.sql(`insert into storage.objects (bucket_id, name)
    select '${own}', 'f' || lpad(i::text, 4, '0') from generate_series(1, 1200) i`)
  assert.equal((await list({}, own)).length, 100)
  assert.equal((await list({ limit: 700 }, own)).length, 700)
  const rest = await list({ limit: 1000, offset: 1000 }, own)
  assert.deepEqual([rest.length, rest[0].name], [200, 'f1001'])
  await storage.store(own, 'a.txt')
  assert.equal((await list({ limit: 1 }, own))[0].name, 'a.txt')
  bodyOf(await storage.delete(`object/${own}/a.txt`))
  assert.equal((await list({ limit: 1 }, own))[0].name, 'f0001')
})

test('contract §2 a folder marker creates an empty folder and is not listed as a file', async () => {
  const own = await storage.bucket({ allowed_mime_types: ['image/png'] })
  await storage.store(own, 'new/.emptyFolderPlaceholder', '')
  assert.deepEqual(namesOf(await list({}, own)), ['new'])
})
