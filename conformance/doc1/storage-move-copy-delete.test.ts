// 1 §4.6 and storage contract §1: move, copy and delete files, one or many.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { unique, uuid } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  ada,
  assertBytes,
  assertRefused,
  assertStatus,
  duplicate,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'

let it: Target
let storage: StorageApi
let bucket: string
let other: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
  other = await storage.bucket()
})
after(() => it.stop())

const metadata = { kept: 'ü' }
const headers = {
  'content-type': 'image/png',
  'cache-control': 'max-age=42',
  'x-metadata': Buffer.from(JSON.stringify(metadata)).toString('base64'),
}
/** A file with all kinds of metadata. */
async function stored(content: Uint8Array = randomBytes(70_000)) {
  const name = `from/${unique('file')}`
  const { Id } = await storage.store(bucket, name, content, { headers })
  return { name, content, Id }
}
const text = (value: unknown) => assert.ok(typeof value === 'string' && value !== '', `${value}`)

for (const shape of shapes)
  test(`contract §1 a move keeps the bytes and all metadata, on the ${shape} path`, async () => {
    const { name, content, Id } = await stored()
    const before = await storage.info(bucket, name)
    const to = `to/${unique('moved')}`
    const request = { bucketId: bucket, sourceKey: name, destinationKey: to }
    const reply = bodyOf(await storage.post('object/move', request, { shape }))
    text(reply.message)
    assert.deepEqual([reply.Id, reply.Key], [Id, to])
    await storage.assertMissing(bucket, name)
    assertBytes(await storage.read(bucket, to), content)
    const after = await storage.info(bucket, to)
    for (const field of ['id', 'size', 'content_type', 'cache_control', 'metadata', 'created_at'])
      assert.deepEqual(after[field], before[field], field)
  })

test('contract §1 a file can be moved to another bucket', async () => {
  const { name, content } = await stored()
  bodyOf(
    await storage.post('object/move', {
      bucketId: bucket,
      sourceKey: name,
      destinationKey: name,
      destinationBucket: other,
    }),
  )
  await storage.assertMissing(bucket, name)
  assertBytes(await storage.read(other, name), content)
  assert.equal((await storage.info(other, name)).bucket_id, other)
  assert.ok((await storage.keys(other)).includes(name))
  assert.ok(!(await storage.keys(bucket)).includes(name))
})

test('contract §1 a copy is a separate file with the same metadata', async () => {
  for (const shape of shapes) {
    const { name, content, Id } = await stored()
    const to = `to/${unique('copy')}`
    const request = { bucketId: bucket, sourceKey: name, destinationKey: to }
    const reply = bodyOf(await storage.post('object/copy', request, { shape }))
    assert.equal(reply.Key, `${bucket}/${to}`)
    assert.match(reply.Id, uuid)
    assert.notEqual(reply.Id, Id)
    assert.deepEqual([reply.name, reply.bucket_id], [to, bucket], 'the record of the copy')
    assertBytes(await storage.read(bucket, to), content)
    const copied = await storage.info(bucket, to)
    assert.deepEqual(
      [copied.id, copied.content_type, copied.cache_control, copied.metadata, copied.size],
      [reply.Id, 'image/png', 'max-age=42', metadata, 70_000],
    )
    bodyOf(await storage.delete(objectPath(bucket, name)))
    assertBytes(await storage.read(bucket, to), content, 'without the first')
  }
})

test('contract §2 a copy keeps x-robots-tag', async () => {
  const [name, to] = [unique('file'), unique('copy')]
  await storage.store(bucket, name, 'content', { headers: { 'x-robots-tag': 'noarchive' } })
  const request = { bucketId: bucket, sourceKey: name, destinationKey: to }
  bodyOf(await storage.post('object/copy', request))
  const { headers } = await storage.get(objectPath(bucket, to))
  assert.equal(headers.get('x-robots-tag'), 'noarchive')
})

test('contract §1 a file can be copied to another bucket', async () => {
  const { name, content } = await stored()
  const to = unique('copy')
  const reply = bodyOf(
    await storage.post('object/copy', {
      bucketId: bucket,
      sourceKey: name,
      destinationKey: to,
      destinationBucket: other,
    }),
  )
  assert.equal(reply.Key, `${other}/${to}`)
  assertBytes(await storage.read(other, to), content)
  assertBytes(await storage.read(bucket, name), content)
})

test('contract §1 a copy can get its own metadata', async () => {
  const { name } = await stored()
  const to = unique('copy')
  bodyOf(
    await storage.post(
      'object/copy',
      {
        bucketId: bucket,
        sourceKey: name,
        destinationKey: to,
        copyMetadata: false,
        metadata: { cacheControl: 'max-age=7', mimetype: 'image/webp' },
      },
      { headers: { 'x-metadata': Buffer.from('{"own":1}').toString('base64') } },
    ),
  )
  const { content_type, cache_control, metadata } = await storage.info(bucket, to)
  assert.deepEqual([content_type, cache_control, metadata], ['image/webp', 'max-age=7', { own: 1 }])
})

test('contract §1 a copy onto an existing file returns 409 without x-upsert', async () => {
  const [from, onto] = [await stored(), await stored()]
  const request = { bucketId: bucket, sourceKey: from.name, destinationKey: onto.name }
  for (const headers of [{}, { 'x-upsert': 'false' }])
    assertRefused(await storage.post('object/copy', request, { headers }), 409, duplicate)
  assertBytes(await storage.read(bucket, onto.name), onto.content)
  const { Id } = bodyOf(await storage.post('object/copy', request, { headers: upsert }))
  assertBytes(await storage.read(bucket, onto.name), from.content)
  assert.equal(Id, onto.Id)
})

test('contract §1 a move onto an existing file returns 409 and changes neither', async () => {
  const [from, onto] = [await stored(), await stored()]
  const request = { bucketId: bucket, sourceKey: from.name, destinationKey: onto.name }
  assertRefused(await storage.post('object/move', request), 409, duplicate)
  assertBytes(await storage.read(bucket, from.name), from.content)
  assertBytes(await storage.read(bucket, onto.name), onto.content)
})

for (const operation of ['object/move', 'object/copy'])
  test(`contract §7 ${operation} of a missing file returns 404, to an invalid key 400`, async () => {
    const { name, content } = await stored()
    const ask = (fields: Record<string, unknown>) =>
      storage.post(operation, { bucketId: bucket, sourceKey: name, destinationKey: 'x', ...fields })
    assertRefused(await ask({ sourceKey: 'missing' }), 404, 'NoSuchKey')
    assertRefused(await ask({ bucketId: unique('none') }), 404, ['NoSuchKey', 'NoSuchBucket'])
    for (const destinationKey of [
      '',
      '../x',
      'a/../x',
      'a//b',
      '/',
      'ü',
      'a\\b',
      'a\0b',
      'a/./b',
      'x'.repeat(2000),
    ])
      assertRefused(await ask({ destinationKey }), 400)
    for (const missing of ['bucketId', 'sourceKey', 'destinationKey'])
      assertRefused(await ask({ [missing]: undefined }), 400)
    assertBytes(await storage.read(bucket, name), content)
    assertRefused(await storage.get(objectPath(bucket, 'x')), 404)
  })

test('contract §1 a copy must meet the limits of its destination bucket', async () => {
  const { name } = await stored()
  const small = await storage.bucket({ file_size_limit: 1000 })
  const request = {
    bucketId: bucket,
    sourceKey: name,
    destinationKey: 'x',
    destinationBucket: small,
  }
  assertRefused(await storage.post('object/copy', request), 413, 'EntityTooLarge')
  const images = await storage.bucket({ allowed_mime_types: ['text/*'] })
  const wrong = { ...request, destinationBucket: images }
  assertRefused(await storage.post('object/copy', wrong), 415, 'InvalidMimeType')
})

for (const shape of shapes)
  test(`1 §4.6 a file is deleted by its path on the ${shape} path, and a second delete returns 404`, async () => {
    const { name } = await stored()
    text(bodyOf(await storage.delete(objectPath(bucket, name), undefined, { shape })).message)
    await storage.assertMissing(bucket, name)
    assertRefused(await storage.delete(objectPath(bucket, name), undefined, { shape }), 404, 'NoSuchKey')
  })

test('contract §1 a bulk delete returns a record per deleted file', async () => {
  const files = [await stored(), await stored(), await stored()]
  const prefixes = [files[0]!.name, 'missing', files[1]!.name, files[0]!.name]
  const removed: any[] = bodyOf(await storage.delete(`object/${bucket}`, { prefixes }))
  assert.deepEqual(removed.map(({ name }) => name).sort(), [files[0]!.name, files[1]!.name].sort())
  for (const record of removed) {
    assert.match(record.id, uuid)
    assert.equal(record.bucket_id, bucket)
    assert.ok('owner' in record)
    assert.equal(record.metadata.size, 70_000)
  }
  await storage.assertMissing(bucket, files[0]!.name)
  await storage.assertMissing(bucket, files[1]!.name)
  assertBytes(await storage.read(bucket, files[2]!.name), files[2]!.content)
})

test('contract §1 prefixes of a bulk delete are exact keys', async () => {
  const own = await storage.bucket()
  for (const key of ['a', 'a/b', 'ab', 'a_c']) await storage.store(own, key)
  const remove = async (prefixes: string[]) => bodyOf(await storage.delete(`object/${own}`, { prefixes }))
  for (const each of ['a/', 'a_', '', '*', 'A'])
    assert.deepEqual(await remove([each, 'missing']), [], JSON.stringify(each))
  assert.equal((await remove(['a'])).length, 1)
  assert.deepEqual(await storage.keys(own), ['a/b', 'a_c', 'ab'])
})

test('contract §1 a bulk delete accepts 1 to 1000 keys', async () => {
  const remove = (prefixes: unknown) => storage.delete(`object/${bucket}`, { prefixes })
  const names = (count: number) => Array.from({ length: count }, (_, i) => `missing-${i}`)
  assert.deepEqual(bodyOf(await remove(names(1000))), [])
  for (const prefixes of [[], names(1001), 'a', [5], undefined, null])
    assertRefused(await remove(prefixes), 400)
  assertRefused(await storage.delete(`object/${bucket}`), 400)
})

test('contract §1 a deleted key can be uploaded again, as a new file', async () => {
  const { name, Id } = await stored()
  bodyOf(await storage.delete(objectPath(bucket, name)))
  const again = await storage.store(bucket, name, 'again')
  assert.notEqual(again.Id, Id)
  assert.equal((await storage.read(bucket, name)).toString(), 'again')
})

test('contract §1 only service_role can purge the cache', async () => {
  const { name } = await stored()
  for (const path of [`cdn/${bucket}`, objectPath(bucket, name, 'cdn'), `cdn/${bucket}?transformations=true`])
    for (const shape of shapes) {
      text(bodyOf(await storage.delete(path, {}, { shape })).message)
      for (const as of ['anon', ada] as const)
        assertRefused(await storage.delete(path, {}, { as, shape }), 403)
    }
  assertStatus(await storage.get(objectPath(bucket, name)), 200)
})
