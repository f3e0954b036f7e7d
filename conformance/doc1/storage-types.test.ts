// Issue "Files": the type of a file whose client sent none, and transformations that look at the bytes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import sharp from 'sharp'
import { unique } from '../people.ts'
import { bodyOf } from '../service.ts'
import {
  ada,
  assertBytes,
  assertRefused,
  assertStatus,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { createUpload, formOf, sendPieces } from '../uploads.ts'

let it: Target
let storage: StorageApi
let bucket: string
let pictures: string
let png: Buffer
const html = Buffer.from('<!doctype html><script>alert(1)</script>')
const pdf = Buffer.from('%PDF-1.7\n%âãÏÓ\n1 0 obj\n')
const untyped = 'application/octet-stream'
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
  pictures = await storage.bucket({ allowed_mime_types: ['image/*'] })
  png = await sharp({ create: { width: 40, height: 20, channels: 3, background: '#f00' } })
    .png({ compressionLevel: 0 })
    .toBuffer()
})
after(() => it.stop())

const key = () => unique('file')
const typeOf = async (name: string, from = bucket) => (await storage.info(from, name)).content_type
/** A raw body without a content type, which fetch sends only for bytes. */
const raw = (name: string, content: Uint8Array, to = bucket, as?: typeof ada) =>
  storage.ask('POST', objectPath(to, name), { raw: new Uint8Array(content), ...(as && { as }) })
const resumed = async (name: string, content: Buffer, to: string, chunk = content.length) => {
  const upload = await createUpload(storage, { bucket: to, key: name, length: content.length })
  for (let at = 0; ; at += chunk) {
    const reply = await upload.append(at, content.subarray(at, at + chunk))
    if (reply.status !== 204 || at + chunk >= content.length) return reply
  }
}
const width = async (name: string, from = bucket) => {
  const reply = await storage.get(`render/image/authenticated/${from}/${name}?width=10`)
  assertStatus(reply, 200)
  return (await sharp(reply.bytes).metadata()).width
}

test('Issue: a file without a type is stored as the type that its first bytes show', async () => {
  const ways: Record<string, (name: string, content: Buffer) => Promise<unknown>> = {
    'a raw body': (name, content) => raw(name, content).then(bodyOf),
    'a chunked body in single bytes': (name, content) =>
      sendPieces(storage, 'POST', objectPath(bucket, name), [
        ...[...content.subarray(0, 40)].map(byte => Buffer.of(byte)),
        content.subarray(40),
      ]).then(bodyOf),
    'a form with a Blob without a type': (name, content) => {
      const form = new FormData()
      form.append('', new Blob([new Uint8Array(content)]))
      return storage.ask('POST', objectPath(bucket, name), { raw: form }).then(bodyOf)
    },
    'a resumable upload': (name, content) =>
      resumed(name, content, bucket).then(reply => assertStatus(reply, 204)),
    'a resumable upload in small chunks': (name, content) =>
      resumed(name, content, bucket, 7).then(reply => assertStatus(reply, 204)),
  }
  const small = await sharp({ create: { width: 1, height: 1, channels: 3, background: '#f00' } })
    .png()
    .toBuffer()
  for (const [way, send] of Object.entries(ways))
    for (const [content, type] of [
      [small, 'image/png'],
      [pdf, 'application/pdf'],
      [html, untyped],
    ] as const) {
      const name = key()
      await send(name, content)
      assert.equal(await typeOf(name), type, `${way}: ${type}`)
      assertBytes(await storage.read(bucket, name), content)
    }
})

test('Issue: a declared type is kept, whatever the bytes show', async () => {
  for (const type of ['text/plain;charset=UTF-8', 'application/octet-stream', 'image/gif']) {
    const name = key()
    bodyOf(await storage.upload(bucket, name, png, { headers: { 'content-type': type } }))
    assert.equal(await typeOf(name), type)
  }
  const name = key()
  bodyOf(
    await storage.ask('POST', objectPath(bucket, name), {
      ...formOf([
        { name: 'contentType', content: untyped },
        { name: '', filename: 'a', type: untyped, content: png },
      ]),
    }),
  )
  assert.equal(await typeOf(name), untyped)
})

test('Issue: without a type, active content is an attachment that browsers do not interpret', async () => {
  for (const content of [html, Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>')]) {
    const name = key()
    bodyOf(await raw(name, content))
    const { headers } = await storage.get(objectPath(bucket, name))
    assert.deepEqual(
      [
        headers.get('content-type'),
        headers.get('content-disposition'),
        headers.get('x-content-type-options'),
      ],
      [untyped, 'attachment', 'nosniff'],
    )
  }
})

test('Issue: the bucket decides on the type that is stored', async () => {
  const name = key()
  bodyOf(await raw(name, png, pictures))
  assert.equal(await typeOf(name, pictures), 'image/png')
  for (const content of [html, pdf, Buffer.alloc(0)])
    assertRefused(await raw(key(), content, pictures), 415, 'InvalidMimeType')
  const used = await storage.usage()
  const form = new FormData()
  form.append('', new Blob([new Uint8Array(pdf)]))
  const refused = await storage.ask('POST', objectPath(pictures, key()), { raw: form })
  assertRefused(refused, 415, 'InvalidMimeType')
  assert.equal(await storage.usage(), used)
})

test('Issue: the bucket decides on the type of a resumable upload when it is complete', async () => {
  const name = key()
  assertStatus(await resumed(name, png, pictures, 1000), 204)
  assert.equal(await typeOf(name, pictures), 'image/png')
  const used = await storage.usage()
  const other = key()
  const upload = await createUpload(storage, { bucket: pictures, key: other, length: pdf.length })
  assertRefused(await upload.append(0, pdf), 415, 'InvalidMimeType')
  await storage.assertMissing(pictures, other)
  assert.equal((await upload.head()).status, 404)
  assert.equal(await storage.usage(), used)
})

test('Issue: policies see the type that is stored', async () => {
  await storage.sql(`create policy pictures on storage.objects for insert to authenticated
    with check (bucket_id = '${bucket}' and metadata ->> 'mimetype' like 'image/%')`)
  bodyOf(await raw(key(), png, bucket, ada))
  assertRefused(await raw(key(), pdf, bucket, ada), 403, 'AccessDenied')
})

test('Issue: a refusal after the first bytes leaves the connection usable', async () => {
  const large = Buffer.concat([pdf, Buffer.alloc(3_000_000)])
  for (let round = 0; round < 3; round++)
    assertRefused(await raw(key(), large, pictures), 415, 'InvalidMimeType')
  assert.equal((await storage.get(`bucket/${bucket}`)).status, 200)
})

test('Issue: an image can be transformed whatever type it is stored with', async () => {
  for (const type of [undefined, 'text/plain;charset=UTF-8', untyped, 'application/pdf', 'image/gif']) {
    const name = key()
    bodyOf(
      type === undefined
        ? await raw(name, png)
        : await storage.upload(bucket, name, png, { headers: { 'content-type': type } }),
    )
    assert.equal(await width(name), 10, type)
  }
})

test('Issue: other files cannot be transformed', async () => {
  for (const [content, type] of [
    [html, 'text/plain'],
    [pdf, untyped],
    [html, 'image/png'],
    [Buffer.alloc(0), 'text/plain'],
  ] as const) {
    const name = key()
    bodyOf(await storage.upload(bucket, name, content, { headers: { 'content-type': type } }))
    const reply = await storage.get(`render/image/authenticated/${bucket}/${name}?width=10`)
    assertRefused(reply, 400, 'InvalidRequest')
  }
})

test('Issue: info() has an empty object as metadata if there is none', async () => {
  const name = key()
  await storage.store(bucket, name, 'x')
  for (const path of ['object/info', 'object/info/authenticated'])
    assert.deepEqual(bodyOf(await storage.get(`${path}/${bucket}/${name}`)).metadata, {})
})
