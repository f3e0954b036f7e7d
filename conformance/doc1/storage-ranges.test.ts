// Storage contract §3: range requests.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { bodyOf } from '../service.ts'
import {
  assertBytes,
  assertOneOf,
  assertRefused,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
} from '../storage.ts'
import type { Target } from '../target.ts'

const small = Buffer.from('0123456789')
const large = randomBytes(9_000_001)

let it: Target
let storage: StorageApi
let bucket: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket({ public: true })
  await storage.store(bucket, 'small', small)
  await storage.store(bucket, 'large', large)
  await storage.store(bucket, 'empty', '')
})
after(() => it.stop())

const part = (name: string, range: string, way = 'object', method = 'GET') =>
  storage.ask(method, objectPath(bucket, name, way), { headers: { range } })

async function assertPart(name: string, range: string, from: number, to: number): Promise<void> {
  const whole = name === 'small' ? small : large
  const reply = await part(name, range)
  assert.equal(reply.status, 206, `${range}: ${reply.status} ${reply.text.slice(0, 300)}`)
  assert.equal(reply.headers.get('content-range'), `bytes ${from}-${to}/${whole.length}`)
  assert.equal(reply.headers.get('content-length'), String(to - from + 1))
  assert.ok(reply.bytes.equals(whole.subarray(from, to + 1)), range)
}

for (const [range, from, to] of [
  ['bytes=0-0', 0, 0],
  ['bytes=2-5', 2, 5],
  ['bytes=0-9', 0, 9],
  ['bytes=9-9', 9, 9],
  ['bytes=4-', 4, 9],
  ['bytes=0-', 0, 9],
  ['bytes=-3', 7, 9],
  ['bytes=-10', 0, 9],
  ['bytes=-99', 0, 9],
  ['bytes=8-99', 8, 9],
  ['bytes=0-99999999999999', 0, 9],
  ['bytes=1-18446744073709551615', 1, 9],
  ['bytes=-18446744073709551615', 0, 9],
] as const)
  test(`contract §3 ${range} of ten bytes returns bytes ${from} to ${to}`, () =>
    assertPart('small', range, from, to))

test('contract §3 ranges anywhere in a large file', async () => {
  const [frame, piece] = [65_536, 8 * 1024 * 1024]
  const edges = [frame, 2 * frame, piece - frame, piece, piece + frame]
  for (const edge of edges)
    for (const [from, to] of [
      [edge - 1, edge],
      [edge, edge],
      [edge - 1, edge - 1],
      [edge - 100, edge + 100_000],
    ] as const)
      await assertPart('large', `bytes=${from}-${to}`, from, to)
  await assertPart('large', 'bytes=-1', 9_000_000, 9_000_000)
  await assertPart('large', 'bytes=8999990-', 8_999_990, 9_000_000)
  await assertPart('large', 'bytes=1-', 1, 9_000_000)
})

for (const range of [
  'bytes=10-',
  'bytes=10-20',
  'bytes=99999999999999999999-',
  'bytes=5-2',
  'bytes=-0',
  'bytes=-',
  'bytes=a-b',
  'bytes=',
  'bytes=1.5-2',
  'bytes=--1',
  'bytes=0x1-2',
])
  test(`contract §3 ${range} of ten bytes returns 416`, async () => {
    for (const way of ['object', 'object/public'])
      assertRefused(await part('small', range, way), 416, 'InvalidRange')
  })

test('contract §3 every range of an empty file returns 416', async () => {
  for (const range of ['bytes=0-', 'bytes=0-0', 'bytes=-1'])
    assertRefused(await part('empty', range), 416, 'InvalidRange')
})

test('contract §3 a request for several ranges returns the whole file or 416', async () => {
  const reply = await part('small', 'bytes=0-1,4-5')
  assertOneOf(reply, [200, 416])
  if (reply.status === 200) assertBytes(reply.bytes, small)
})

test('contract §3 a partial response has the headers of the full one', async () => {
  const whole = await storage.get(objectPath(bucket, 'small'))
  const some = await part('small', 'bytes=1-2')
  for (const name of ['content-type', 'etag', 'last-modified', 'cache-control', 'accept-ranges'])
    assert.equal(some.headers.get(name), whole.headers.get(name), name)
  const download = await storage.get(`${objectPath(bucket, 'small')}?download=x`, {
    headers: { range: 'bytes=1-2' },
  })
  assert.match(download.headers.get('content-disposition') ?? '', /^attachment; filename=x;/)
})

test('contract §3 ranges work on the public route and with a signed URL', async () => {
  const url = bodyOf(
    await storage.post(objectPath(bucket, 'small', 'object/sign'), { expiresIn: 60 }),
  ).signedURL
  for (const path of [objectPath(bucket, 'small', 'object/public'), url.slice(1)]) {
    const reply = await storage.get(path, { as: 'nobody', headers: { range: 'bytes=-3' } })
    assert.deepEqual([reply.status, reply.text], [206, '789'])
  }
})

test('contract §3 a client that disconnects during a download causes no error', async () => {
  const url = `${it.url}/v1/storage/${storage.project.id}/${objectPath(bucket, 'large', 'object/public')}`
  for (let i = 0; i < 5; i++) {
    const hangUp = new AbortController()
    const reply = await fetch(url, { signal: hangUp.signal })
    await reply.body!.getReader().read()
    hangUp.abort()
  }
  await assertPart('large', 'bytes=0-99', 0, 99)
})
