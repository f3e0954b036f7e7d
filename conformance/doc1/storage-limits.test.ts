// 1 §4.6.1, §8 and storage contract §2: 50 MB per request, and the limits of a bucket.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { bodyOf } from '../service.ts'
import {
  assertRefused,
  assertStatus,
  headersOf,
  objectPath,
  type StorageApi,
  storageProject,
  storageRoot,
  storageTarget,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { createUpload, formOf, multipart, multipartType, requestUpload, sendPieces } from '../uploads.ts'
import { sendBytes } from '../wire.ts'

let it: Target
let storage: StorageApi
let bucket: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
})
after(() => it.stop())

const mega = Buffer.alloc(1_000_000, 'x')
const over = 50 * 1024 * 1024 + 1
function* megas(count: number, last = Buffer.alloc(0)): Generator<Buffer> {
  for (let i = 0; i < count; i++) yield mega
  yield last
}

/** Sends only the head: the server must answer without the body. */
function announce(method: string, path: string, length: number, type = 'text/plain') {
  const lines = Object.entries({
    host: 'x',
    ...headersOf(storage.project),
    'content-type': type,
    'content-length': String(length),
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  return sendBytes(
    it.url,
    `${method} ${storageRoot(storage.project)}/${path} HTTP/1.1\r\n${lines.join('')}\r\n`,
  )
}

test('1 §4.6.1 one request can upload 50 MB', async () => {
  const headers = { 'content-length': '50000000' }
  bodyOf(await sendPieces(storage, 'PUT', objectPath(bucket, 'large'), megas(50), { headers }))
  assert.equal((await storage.info(bucket, 'large')).size, 50_000_000)
  const hash = (pieces: Iterable<Buffer>) => {
    const sum = createHash('sha256')
    for (const piece of pieces) sum.update(piece)
    return sum.digest('hex')
  }
  assert.equal(hash([await storage.read(bucket, 'large')]), hash(megas(50)))
  bodyOf(await storage.delete(objectPath(bucket, 'large')))
})

test('1 §4.6.1 a Content-Length over 50 MB returns 413 before the body is sent', async () => {
  for (const method of ['POST', 'PUT'])
    assertRefused(await announce(method, objectPath(bucket, 'announced'), over), 413, 'EntityTooLarge')
  const { url } = bodyOf(await storage.post(objectPath(bucket, 'announced', 'object/upload/sign'), {}))
  assertRefused(await announce('PUT', url.slice(1), over), 413, 'EntityTooLarge')
  await storage.assertMissing(bucket, 'announced')
})

test('1 §4.6.1 a body over 50 MB without a length returns 413 during the upload, and nothing is stored', async () => {
  const before = await storage.usage()
  const path = objectPath(bucket, 'streamed')
  const reply = await sendPieces(storage, 'POST', path, megas(53))
  assertRefused(reply, 413, 'EntityTooLarge')
  await storage.assertMissing(bucket, 'streamed')
  assert.equal(await storage.usage(), before)
})

test('1 §4.6.1 resumable uploads accept larger files', async () => {
  const length = 53_000_000
  const upload = await createUpload(storage, { bucket, key: 'resumed', length })
  const sum = createHash('sha256')
  for (let offset = 0; offset < length; offset += 26_500_000) {
    const chunk = Buffer.alloc(26_500_000, String(offset))
    sum.update(chunk)
    assertStatus(await upload.append(offset, chunk), 204)
  }
  const stored = await storage.read(bucket, 'resumed')
  assert.equal(stored.length, length)
  assert.equal(createHash('sha256').update(stored).digest('hex'), sum.digest('hex'))
  bodyOf(await storage.delete(objectPath(bucket, 'resumed')))
})

const file = (content: string) => multipart([{ name: '', filename: 'x', type: 'text/plain', content }])

test('contract §2 a file of exactly the bucket’s size limit is accepted, one byte more returns 413', async () => {
  const small = await storage.bucket({ file_size_limit: '1KB' })
  const [fits, tooLong] = ['x'.repeat(1000), 'x'.repeat(1001)]
  const form = { 'content-type': multipartType }
  const ways: Record<string, (content: string) => Promise<any>> = {
    post: content => storage.upload(small, 'post', content),
    put: content => storage.ask('PUT', objectPath(small, 'put'), { raw: content }),
    chunked: content => sendPieces(storage, 'POST', objectPath(small, 'chunked'), [Buffer.from(content)]),
    multipart: content =>
      storage.ask('POST', objectPath(small, 'multipart'), { raw: file(content), headers: form }),
    'chunked multipart': content =>
      sendPieces(storage, 'POST', objectPath(small, 'chunked multipart'), [file(content)], { headers: form }),
  }
  for (const [name, way] of Object.entries(ways)) {
    assertRefused(await way(tooLong), 413, 'EntityTooLarge')
    await storage.assertMissing(small, name)
    bodyOf(await way(fits))
    assert.equal((await storage.info(small, name)).size, 1000)
  }
  assertRefused(
    await requestUpload(storage, { bucket: small, key: 'tus', length: 1001 }),
    413,
    'EntityTooLarge',
  )
  assertStatus(await requestUpload(storage, { bucket: small, key: 'tus', length: 1000 }), 201)
})

test('contract §2 the bucket’s size limit applies to an upload without a length', async () => {
  const small = await storage.bucket({ file_size_limit: '1KB' })
  const before = await storage.usage()
  const headers = { 'upload-defer-length': '1' }
  const upload = await createUpload(storage, { bucket: small, key: 'a', headers })
  assertRefused(await upload.append(0, Buffer.alloc(1001, 'x')), 413, 'EntityTooLarge')
  assert.ok((await storage.usage()) - before <= 1000)
  const offset = await upload.offset()
  const rest = Buffer.alloc(1000 - offset, 'x')
  assertStatus(await upload.append(offset, rest, { headers: { 'upload-length': '1000' } }), 204)
  assert.equal((await storage.read(small, 'a')).toString(), 'x'.repeat(1000))
})

test('contract §2 a file over the bucket’s size limit replaces nothing', async () => {
  const small = await storage.bucket({ file_size_limit: 10 })
  await storage.store(small, 'a', 'first')
  for (const pieces of [[Buffer.from('x'.repeat(11))], Array(11).fill(Buffer.from('x'))])
    assertRefused(await sendPieces(storage, 'PUT', objectPath(small, 'a'), pieces), 413, 'EntityTooLarge')
  assert.equal((await storage.read(small, 'a')).toString(), 'first')
})

test('contract §2 a changed size limit applies from the next upload', async () => {
  const small = await storage.bucket({ file_size_limit: 5 })
  assertRefused(await storage.upload(small, 'a', '123456'), 413)
  bodyOf(await storage.put(`bucket/${small}`, { file_size_limit: null }))
  await storage.store(small, 'a', '123456')
  bodyOf(await storage.put(`bucket/${small}`, { file_size_limit: 3, allowed_mime_types: ['image/*'] }))
  assertRefused(await storage.upload(small, 'b', '1234', { headers: { 'content-type': 'image/png' } }), 413)
  assertRefused(await storage.upload(small, 'b', '1'), 415, 'InvalidMimeType')
  assert.equal((await storage.read(small, 'a')).toString(), '123456', 'what is there stays')
})

test('contract §2 allowed types of a bucket are exact types or wildcards', async () => {
  const images = await storage.bucket({ allowed_mime_types: ['image/*', 'text/plain'] })
  const upload = (type: string) =>
    storage.upload(images, 'a', 'x', { headers: { 'content-type': type, 'x-upsert': 'true' } })
  for (const type of ['image/png', 'image/svg+xml', 'text/plain', 'text/plain;charset=UTF-8'])
    assertStatus(await upload(type), 200)
  for (const type of [
    'text/html',
    'text/plainer',
    'imagex/png',
    'application/image/png',
    'image',
    'text/*',
    '*/*',
  ])
    assertRefused(await upload(type), 415, 'InvalidMimeType')
  const untyped = await storage.ask('POST', objectPath(images, 'b'), { raw: Buffer.from('x') })
  assertRefused(untyped, 415, 'InvalidMimeType')
  assert.deepEqual(await storage.keys(images), ['a'])
})

test('contract §2 the type of the file part, of the contentType field or of the upload metadata is checked', async () => {
  const images = await storage.bucket({ allowed_mime_types: ['image/png'] })
  const part = (type: string, fields: { name: string; content: string }[] = []) =>
    storage.ask(
      'PUT',
      objectPath(images, 'a'),
      formOf([...fields, { name: '', filename: 'x', type, content: 'x' }]),
    )
  assertStatus(await part('image/png'), 200)
  assertRefused(await part('text/html'), 415, 'InvalidMimeType')
  assertStatus(await part('text/html', [{ name: 'contentType', content: 'image/png' }]), 200)
  assertRefused(await part('image/png', [{ name: 'contentType', content: 'text/html' }]), 415)
  const tus = (contentType: string) =>
    requestUpload(storage, { bucket: images, key: 'b', length: 1, fields: { contentType } })
  assertStatus(await tus('image/png'), 201)
  assertRefused(await tus('text/html'), 415, 'InvalidMimeType')
})

test('contract §2 a folder marker needs no allowed type', async () => {
  const images = await storage.bucket({ allowed_mime_types: ['image/png'] })
  await storage.store(images, 'folder/.emptyFolderPlaceholder', '')
})
