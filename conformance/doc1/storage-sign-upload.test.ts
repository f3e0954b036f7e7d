// Storage contract §1, §5: signed URLs for uploading one file.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { nowSeconds, unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  type Ask,
  ada,
  assertRefused,
  bob,
  claimsOf,
  duplicate,
  letAdaWrite,
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
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
  await letAdaWrite(storage, bucket)
})
after(() => it.stop())

const signing = (key: string, options: Ask = {}, of = bucket) =>
  storage.post(objectPath(of, key, 'object/upload/sign'), {}, options)
const sign = async (key: string, options?: Ask, of?: string): Promise<{ url: string; token: string }> =>
  bodyOf(await signing(key, options, of))
const put = (url: string, raw: RequestInit['body'] = 'content', options: Ask = {}) =>
  storage.ask('PUT', url.slice(1), { raw, as: 'nobody', ...options })
const key = () => `folder/${unique('file')}.txt`

for (const shape of shapes)
  test(`contract §1 a signed upload needs no credential, on the ${shape} path`, async () => {
    const name = key()
    const { url, token } = await sign(name, { shape })
    assert.equal(url, `/object/upload/sign/${bucket}/${name}?token=${token}`)
    const headers = { 'content-type': 'image/png', 'cache-control': 'max-age=5' }
    assert.equal(bodyOf(await put(url, 'content', { shape, headers })).Key, `${bucket}/${name}`)
    assert.equal((await storage.read(bucket, name)).toString(), 'content')
    const { content_type, cache_control } = await storage.info(bucket, name)
    assert.deepEqual([content_type, cache_control], ['image/png', 'max-age=5'])
  })

test('contract §2 the body can be multipart, as storage-js sends a Blob', async () => {
  const name = key()
  const form = new FormData()
  form.append('cacheControl', '3600')
  form.append('', new Blob(['content'], { type: 'image/webp' }))
  bodyOf(await put((await sign(name)).url, form))
  const { content_type, cache_control } = await storage.info(bucket, name)
  assert.deepEqual([content_type, cache_control], ['image/webp', 'max-age=3600'])
})

test('contract §5 the token is valid for 7200 seconds and names the file, the owner and upsert', async () => {
  const name = key()
  for (const [options, owner, isUpsert] of [
    [{}, null, false],
    [{ headers: upsert }, null, true],
    [{ as: ada }, ada.sub, false],
  ] as const) {
    const { iat, exp, ...claims } = claimsOf((await sign(name, options)).token)
    assert.deepEqual(claims, { url: `${bucket}/${name}`, owner, upsert: isUpsert, scope: 'upload' })
    assert.equal(exp - iat, 7200)
    assert.ok(Math.abs(iat - nowSeconds()) <= 30)
  }
})

test('contract §5 the signing user owns the file, and the upload checks no policy again', async () => {
  const name = key()
  const { url } = await sign(name, { as: ada })
  bodyOf(await put(url))
  const [row] = await storage.sql(`select owner_id from storage.objects where name = '${name}'`)
  assert.equal(row.owner_id, ada.sub)
})

test('contract §5 without upsert a token uploads one file once', async () => {
  const name = key()
  const { url } = await sign(name)
  bodyOf(await put(url, 'first'))
  assertRefused(await put(url, 'second'), 409, duplicate)
  assertRefused(await put(url, 'second', { headers: upsert }), 409, duplicate)
  assert.equal((await storage.read(bucket, name)).toString(), 'first')
  assertRefused(await signing(name), 409, duplicate)
})

test('contract §5 without upsert a file uploaded after the signing is not replaced', async () => {
  const name = key()
  const { url } = await sign(name)
  await storage.store(bucket, name, 'in between')
  assertRefused(await put(url, 'late'), 409, duplicate)
  assert.equal((await storage.read(bucket, name)).toString(), 'in between')
})

test('contract §5 with upsert a token can replace the file several times', async () => {
  const name = key()
  await storage.store(bucket, name, 'first')
  const { url } = await sign(name, { headers: upsert })
  for (const content of ['second', 'third']) {
    bodyOf(await put(url, content))
    assert.equal((await storage.read(bucket, name)).toString(), content)
  }
})

test('contract §5 signing requires permission to insert', async () => {
  assertRefused(await signing(key(), { as: 'anon' }), 403, 'AccessDenied')
  assertRefused(await signing(key(), { as: bob }), 403, 'AccessDenied')
  bodyOf(await signing(key(), { as: ada }))
  const name = key()
  await storage.store(bucket, name)
  assertRefused(await signing(name, { as: ada, headers: upsert }), 403, 'AccessDenied')
  assertRefused(await signing(key(), { as: 'nobody' }), 401)
})

test('clarifications: signing for an unknown bucket returns 404 for callers who cannot create it', async () => {
  assertRefused(await signing(key(), { as: ada }, unique('none')), 404, 'NoSuchBucket')
})

test('case 18: a user cannot sign for the prefix of another user in a user- bucket', async () => {
  const own = await storage.bucket({ id: unique('user-signed') })
  bodyOf(await signing(`${ada.sub}/a.txt`, { as: ada }, own))
  for (const as of [bob, 'anon'] as const)
    assertRefused(await signing(`${ada.sub}/a.txt`, { as }, own), 403, 'AccessDenied')
})

test('case 17: a changed path, bucket or token uploads nothing', async () => {
  const name = key()
  const { token } = await sign(name)
  const other = await storage.bucket()
  const at = (key: string, token: string, of = bucket) =>
    `/${objectPath(of, key, 'object/upload/sign')}?token=${token}`
  assertRefused(await put(at(`${name}x`, token)), 400, 'InvalidSignature')
  assertRefused(await put(at(name, token, other)), 400, 'InvalidSignature')
  for (const wrong of ['', 'x', 'a.b.c', token.slice(0, -2), `${token}AA`, token.replace(/\..*\./, '.e30.')])
    assertRefused(await put(at(name, wrong)), 400)
  assertRefused(await put(`/${objectPath(bucket, name, 'object/upload/sign')}`), 400)
  assert.deepEqual(await storage.keys(other), [])
  assertRefused(await storage.get(objectPath(bucket, name)), 404)
})

test('contract §2 the limits of the bucket apply to signed uploads', async () => {
  const own = await storage.bucket({ file_size_limit: 10, allowed_mime_types: ['image/png'] })
  const { url } = await sign('a', {}, own)
  const headers = { 'content-type': 'image/png' }
  assertRefused(await put(url, 'x'.repeat(11), { headers }), 413, 'EntityTooLarge')
  assertRefused(await put(url, 'x', { headers: { 'content-type': 'text/plain' } }), 415, 'InvalidMimeType')
  bodyOf(await put(url, 'x'.repeat(10), { headers }))
})
