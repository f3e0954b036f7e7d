// Storage contract §8 and case 31: errors and interruptions of resumable uploads.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { unique } from '../people.ts'
import { bodyOf } from '../service.ts'
import {
  assertBytes,
  assertOneOf,
  assertRefused,
  assertStatus,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { until } from '../until.ts'
import {
  createUpload,
  offsetType,
  type Resumable,
  requestUpload,
  sendPart,
  sendPieces,
  tusMetadata,
  tusVersion,
} from '../uploads.ts'

let it: Target
let storage: StorageApi
let bucket: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
})
after(() => it.stop())

const name = () => unique('file')
const created = (key: string, length: number) => createUpload(storage, { bucket, key, length })
const abc = Buffer.from('abc')

test('contract §8 a wrong offset returns 409 and changes nothing', async () => {
  const upload = await created(name(), 9)
  assertStatus(await upload.append(0, abc), 204)
  for (const offset of [0, 2, 4, 9, 1000]) assertStatus(await upload.append(offset, abc), 409)
  assert.equal(await upload.offset(), 3)
})

test('contract §8 an invalid offset returns 4xx', async () => {
  const upload = await created(name(), 9)
  for (const offset of ['-1', 'x', '1.5', ''])
    assertOneOf(await upload.append(0, abc, { headers: { 'upload-offset': offset } }), [400, 409])
  const headers = { ...tusVersion, ...offsetType }
  assertOneOf(await storage.ask('PATCH', upload.path, { raw: abc, headers }), [400, 409])
  assert.equal(await upload.offset(), 0)
})

test('contract §8 any other content type returns 415', async () => {
  const upload = await created(name(), 9)
  for (const type of [
    'application/octet-stream',
    'application/json',
    'text/plain',
    'multipart/form-data; boundary=x',
  ])
    assertStatus(await upload.append(0, abc, { headers: { 'content-type': type } }), 415)
  assert.equal(await upload.offset(), 0)
})

test('contract §8 a missing or different Tus-Resumable returns 412, on every method', async () => {
  const upload = await created(name(), 9)
  for (const headers of [{}, { 'tus-resumable': '0.2.2' }, { 'tus-resumable': '2.0.0' }] as Record<
    string,
    string
  >[]) {
    const creation = {
      'upload-length': '3',
      'upload-metadata': tusMetadata({ bucketName: bucket, objectName: name() }),
    }
    const replies = [
      await storage.post('upload/resumable', undefined, { headers: { ...creation, ...headers } }),
      await storage.head(upload.path, { headers }),
      await storage.delete(upload.path, undefined, { headers }),
      await storage.ask('PATCH', upload.path, {
        raw: abc,
        headers: { ...offsetType, 'upload-offset': '0', ...headers },
      }),
    ]
    for (const reply of replies) {
      assertStatus(reply, 412)
      assert.equal(reply.headers.get('tus-version'), '1.0.0')
    }
  }
  assert.equal(await upload.offset(), 0)
})

test('contract §8 a part beyond the length returns 413, and the upload can still be finished', async () => {
  const key = name()
  const upload = await created(key, 5)
  assertStatus(await upload.append(0, abc), 204)
  assertStatus(await upload.append(3, abc), 413)
  const headers = { ...tusVersion, ...offsetType }
  const offset = await upload.offset()
  assert.ok(offset >= 3 && offset <= 5)
  const streamed = await sendPieces(storage, 'PATCH', upload.path, [abc, abc], {
    headers: { ...headers, 'upload-offset': String(offset) },
  })
  assertOneOf(streamed, [413])
  await storage.assertMissing(bucket, key)
  const rest = Buffer.from('abcab').subarray(await upload.offset())
  assertStatus(await upload.append(await upload.offset(), rest), 204)
  assert.equal((await storage.read(bucket, key)).toString(), 'abcab')
})

test('contract §8 a first part longer than the length returns 413', async () => {
  const key = name()
  assertStatus(await requestUpload(storage, { bucket, key, length: 2, first: abc }), 413)
  await storage.assertMissing(bucket, key)
})

test('contract §8 an invalid length returns 400', async () => {
  for (const length of ['-1', 'x', '1.5', '', '1e3'])
    assertStatus(
      await requestUpload(storage, { bucket, key: name(), headers: { 'upload-length': length } }),
      400,
    )
  assertStatus(await requestUpload(storage, { bucket, key: name() }), 400)
  assertStatus(
    await requestUpload(storage, { bucket, key: name(), headers: { 'upload-defer-length': '2' } }),
    400,
  )
})

test('contract §8 a length over Tus-Max-Size returns 413', async () => {
  const { headers } = await storage.ask('OPTIONS', 'upload/resumable', { as: 'nobody' })
  const beyond = { 'upload-length': String(BigInt(headers.get('tus-max-size') ?? '') + 1n) }
  assertOneOf(await requestUpload(storage, { bucket, key: name(), headers: beyond }), [400, 413])
  const absurd = { 'upload-length': '99999999999999999999' }
  assertOneOf(await requestUpload(storage, { bucket, key: name(), headers: absurd }), [400, 413])
})

test('contract §8 invalid metadata, or metadata without a bucket or name, returns 400', async () => {
  const ask = (metadata: string | undefined) =>
    storage.post('upload/resumable', undefined, {
      headers: {
        ...tusVersion,
        'upload-length': '3',
        ...(metadata !== undefined && { 'upload-metadata': metadata }),
      },
    })
  const own = { bucketName: bucket, objectName: name() }
  for (const metadata of [
    undefined,
    '',
    tusMetadata({ objectName: name() }),
    tusMetadata({ bucketName: bucket }),
    `${tusMetadata({ bucketName: bucket })},objectName`,
    tusMetadata({ ...own, objectName: '' }),
    tusMetadata({ ...own, bucketName: '' }),
    `bucketName ***,objectName ***`,
    tusMetadata({ ...own, metadata: '{"no' }),
    tusMetadata({ ...own, objectName: '../x' }),
    tusMetadata({ ...own, objectName: 'a//b' }),
    tusMetadata({ ...own, objectName: 'ü' }),
    tusMetadata({ ...own, objectName: 'a\0b' }),
    tusMetadata({ ...own, objectName: 'x'.repeat(2000) }),
    tusMetadata({ ...own, bucketName: 'a/b' }),
  ])
    assertRefused(await ask(metadata), 400)
})

/** A PATCH that sends its second half only on resume(). */
function pausedPatch(upload: Resumable, offset: number, first: Buffer, second: Buffer) {
  const { promise, resolve } = Promise.withResolvers<void>()
  async function* pieces() {
    yield first
    await promise
    yield second
  }
  const headers = { ...tusVersion, ...offsetType, 'upload-offset': String(offset) }
  const length = String(first.length + second.length)
  return {
    resume: resolve,
    reply: sendPieces(storage, 'PATCH', upload.path, pieces(), {
      headers: { ...headers, 'content-length': length },
    }),
  }
}

test('case 31: of two concurrent PATCH requests one returns 423, and the other succeeds', async () => {
  const key = name()
  const content = randomBytes(200_000)
  const upload = await created(key, content.length)
  const two = [0, 1].map(() =>
    pausedPatch(upload, 0, content.subarray(0, 100_000), content.subarray(100_000)),
  )
  // The first one waits for the rest of its body, so only the other one can finish now.
  const { refused, slow } = await Promise.race(
    two.map(async ({ reply }, index) => ({ refused: await reply, slow: two[1 - index]! })),
  )
  assertRefused(refused, 423, 'ResourceLocked')
  assertStatus(await upload.append(0, content.subarray(0, 50)), 423)
  assertOneOf(await upload.terminate(), [423])
  await storage.assertMissing(bucket, key)
  slow.resume()
  assertStatus(await slow.reply, 204)
  assertBytes(await storage.read(bucket, key), content)
})

test('case 31: of many PATCH requests with the same part one succeeds', async () => {
  const key = name()
  const content = randomBytes(300_000)
  const upload = await created(key, content.length)
  const replies = await Promise.all(
    Array.from({ length: 6 }, () => upload.append(0, content.subarray(0, 150_000))),
  )
  assert.equal(replies.filter(({ status }) => status === 204).length, 1)
  for (const reply of replies) assertOneOf(reply, [204, 409, 423])
  assert.equal(await upload.offset(), 150_000)
  assertStatus(await upload.append(150_000, content.subarray(150_000)), 204)
  assertBytes(await storage.read(bucket, key), content)
})

test('case 31: after a connection is cut during a PATCH, the upload can continue from its offset', async () => {
  const key = name()
  const content = randomBytes(400_000)
  const upload = await created(key, content.length)
  const headers = { ...tusVersion, ...offsetType, 'upload-offset': '0' }
  await sendPart(storage, 'PATCH', upload.path, content.length, content.subarray(0, 250_000), headers)
  let offset = await until('the upload is free', async () => {
    const reply = await upload.head()
    return reply.status === 200 && Number(reply.headers.get('upload-offset'))
  })
  assert.ok(offset <= 250_000, `${offset}`)
  await storage.assertMissing(bucket, key)
  await until('it goes on', async () => {
    offset = await upload.offset()
    const { status } = await upload.append(offset, content.subarray(offset))
    if (status !== 204) assert.ok([409, 423].includes(status), `${status}`)
    return status === 204
  })
  const hash = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
  assert.equal(hash(await storage.read(bucket, key)), hash(content))
})

test('case 31: an upload cut off one byte before the end does not create the file', async () => {
  const key = name()
  const upload = await created(key, 100)
  const headers = { ...tusVersion, ...offsetType, 'upload-offset': '0' }
  for (const announced of [100, 'chunked'] as const) {
    const offset = await until('the upload is free', async () => {
      const reply = await upload.head()
      return reply.status === 200 && Number(reply.headers.get('upload-offset'))
    })
    const sent = { ...headers, 'upload-offset': String(offset) }
    await sendPart(storage, 'PATCH', upload.path, announced, Buffer.alloc(99 - offset, 'x'), sent)
    await storage.assertMissing(bucket, key)
  }
  await until('it goes on', async () => {
    const offset = await upload.offset()
    assert.ok(offset <= 99)
    return (await upload.append(offset, Buffer.alloc(100 - offset, 'x'))).status === 204
  })
  assert.equal((await storage.read(bucket, key)).toString(), 'x'.repeat(100))
})

test('case 31: an upload that conflicts at its end can be retried, and uses only the quota of its file', async () => {
  const own = await storageProject(it, { max_storage_size_mb: 1 })
  const files = await own.bucket()
  const content = randomBytes(600_000)
  const upload = await createUpload(own, { bucket: files, key: 'a', length: content.length })
  await own.store(files, 'a', 'in between')
  assertStatus(await upload.append(0, content), 409)
  bodyOf(await own.delete(objectPath(files, 'a')))
  const head = await upload.head()
  assertOneOf(head, [200, 404, 410])
  if (head.status === 200) {
    const offset = await upload.offset()
    const again = await upload.append(offset, content.subarray(offset))
    assertOneOf(again, [204, 404, 409, 410])
    if (again.status === 204) assertBytes(await own.read(files, 'a'), content)
  }
  const [{ total }] = await own.sql(
    `select coalesce(sum((metadata ->> 'size')::int), 0)::int as total from storage.objects`,
  )
  if (total > 0) assert.equal(await own.usage(), total, 'what is there is counted')
  const more = await own.upload(files, 'b', content)
  assert.equal(more.status, total > 0 ? 413 : 200, more.text)
})

test('case 31: HEAD does not wait for a running PATCH', async () => {
  const upload = await created(name(), 20)
  const slow = pausedPatch(upload, 0, Buffer.alloc(10, 'a'), Buffer.alloc(10, 'b'))
  assertOneOf(await upload.head(), [200, 423])
  slow.resume()
  assertStatus(await slow.reply, 204)
})
