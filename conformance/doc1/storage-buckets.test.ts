// 1 §2.3, §4.6 and storage contract §1, §2: create, read, change, list, empty and delete buckets.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  ada,
  assertRefused,
  assertStatus,
  type StorageApi,
  storageProject,
  storageTarget,
} from '../storage.ts'
import type { Target } from '../target.ts'

let it: Target
let storage: StorageApi
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
})
after(() => it.stop())

const at = (id: string) => `bucket/${encodeURIComponent(id)}`
const create = (fields: Record<string, unknown>) => storage.post('bucket', fields)
const read = async (id: string) => bodyOf(await storage.get(at(id)))
const change = async (id: string, fields: Record<string, unknown>) =>
  bodyOf(await storage.put(at(id), fields))

const isTimestamp = (text: unknown) => typeof text === 'string' && !Number.isNaN(Date.parse(text))

for (const shape of shapes)
  test(`contract §1 a bucket is created, read, changed and deleted on the ${shape} path`, async () => {
    const id = unique('made')
    const fields = {
      id,
      name: id,
      public: true,
      file_size_limit: 1000,
      allowed_mime_types: ['image/png', 'text/*'],
    }
    assert.equal(bodyOf(await storage.post('bucket', fields, { shape })).name, id)
    const { created_at, updated_at, ...bucket } = bodyOf(await storage.get(at(id), { shape }))
    assert.deepEqual(bucket, { ...fields, owner: '', type: 'STANDARD' })
    assert.ok(isTimestamp(created_at) && isTimestamp(updated_at), `${created_at} ${updated_at}`)
    const changed = bodyOf(await storage.put(at(id), { id, name: id, public: false }, { shape }))
    assert.equal(typeof changed.message, 'string')
    assert.equal(bodyOf(await storage.get(at(id), { shape })).public, false)
    assert.equal(typeof bodyOf(await storage.delete(at(id), {}, { shape })).message, 'string')
    assertRefused(await storage.get(at(id), { shape }), 404, 'NoSuchBucket')
  })

test('1 §4.6 only an id is required: by default a bucket is private and has no limits', async () => {
  const id = unique('plain')
  assert.equal(bodyOf(await create({ id })).name, id)
  const { name, public: isPublic, file_size_limit, allowed_mime_types } = await read(id)
  assert.deepEqual(
    { name, isPublic, file_size_limit, allowed_mime_types },
    { name: id, isPublic: false, file_size_limit: null, allowed_mime_types: null },
  )
})

test('contract §7 a bucket without a name, or a body that is not an object, returns 400', async () => {
  for (const body of [{}, { public: true }, [], 'x', { id: 5 }, { id: unique('x'), public: 'maybe' }])
    assertRefused(await storage.post('bucket', body), 400)
  assertRefused(await storage.post('bucket', '{'), 400)
})

const sizes: [unknown, number][] = [
  [12345, 12345],
  ['20MB', 20_000_000],
  ['20mb', 20_000_000],
  ['1GB', 1_000_000_000],
  ['30KB', 30_000],
  ['3B', 3],
]
for (const [limit, bytes] of sizes)
  test(`contract §2 a size limit of ${JSON.stringify(limit)} is ${bytes} bytes`, async () => {
    const id = unique('sized')
    bodyOf(await create({ id, file_size_limit: limit }))
    assert.equal((await read(id)).file_size_limit, bytes)
    const other = await storage.bucket()
    await change(other, { file_size_limit: limit })
    assert.equal((await read(other)).file_size_limit, bytes)
  })

for (const limit of ['20XB', 'MB', 'much', '-3MB', -1, 1.5, true, {}])
  test(`contract §2 a size limit of ${JSON.stringify(limit)} returns 400`, async () => {
    const id = unique('unsized')
    assertRefused(await create({ id, file_size_limit: limit }), 400)
    assertRefused(await storage.get(at(id)), 404, 'NoSuchBucket')
  })

test('contract §2 a size limit above the quota of the project returns 413', async () => {
  const id = unique('huge')
  assertRefused(await create({ id, file_size_limit: '2GB' }), 413, 'EntityTooLarge')
  assertRefused(await storage.put(at(await storage.bucket()), { file_size_limit: '2GB' }), 413)
})

test('contract §1 a change keeps omitted fields, and null clears a field', async () => {
  const limits = { file_size_limit: 100, allowed_mime_types: ['image/*'] }
  const id = await storage.bucket({ public: true, ...limits })
  const before = await read(id)
  await change(id, { id: 'other', name: 'other', public: false })
  const after = await read(id)
  assert.deepEqual(
    { ...after, updated_at: '' },
    { ...before, updated_at: '', public: false },
    'only that, and id and name are ignored',
  )
  assert.ok(Date.parse(after.updated_at) >= Date.parse(before.updated_at))
  await change(id, { file_size_limit: null })
  assert.deepEqual(
    [(await read(id)).file_size_limit, (await read(id)).allowed_mime_types],
    [null, limits.allowed_mime_types],
  )
  await change(id, { allowed_mime_types: null, public: true })
  const cleared = await read(id)
  assert.deepEqual([cleared.allowed_mime_types, cleared.public], [null, true])
})

test('contract §7 every operation on a missing bucket returns 404', async () => {
  const id = unique('missing')
  for (const reply of [
    await storage.get(at(id)),
    await storage.put(at(id), { public: true }),
    await storage.delete(at(id), {}),
    await storage.post(`${at(id)}/empty`, {}),
  ])
    assertRefused(reply, 404, 'NoSuchBucket')
})

test('contract §7 creating a bucket with an existing name returns 409 and changes nothing', async () => {
  const id = await storage.bucket({ public: true })
  assertRefused(await create({ id, name: id, public: false }), 409, [
    'BucketAlreadyExists',
    'ResourceAlreadyExists',
  ])
  assert.equal((await read(id)).public, true)
})

test('contract §7 of concurrent requests to create the same bucket, one succeeds', async () => {
  const id = unique('raced')
  const replies = await Promise.all(Array.from({ length: 8 }, () => create({ id })))
  assert.deepEqual(replies.map(({ status }) => status).sort(), [200, ...Array(7).fill(409)])
})

const wrongNames: [string, string][] = [
  ['empty', ''],
  ['of 101 characters', 'a'.repeat(101)],
  ['with a slash', 'a/b'],
  ['with a leading space', ' a'],
  ['with a trailing space', 'a '],
  ['of a space', ' '],
  ['with an umlaut', 'bücher'],
  ['with a fullwidth letter', 'ａ'],
  ['with an emoji', 'a😀'],
  ['with a percent sign', 'a%b'],
  ['with a hash', 'a#b'],
  ['with a backslash', 'a\\b'],
  ['with a quote', 'a"b'],
  ['with a NUL', 'a\0b'],
  ['with a line feed', 'a\nb'],
  ['of a dot', '.'],
  ['of two dots', '..'],
]
for (const [what, id] of wrongNames)
  test(`contract §2 a bucket name ${what} returns 400`, async () => {
    assertRefused(await create({ id, name: id }), 400, ['InvalidBucketName', 'InvalidRequest'])
  })

for (const id of ['x', 'a'.repeat(100), 'Mixed_Case', "odd!-.*'() &$=@;:+,?", 'a..b', '0'])
  test(`contract §2 a bucket can be named ${JSON.stringify(id)}`, async () => {
    bodyOf(await create({ id, name: id }))
    assert.equal((await read(id)).id, id)
    const path = `object/${encodeURIComponent(id)}/a.txt`
    bodyOf(await storage.ask('POST', path, { raw: 'text' }))
    assert.equal((await storage.get(path)).text, 'text')
    bodyOf(await storage.delete(path))
    bodyOf(await storage.delete(at(id), {}))
  })

test('contract §1 deleting a bucket with files returns 409 until the bucket is emptied', async () => {
  const id = await storage.bucket()
  await storage.store(id, 'a.txt')
  await storage.store(id, 'deep/er/b.txt')
  assertRefused(await storage.delete(at(id), {}), 409, 'ResourceNotEmpty')
  assert.deepEqual(await storage.keys(id), ['a.txt', 'deep/er/b.txt'])
  assert.equal(typeof bodyOf(await storage.post(`${at(id)}/empty`, {})).message, 'string')
  assert.deepEqual(await storage.keys(id), [])
  assertRefused(await storage.get(`object/${id}/a.txt`), 404, 'NoSuchKey')
  bodyOf(await storage.delete(at(id), {}))
  assertRefused(await storage.get(at(id)), 404, 'NoSuchBucket')
})

test('contract §1 emptying a bucket affects no other bucket, and an empty bucket can be emptied', async () => {
  const [id, other] = [await storage.bucket(), await storage.bucket()]
  await storage.store(other, 'a.txt', 'kept')
  bodyOf(await storage.post(`${at(id)}/empty`, {}))
  assert.equal((await storage.read(other, 'a.txt')).toString(), 'kept')
})

test('contract §9 only service_role can empty a bucket, even if policies allow more', async () => {
  const open = await storageProject(it)
  await open.sql(`
    create policy everything on storage.objects for all using (true) with check (true);
    create policy everything on storage.buckets for all using (true) with check (true)`)
  const id = await open.bucket()
  await open.store(id, 'a.txt', 'kept')
  for (const as of ['anon', ada] as const) {
    assertRefused(await open.post(`${at(id)}/empty`, {}, { as }), 403)
    assert.equal((await open.read(id, 'a.txt', { as })).toString(), 'kept')
  }
  assertStatus(await open.post(`${at(id)}/empty`, {}, { as: 'nobody' }), 401)
  assert.deepEqual(await open.keys(id), ['a.txt'])
})

test('1 §2.3 a user- bucket cannot be public', async () => {
  const id = unique('user-files')
  assertRefused(await create({ id, name: id, public: true }), 400)
  assertRefused(await storage.get(at(id)), 404)
  bodyOf(await create({ id, name: id, public: false }))
  assertRefused(await storage.put(at(id), { public: true }), 400)
  assert.equal((await read(id)).public, false)
  await change(id, { file_size_limit: 5 })
  assert.equal((await read(id)).file_size_limit, 5)
})

test('contract §1 buckets can be listed with search, sort and paging', async () => {
  const own = await storageProject(it)
  assert.deepEqual(bodyOf(await own.get('bucket')), [])
  for (const id of ['pear', 'apple', 'plum']) await own.bucket({ id, name: id })
  const list = async (query: string) =>
    bodyOf(await own.get(`bucket${query}`)).map(({ id }: { id: string }) => id)
  assert.deepEqual((await list('')).sort(), ['apple', 'pear', 'plum'])
  for (const shape of shapes) assert.equal(bodyOf(await own.get('bucket', { shape })).length, 3)
  assert.deepEqual(await list('?sortColumn=name&sortOrder=asc'), ['apple', 'pear', 'plum'])
  assert.deepEqual(await list('?sortColumn=id&sortOrder=desc'), ['plum', 'pear', 'apple'])
  assert.deepEqual(await list('?sortColumn=created_at&sortOrder=asc'), ['pear', 'apple', 'plum'])
  assert.deepEqual(await list('?sortColumn=created_at&sortOrder=desc'), ['plum', 'apple', 'pear'])
  bodyOf(await own.put(at('pear'), { public: true }))
  assert.equal((await list('?sortColumn=updated_at&sortOrder=desc'))[0], 'pear')
  const byName = 'sortColumn=name&sortOrder=asc'
  assert.deepEqual(await list(`?limit=2&${byName}`), ['apple', 'pear'])
  assert.deepEqual(await list(`?limit=2&offset=2&${byName}`), ['plum'])
  assert.deepEqual(await list(`?limit=2&offset=5&${byName}`), [])
  assert.deepEqual(await list('?search=appl'), ['apple'])
  assert.deepEqual(await list(`?search=p&${byName}&limit=1`), ['apple'])
  assert.deepEqual(await list('?search=%25'), [])
  assert.deepEqual(await list('?search=p_ar'), [])
  const [first] = bodyOf(await own.get(`bucket?${byName}`))
  assert.deepEqual(first, bodyOf(await own.get(at('apple'))), 'the same record as when it is read alone')
})

for (const query of [
  'sortColumn=owner',
  'sortColumn=name;drop',
  'sortOrder=up',
  'limit=x',
  'limit=-1',
  'offset=-1',
])
  test(`1 §7 listing buckets with ${query} returns 400`, async () => {
    assertRefused(await storage.get(`bucket?${query}`), 400)
  })

test('1 §1 a project does not see the buckets of another', async () => {
  const [mine, theirs] = [await storageProject(it), await storageProject(it)]
  const id = await theirs.bucket({ public: true })
  await theirs.store(id, 'a.txt')
  assert.deepEqual(bodyOf(await mine.get('bucket')), [])
  assertRefused(await mine.get(at(id)), 404, 'NoSuchBucket')
  assertRefused(await mine.get(`object/public/${id}/a.txt`, { as: 'nobody' }), 404)
  bodyOf(await mine.post('bucket', { id }))
  assert.deepEqual(await mine.keys(id), [])
})
