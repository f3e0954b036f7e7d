// 1 §4.6.2, §7 and case 32: a project stores at most max_storage_size_mb, on every upload path.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { bodyOf } from '../service.ts'
import {
  assertOneOf,
  assertStatus,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { until } from '../until.ts'
import { createUpload, requestUpload, sendPart, sendPieces } from '../uploads.ts'
import { assertRequestId, type Reply } from '../wire.ts'

let it: Target
before(async () => {
  it = await storageTarget()
})
after(() => it.stop())

/** The quota of these projects in bytes. */
const limit = 1024 * 1024
const bytes = (size: number) => Buffer.alloc(size, 'x')

async function limited(): Promise<{ storage: StorageApi; bucket: string }> {
  const storage = await storageProject(it, { max_storage_size_mb: 1 })
  return { storage, bucket: await storage.bucket() }
}

function assertOverQuota(reply: Reply, bucket: string, used?: number): void {
  assert.equal(reply.status, 413, `${reply.status} ${reply.text.slice(0, 300)}`)
  const { error, used_bytes, limit_bytes, statusCode, message } = reply.body
  assert.equal(error, 'storage_quota_exceeded')
  assert.equal(reply.body.bucket, bucket)
  assert.equal(limit_bytes, limit)
  assert.equal(statusCode, 413)
  assert.ok(typeof message === 'string' && message !== '')
  assert.ok(Number.isInteger(used_bytes) && used_bytes >= 0 && used_bytes <= limit, `${used_bytes}`)
  if (used !== undefined) assert.equal(used_bytes, used)
  assertRequestId(reply)
}

test('1 §4.6.2 an upload over the quota returns 413 with error, bucket, used_bytes and limit_bytes, and stores nothing', async () => {
  const { storage, bucket } = await limited()
  await storage.store(bucket, 'a', bytes(600_000))
  const left = limit - 600_000
  assertOverQuota(await storage.upload(bucket, 'b', bytes(left + 1)), bucket, 600_000)
  assertOverQuota(
    await storage.ask('PUT', objectPath(bucket, 'b'), { raw: bytes(left + 1) }),
    bucket,
    600_000,
  )
  assert.deepEqual(await storage.keys(bucket), ['a'])
  await storage.store(bucket, 'b', bytes(left))
  assert.equal(await storage.usage(), limit)
  assertOverQuota(await storage.upload(bucket, 'c', 'x'), bucket, limit)
  await storage.store(bucket, 'nothing', '')
})

test('case 32: a body without a length is stopped at the quota and leaves nothing behind', async () => {
  const { storage, bucket } = await limited()
  await storage.store(bucket, 'a', bytes(500_000))
  const pieces = Array.from({ length: 60 }, () => bytes(10_000))
  assertOverQuota(await sendPieces(storage, 'POST', objectPath(bucket, 'b'), pieces), bucket)
  assert.deepEqual(await storage.keys(bucket), ['a'])
  assert.equal(await storage.usage(), 500_000)
  bodyOf(await sendPieces(storage, 'POST', objectPath(bucket, 'b'), pieces.slice(0, 54)))
  assert.equal(await storage.usage(), 1_040_000)
})

test('issue 6: storage_bytes of a project equals the size of its files', async () => {
  const storage = await storageProject(it)
  const [bucket, other] = [await storage.bucket(), await storage.bucket()]
  const usage = async (expected: number) => assert.equal(await storage.usage(), expected)
  await usage(0)
  await storage.store(bucket, 'a', bytes(1000))
  await storage.store(other, 'b', bytes(100))
  await usage(1100)
  await storage.store(bucket, 'a', bytes(10), { headers: upsert })
  await usage(110)
  const carry = { bucketId: bucket, sourceKey: 'a', destinationKey: 'c' }
  bodyOf(await storage.post('object/copy', carry))
  await usage(120)
  bodyOf(await storage.post('object/move', { ...carry, destinationKey: 'd', destinationBucket: other }))
  await usage(120)
  bodyOf(await storage.delete(objectPath(bucket, 'c')))
  await usage(110)
  bodyOf(await storage.delete(`object/${other}`, { prefixes: ['b', 'missing'] }))
  await usage(10)
  bodyOf(await storage.post(`bucket/${other}/empty`, {}))
  await usage(0)
})

test('1 §4.6.2 deleting or replacing a file frees quota', async () => {
  const { storage, bucket } = await limited()
  await storage.store(bucket, 'a', bytes(limit))
  assertOverQuota(await storage.upload(bucket, 'b', 'x'), bucket, limit)
  bodyOf(await storage.delete(objectPath(bucket, 'a')))
  await storage.store(bucket, 'b', bytes(limit))
  bodyOf(await storage.delete(`object/${bucket}`, { prefixes: ['b'] }))
  await storage.store(bucket, 'c', bytes(400_000))
  await storage.store(bucket, 'c', bytes(500_000), { headers: upsert })
  await storage.store(bucket, 'd', bytes(limit - 500_000))
  assert.equal(await storage.usage(), limit)
})

test('1 §4.6.2 a copy uses quota, a move does not', async () => {
  const { storage, bucket } = await limited()
  await storage.store(bucket, 'a', bytes(600_000))
  const carry = { bucketId: bucket, sourceKey: 'a', destinationKey: 'b' }
  assertOverQuota(await storage.post('object/copy', carry), bucket, 600_000)
  bodyOf(await storage.post('object/move', carry))
  assert.deepEqual(await storage.keys(bucket), ['b'])
})

test('1 §4.6.2 creating a resumable upload with an Upload-Length over the quota returns 413', async () => {
  const { storage, bucket } = await limited()
  await storage.store(bucket, 'a', bytes(500_000))
  assertOverQuota(
    await requestUpload(storage, { bucket, key: 'b', length: limit - 499_999 }),
    bucket,
    500_000,
  )
  assertStatus(await requestUpload(storage, { bucket, key: 'b', length: limit - 500_000 }), 201)
})

test('case 32: the quota applies to a resumable upload with a deferred length', async () => {
  const { storage, bucket } = await limited()
  await storage.store(bucket, 'a', bytes(900_000))
  const headers = { 'upload-defer-length': '1' }
  const upload = await createUpload(storage, { bucket, key: 'b', headers })
  const reply = await upload.append(0, bytes(200_000))
  assert.equal(reply.status, 413, reply.text)
  assert.deepEqual(await storage.keys(bucket), ['a'])
  assertStatus(await upload.terminate(), 204)
  await until('room is given back', async () => (await storage.usage()) === 900_000)
  await storage.store(bucket, 'c', bytes(limit - 900_000))
})

test('1 §4.6.2 terminating a resumable upload frees its quota', async () => {
  const { storage, bucket } = await limited()
  const upload = await createUpload(storage, { bucket, key: 'a', length: limit })
  assertStatus(await upload.append(0, bytes(500_000)), 204)
  assertStatus(await upload.terminate(), 204)
  await storage.store(bucket, 'b', bytes(limit))
})

const twenty = Array.from({ length: 20 }, (_, i) => `file-${i}`)
/** Each upload fits alone, and at most ten fit together. */
const tenth = 100_000

type Way = (storage: StorageApi, bucket: string, key: string) => Promise<Reply>
/**
 * With the number that must succeed at least. Uploads without a length reserve more than they need, so any of
 * them can be rejected.
 */
const ways: [string, number, Way][] = [
  ['uploads', 10, (storage, bucket, key) => storage.upload(bucket, key, bytes(tenth))],
  [
    'uploads without a length',
    1,
    (storage, bucket, key) =>
      sendPieces(storage, 'POST', objectPath(bucket, key), [bytes(tenth / 2), bytes(tenth / 2)]),
  ],
  [
    'resumable uploads',
    10,
    (storage, bucket, key) => requestUpload(storage, { bucket, key, length: tenth, first: bytes(tenth) }),
  ],
]
for (const [what, least, way] of ways)
  test(`case 32: 20 parallel ${what} of a tenth of the quota do not exceed it`, async () => {
    const { storage, bucket } = await limited()
    const replies = await Promise.all(twenty.map(key => way(storage, bucket, key)))
    for (const reply of replies) if (reply.status >= 300) assertOverQuota(reply, bucket)
    const stored = replies.filter(({ status }) => status < 300).length
    assert.ok(stored >= least && stored <= 10, `${stored}`)
    assert.equal((await storage.keys(bucket)).length, stored)
    assert.equal(await storage.usage(), stored * tenth)
    await storage.store(bucket, 'rest', bytes(limit - stored * tenth))
  })

test('case 32: 20 parallel copies or replacements do not exceed the quota', async () => {
  const { storage, bucket } = await limited()
  await storage.store(bucket, 'a', bytes(tenth))
  const copies = await Promise.all(
    twenty.map(destinationKey =>
      storage.post('object/copy', { bucketId: bucket, sourceKey: 'a', destinationKey }),
    ),
  )
  assert.equal(copies.filter(({ status }) => status === 200).length, 9)
  assert.equal(await storage.usage(), 10 * tenth)
  const larger = await Promise.all(
    Array.from({ length: 6 }, () => storage.upload(bucket, 'a', bytes(tenth + 40_000), { headers: upsert })),
  )
  for (const reply of larger) assertOneOf(reply, [200, 413])
  const sizes = await storage.sql(`select sum((metadata ->> 'size')::int)::int as total from storage.objects`)
  assert.equal(await storage.usage(), sizes[0].total)
  assert.ok(sizes[0].total <= limit)
})

test('issue 6: an aborted upload uses no quota', async () => {
  const { storage, bucket } = await limited()
  for (let i = 0; i < 3; i++) {
    await sendPart(storage, 'POST', objectPath(bucket, `cut-${i}`), 600_000, bytes(300_000))
    await sendPart(storage, 'POST', objectPath(bucket, `cut-${i}`), 'chunked', bytes(300_000))
  }
  await until('nothing is left', async () => (await storage.usage()) === 0)
  await until(
    'all room is free',
    async () => (await storage.upload(bucket, 'a', bytes(limit))).status === 200,
  )
})

test('1 §8 a changed quota applies within about a second', async () => {
  const { storage, bucket } = await limited()
  assertOverQuota(await storage.upload(bucket, 'a', bytes(limit + 1)), bucket, 0)
  const path = `/projects/${storage.project.id}`
  bodyOf(await it.manage('PATCH', path, { quotas: { max_storage_size_mb: 2 } }))
  await until('the new quota counts', async () => {
    const { status } = await storage.upload(bucket, 'a', bytes(limit + 1), {
      headers: upsert,
    })
    return status === 200
  })
  bodyOf(await it.manage('PATCH', path, { quotas: { max_storage_size_mb: 1 } }))
  await until('the old quota counts', async () => {
    const { status } = await storage.upload(bucket, 'b', 'x', { headers: upsert })
    return status === 413
  })
  assert.equal((await storage.read(bucket, 'a')).length, limit + 1, 'what is there stays')
})
