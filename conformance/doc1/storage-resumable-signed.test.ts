// Storage contract §8: resumable uploads with a signed upload token instead of a credential.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { jwt, nowSeconds, unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  type Ask,
  ada,
  assertOneOf,
  assertRefused,
  assertStatus,
  duplicate,
  letAdaWrite,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
  tokenIn,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { requestUpload, resumable, tusVersion } from '../uploads.ts'

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

const path = 'upload/resumable/sign'
const name = () => `folder/${unique('file')}`
const sign = async (key: string, options: Ask = {}): Promise<string> =>
  bodyOf(await storage.post(objectPath(bucket, key, 'object/upload/sign'), {}, options)).token
const start = (
  key: string,
  signature: string | undefined,
  { headers, ...more }: Ask & { first?: Buffer } = {},
) =>
  requestUpload(storage, {
    bucket,
    key,
    length: 6,
    path,
    as: 'nobody',
    headers: { ...(signature !== undefined && { 'x-signature': signature }), ...headers },
    ...more,
  })

for (const shape of shapes)
  test(`contract §8 a token replaces the credential, on the ${shape} path`, async () => {
    const key = name()
    const token = await sign(key, { as: ada })
    const reply = await start(key, token, { shape })
    const upload = resumable(storage, reply, { as: 'nobody', shape, headers: { 'x-signature': token } })
    assert.match(upload.path, /^upload\/resumable\/sign\/[^/]+$/)
    assertStatus(await upload.append(0, Buffer.from('abc')), 204)
    assert.equal(await upload.offset(), 3)
    const last = await upload.append(3, Buffer.from('def'))
    assertStatus(last, 204)
    assert.equal(last.headers.get('tus-complete'), '1')
    assert.equal((await storage.read(bucket, key)).toString(), 'abcdef')
    const [row] = await storage.sql(`select owner_id from storage.objects where name = '${key}'`)
    assert.equal(row.owner_id, ada.sub, 'it belongs to who signed')
  })

test('contract §8 the creation request can contain the whole file', async () => {
  const key = name()
  assertStatus(await start(key, await sign(key), { first: Buffer.from('abcdef') }), 201)
  assert.equal((await storage.read(bucket, key)).toString(), 'abcdef')
})

test('contract §8 the token, not the x-upsert header, decides whether a file is replaced', async () => {
  const key = name()
  const [once, again] = [await sign(key), await sign(key, { headers: upsert })]
  await storage.store(bucket, key, 'first')
  assertRefused(await start(key, once), 409, duplicate)
  assertRefused(await start(key, once, { headers: upsert }), 409, duplicate)
  const reply = await start(key, again, { headers: { 'x-upsert': 'false' } })
  const upload = resumable(storage, reply, { as: 'nobody', headers: { 'x-signature': again } })
  assertStatus(await upload.append(0, Buffer.from('second')), 204)
  assert.equal((await storage.read(bucket, key)).toString(), 'second')
})

test('case 17: another name or bucket, a changed token or no token creates no upload', async () => {
  const key = name()
  const token = await sign(key)
  assertRefused(await start(`${key}x`, token), 400, 'InvalidSignature')
  const elsewhere = await requestUpload(storage, {
    bucket: await storage.bucket(),
    key,
    length: 6,
    path,
    as: 'nobody',
    headers: { 'x-signature': token },
  })
  assertRefused(elsewhere, 400, 'InvalidSignature')
  for (const wrong of ['', 'x', 'a.b.c', token.slice(0, -3), `${token}AA`])
    assertRefused(await start(key, wrong), 400)
  assertOneOf(await start(key, undefined), [400, 401])
  await storage.store(bucket, key, 'x')
  const signing = await storage.post(objectPath(bucket, key, 'object/sign'), { expiresIn: 60 })
  const download = tokenIn(bodyOf(signing).signedURL)
  assertRefused(await start(key, download), 400)
  const claims = {
    url: `${bucket}/${key}`,
    upsert: true,
    scope: 'upload',
    iat: nowSeconds(),
    exp: nowSeconds() + 60,
  }
  assertRefused(await start(key, jwt(claims, storage.project.jwt_secret)), 400)
})

test('case 17: every part needs the token of its own file', async () => {
  const [key, other] = [name(), name()]
  const [token, wrong] = [await sign(key), await sign(other)]
  const upload = resumable(storage, await start(key, token), { as: 'nobody' })
  for (const headers of [{}, { 'x-signature': wrong }, { 'x-signature': 'x' }] as Record<string, string>[]) {
    assertOneOf(await upload.append(0, Buffer.from('abcdef'), { headers }), [400, 401, 403, 404])
    assertOneOf(await upload.head({ headers }), [400, 401, 403, 404])
    assertOneOf(await upload.terminate({ headers }), [400, 401, 403, 404])
  }
  const own = { headers: { 'x-signature': token } }
  assertStatus(await upload.head(own), 200)
  assertStatus(await upload.terminate(own), 204)
  assertRefused(await storage.get(objectPath(bucket, key)), 404)
})

test('contract §8 the route with a credential does not accept a token', async () => {
  const key = name()
  const token = await sign(key)
  const reply = await requestUpload(storage, {
    bucket,
    key,
    length: 6,
    as: 'nobody',
    headers: { 'x-signature': token },
  })
  assertStatus(reply, 401)
  const upload = resumable(storage, await start(key, token), {
    as: 'nobody',
    headers: { 'x-signature': token },
  })
  const plain = upload.path.replace('/sign/', '/')
  assertStatus(
    await storage.head(plain, { as: 'nobody', headers: { ...tusVersion, 'x-signature': token } }),
    401,
  )
})
