// Storage contract §2: multipart/form-data uploads, as sent by browsers and storage-js.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
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
import { boundary, formOf, multipart, multipartType, type Part, sendPieces } from '../uploads.ts'

let it: Target
let storage: StorageApi
let bucket: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
})
after(() => it.stop())

const key = () => `${unique('file')}.bin`
const post = (name: string, parts: Part[], method = 'POST') =>
  storage.ask(method, objectPath(bucket, name), formOf(parts))
const file = (content: string | Uint8Array, more: Partial<Part> = {}): Part => ({
  name: '',
  filename: 'blob',
  type: 'image/png',
  content,
  ...more,
})
const field = (name: string, content: string): Part => ({ name, content })

for (const shape of shapes)
  test(`contract §2 a file part with an empty name, as storage-js sends it, on the ${shape} path`, async () => {
    const name = key()
    const content = randomBytes(100_000)
    const form = new FormData()
    form.append('cacheControl', '3600')
    form.append('metadata', JSON.stringify({ by: 'ü' }))
    form.append('', new Blob([content], { type: 'image/webp' }))
    const reply = await storage.ask('POST', objectPath(bucket, name), { raw: form, shape })
    assert.equal(bodyOf(reply).Key, `${bucket}/${name}`)
    assertBytes(await storage.read(bucket, name, { shape }), content)
    const { content_type, cache_control, metadata, size } = await storage.info(bucket, name)
    assert.deepEqual(
      { content_type, cache_control, metadata, size },
      { content_type: 'image/webp', cache_control: 'max-age=3600', metadata: { by: 'ü' }, size: 100_000 },
    )
  })

test('contract §2 the file may contain bytes that look like the boundary', async () => {
  const name = key()
  const content = Buffer.from(`\r\n--${boundary.slice(0, -1)}\r\n\r\n--\r\n--${boundary.slice(1)}\r\n\r\n`)
  bodyOf(await post(name, [field('cacheControl', '60'), file(content)]))
  assertBytes(await storage.read(bucket, name), content)
  assert.equal((await storage.info(bucket, name)).cache_control, 'max-age=60')
})

test('contract §2 the file part can have any name, with or without a file name', async () => {
  for (const more of [{ name: 'file' }, { name: 'upload', filename: 'ü.png' }, { filename: '../../x' }]) {
    const name = key()
    bodyOf(await post(name, [file('content', more)]))
    assert.equal((await storage.read(bucket, name)).toString(), 'content')
    assert.equal((await storage.info(bucket, name)).content_type, 'image/png')
  }
})

test('contract §2 the default of cacheControl is no-cache, and metadata is optional', async () => {
  const name = key()
  bodyOf(await post(name, [file('content')]))
  const { cache_control, metadata } = await storage.info(bucket, name)
  assert.deepEqual([cache_control, metadata], ['no-cache', {}])
})

test('contract §2 the field contentType sets the type of the file', async () => {
  const name = key()
  bodyOf(await post(name, [field('contentType', 'text/csv'), file('a,b')]))
  assert.equal((await storage.info(bucket, name)).content_type, 'text/csv')
})

test('contract §2 PUT accepts the same body and replaces the file', async () => {
  const name = key()
  bodyOf(await post(name, [field('metadata', '{"a":1}'), file('first')], 'PUT'))
  bodyOf(await post(name, [file('second')], 'PUT'))
  assert.equal((await storage.read(bucket, name)).toString(), 'second')
  assert.deepEqual((await storage.info(bucket, name)).metadata, {})
  assertRefused(await post(name, [file('third')]), 409)
})

test('contract §2 files of zero bytes and of sizes around block boundaries', async () => {
  for (const size of [0, 1, 65_535, 65_536, 65_537, 300_000]) {
    const name = key()
    const content = randomBytes(size)
    bodyOf(await post(name, [file(content)]))
    assertBytes(await storage.read(bucket, name), content)
  }
})

test('contract §2 a body sent byte by byte is stored unchanged', async () => {
  const name = key()
  const body = multipart([field('cacheControl', '5'), file('\r\n-content-\r\n')])
  const pieces = Array.from(body, byte => Buffer.from([byte]))
  const headers = { 'content-type': multipartType }
  bodyOf(await sendPieces(storage, 'POST', objectPath(bucket, name), pieces, { headers }))
  assert.equal((await storage.read(bucket, name)).toString(), '\r\n-content-\r\n')
})

const refused: Record<string, () => Buffer> = {
  'two files': () => multipart([file('a'), file('b', { name: 'other' })]),
  'eleven fields': () =>
    multipart([...Array.from({ length: 11 }, (_, i) => field(`f${i}`, 'x')), file('content')]),
  'no file': () => multipart([field('cacheControl', '3600')]),
  'no parts': () => multipart([]),
  'invalid JSON as metadata': () => multipart([field('metadata', '{'), file('content')]),
  'metadata over 1 MiB': () =>
    multipart([field('metadata', JSON.stringify({ a: 'x'.repeat(1_100_000) })), file('content')]),
  'no closing boundary': () => multipart([file('content'.repeat(1000))]).subarray(0, -(boundary.length + 6)),
  'a truncated file': () => multipart([file('content'.repeat(1000))]).subarray(0, 5000),
  'no bytes': () => Buffer.alloc(0),
  'plain text': () => Buffer.from('just text'),
}
for (const [what, body] of Object.entries(refused))
  test(`contract §2 a multipart body with ${what} is rejected, and nothing is stored`, async () => {
    for (const method of ['POST', 'PUT']) {
      const name = key()
      const headers = { 'content-type': multipartType }
      const reply = await sendPieces(storage, method, objectPath(bucket, name), [body()], { headers })
      assertOneOf(reply, [400, 413, 422])
      await storage.assertMissing(bucket, name)
    }
  })

test('contract §2 a multipart body without a boundary returns 400', async () => {
  const reply = await storage.ask('POST', objectPath(bucket, key()), {
    raw: multipart([file('content')]),
    headers: { 'content-type': 'multipart/form-data' },
  })
  assertRefused(reply, 400)
})

test('contract §2 a body with ten fields and one file is accepted', async () => {
  const fields = Array.from({ length: 9 }, (_, i) => field(`f${i}`, 'x'))
  bodyOf(await post(key(), [...fields, field('cacheControl', '1'), file('content')]))
})
