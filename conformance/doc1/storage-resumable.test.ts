// 1 §4.6 and storage contract §8: TUS 1.0.0, from creating an upload to the stored file.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { someId, unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  type Ask,
  ada,
  assertBytes,
  assertOneOf,
  assertRefused,
  assertStatus,
  duplicate,
  type StorageApi,
  storageProject,
  storageRoot,
  storageTarget,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import {
  createUpload,
  offsetType,
  requestUpload,
  resumable,
  sendPieces,
  tusMetadata,
  tusVersion,
} from '../uploads.ts'
import type { Reply } from '../wire.ts'

let it: Target
let storage: StorageApi
let bucket: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
})
after(() => it.stop())

const name = () => `folder/${unique('file')}.bin`
const header = (reply: Reply, name: string) => reply.headers.get(name)
const created = async (key: string, length: number, more: Ask = {}) =>
  resumable(storage, await requestUpload(storage, { bucket, key, length, ...more }), more)

for (const shape of shapes)
  for (const path of ['upload/resumable', 'upload/resumable/sign'])
    test(`contract §8 OPTIONS ${path} lists versions and extensions without a credential, on the ${shape} path`, async () => {
      const reply = await storage.ask('OPTIONS', path, { as: 'nobody', shape })
      assertStatus(reply, 204)
      assert.equal(header(reply, 'tus-resumable'), '1.0.0')
      assert.equal(header(reply, 'tus-version'), '1.0.0')
      assert.match(header(reply, 'tus-max-size') ?? '', /^\d+$/)
      assert.deepEqual((header(reply, 'tus-extension') ?? '').split(',').sort(), [
        'creation',
        'creation-defer-length',
        'creation-with-upload',
        'expiration',
        'termination',
      ])
    })

for (const shape of shapes)
  test(`contract §8 an upload is created, sent in parts and finished, on the ${shape} path`, async () => {
    const key = name()
    const content = randomBytes(200_000)
    const fields = { contentType: 'image/png', cacheControl: '77', metadata: JSON.stringify({ by: 'ü' }) }
    const reply = await requestUpload(storage, { bucket, key, length: content.length, fields, shape })
    assertStatus(reply, 201)
    assert.equal(header(reply, 'tus-resumable'), '1.0.0')
    const expires = Date.parse(header(reply, 'upload-expires') ?? '')
    assert.ok(expires > Date.now() + 3_000_000 && expires < Date.now() + 25 * 3_600_000, `${expires}`)
    const upload = resumable(storage, reply, { shape })
    for (const [from, to] of [
      [0, 1],
      [1, 65_536],
      [65_536, 131_073],
    ] as const) {
      const reply = await upload.append(from, content.subarray(from, to))
      assertStatus(reply, 204)
      assert.equal(header(reply, 'upload-offset'), String(to))
      assert.equal(header(reply, 'tus-resumable'), '1.0.0')
      assert.ok(Date.parse(header(reply, 'upload-expires') ?? '') > Date.now())
      assert.equal(header(reply, 'tus-complete'), null)
      await storage.assertMissing(bucket, key)
      const head = await upload.head()
      assert.deepEqual(
        [header(head, 'upload-offset'), header(head, 'upload-length'), header(head, 'cache-control')],
        [String(to), '200000', 'no-store'],
      )
      assert.equal(header(head, 'tus-resumable'), '1.0.0')
    }
    assert.ok(!(await storage.keys(bucket)).includes(key))
    const last = await upload.append(131_073, content.subarray(131_073))
    assertStatus(last, 204)
    assert.deepEqual([header(last, 'upload-offset'), header(last, 'tus-complete')], ['200000', '1'])
    assertBytes(await storage.read(bucket, key), content)
    const { content_type, cache_control, metadata, size } = await storage.info(bucket, key)
    assert.deepEqual(
      [content_type, cache_control, metadata, size],
      ['image/png', 'max-age=77', { by: 'ü' }, 200_000],
    )
  })

test('contract §8 HEAD returns the metadata of the creation', async () => {
  const fields = { contentType: 'text/plain', own: 'ü' }
  const key = name()
  const upload = await createUpload(storage, { bucket, key, length: 5, fields })
  const head = await upload.head()
  const sent = tusMetadata({ bucketName: bucket, objectName: key, ...fields })
  assert.deepEqual(header(head, 'upload-metadata')?.split(',').sort(), sent.split(',').sort())
  assert.equal(header(head, 'upload-offset'), '0')
  assert.equal(head.text, '')
})

test('contract §8 a missing or non-numeric cacheControl becomes no-cache', async () => {
  for (const fields of [{ cacheControl: 'a lot' }, {}]) {
    const key = name()
    const reply = await requestUpload(storage, {
      bucket,
      key,
      length: 1,
      first: Buffer.from('x'),
      fields: { ...fields },
    })
    assertStatus(reply, 201)
    assert.equal((await storage.info(bucket, key)).cache_control, 'no-cache')
  }
})

test('contract §8 the creation request can contain the first part or the whole file', async () => {
  const content = randomBytes(100_000)
  const [whole, half] = [name(), name()]
  const all = await requestUpload(storage, { bucket, key: whole, length: 100_000, first: content })
  assertStatus(all, 201)
  assert.equal(header(all, 'upload-offset'), '100000')
  assertBytes(await storage.read(bucket, whole), content)
  const some = await requestUpload(storage, {
    bucket,
    key: half,
    length: 100_000,
    first: content.subarray(0, 40_000),
  })
  assert.equal(header(some, 'upload-offset'), '40000')
  await storage.assertMissing(bucket, half)
  const upload = resumable(storage, some)
  assert.equal(await upload.offset(), 40_000)
  assertStatus(await upload.append(40_000, content.subarray(40_000)), 204)
  assertBytes(await storage.read(bucket, half), content)
})

test('contract §8 creating an upload of zero bytes stores the file', async () => {
  const key = name()
  await created(key, 0)
  assert.equal((await storage.read(bucket, key)).length, 0)
})

test('contract §8 the length can be deferred', async () => {
  const key = name()
  const reply = await requestUpload(storage, { bucket, key, headers: { 'upload-defer-length': '1' } })
  const upload = resumable(storage, reply)
  assertStatus(await upload.append(0, Buffer.from('abc')), 204)
  const head = await upload.head()
  assert.deepEqual(
    [header(head, 'upload-offset'), header(head, 'upload-defer-length'), header(head, 'upload-length')],
    ['3', '1', null],
  )
  await storage.assertMissing(bucket, key)
  assertStatus(await upload.append(3, Buffer.from('def'), { headers: { 'upload-length': '8' } }), 204)
  assert.equal(header(await upload.head(), 'upload-length'), '8')
  const last = await upload.append(6, Buffer.from('gh'))
  assert.equal(header(last, 'tus-complete'), '1')
  assert.equal((await storage.read(bucket, key)).toString(), 'abcdefgh')
})

test('contract §8 a length cannot be changed, or be less than the offset', async () => {
  const deferred = { headers: { 'upload-defer-length': '1' } }
  const upload = await createUpload(storage, { bucket, key: name(), ...deferred })
  assertStatus(await upload.append(0, Buffer.from('abc')), 204)
  assertOneOf(await upload.append(3, Buffer.from('d'), { headers: { 'upload-length': '2' } }), [400, 413])
  assertStatus(await upload.append(3, Buffer.from('d'), { headers: { 'upload-length': '8' } }), 204)
  assertOneOf(
    await upload.append(4, Buffer.from('e'), { headers: { 'upload-length': '9' } }),
    [204, 400, 409],
  )
  assert.equal(header(await upload.head(), 'upload-length'), '8')
})

test('contract §8 parts of any size, without Content-Length', async () => {
  const key = name()
  const content = randomBytes(300_000)
  const upload = await created(key, content.length)
  let offset = 0
  for (const size of [1, 65_535, 65_536, 65_537, 100_000, 3391]) {
    const headers = { ...tusVersion, ...offsetType, 'upload-offset': String(offset) }
    const piece = content.subarray(offset, offset + size)
    const reply = await sendPieces(storage, 'PATCH', upload.path, [piece], { headers })
    assertStatus(reply, 204)
    offset += size
  }
  assert.equal(offset, 300_000)
  assertBytes(await storage.read(bucket, key), content)
})

test('contract §8 an empty PATCH changes nothing', async () => {
  const upload = await created(name(), 5)
  const reply = await upload.append(0, Buffer.alloc(0))
  assertStatus(reply, 204)
  assert.equal(header(reply, 'upload-offset'), '0')
})

test('contract §8 X-HTTP-Method-Override turns a POST into a PATCH', async () => {
  const key = name()
  const upload = await created(key, 3)
  const reply = await storage.ask('POST', upload.path, {
    raw: 'abc',
    headers: { ...tusVersion, ...offsetType, 'upload-offset': '0', 'x-http-method-override': 'PATCH' },
  })
  assertStatus(reply, 204)
  assert.equal(header(reply, 'upload-offset'), '3')
  assert.equal((await storage.read(bucket, key)).toString(), 'abc')
})

test('contract §8 terminating an upload deletes it and its parts', async () => {
  const key = name()
  const upload = await created(key, 6)
  assertStatus(await upload.append(0, Buffer.from('abc')), 204)
  const reply = await upload.terminate()
  assertStatus(reply, 204)
  assert.equal(header(reply, 'tus-resumable'), '1.0.0')
  for (const after of [
    await upload.head(),
    await upload.append(3, Buffer.from('def')),
    await upload.terminate(),
  ])
    assertOneOf(after, [404, 410])
  await storage.assertMissing(bucket, key)
})

test('contract §8 a finished upload cannot be terminated, and its file stays', async () => {
  const key = name()
  const upload = await created(key, 3)
  assertStatus(await upload.append(0, Buffer.from('abc')), 204)
  assertStatus(await upload.terminate(), 400)
  assert.equal((await storage.read(bucket, key)).toString(), 'abc')
})

test('contract §8 a finished upload rejects more bytes at any offset, at once and repeatedly', async () => {
  const key = name()
  const upload = await created(key, 3)
  assertStatus(await upload.append(0, Buffer.from('abc')), 204)
  for (const offset of [0, 3, 3]) assertStatus(await upload.append(offset, Buffer.from('abc')), 409)
  assert.equal(header(await upload.head(), 'upload-offset'), '3')
  assert.equal((await storage.read(bucket, key)).toString(), 'abc')
})

test('contract §8 an upload that can no longer be finished can be terminated, which frees its quota', async () => {
  const own = await storageProject(it)
  const [taken, doomed] = [await own.bucket(), await own.bucket()]
  const before = await own.usage()
  const uploads = [
    await createUpload(own, { bucket: taken, key: 'a', length: 60_000 }),
    await createUpload(own, { bucket: doomed, key: 'a', length: 60_000 }),
  ]
  await own.store(taken, 'a', 'abc')
  bodyOf(await own.delete(`bucket/${doomed}`, {}))
  for (const upload of uploads) {
    assertRefused(await upload.terminate({ as: 'anon' }), 403, 'AccessDenied')
    assertStatus(await upload.terminate(), 204)
    assertStatus(await upload.head(), 404)
  }
  assert.equal(await own.usage(), before + 3)
  assert.equal((await own.read(taken, 'a')).toString(), 'abc')
})

test('contract §8 every error response has Tus-Resumable and Cache-Control: no-store', async () => {
  const upload = await created(name(), 3)
  const path = `upload/resumable/${someId}`
  for (const reply of [
    await requestUpload(storage, { bucket, key: '..', length: 3 }),
    await requestUpload(storage, { bucket, key: name(), length: 3, as: 'anon' }),
    await upload.append(2, Buffer.from('c')),
    await upload.append(0, Buffer.from('abcd')),
    await storage.head(path, { headers: tusVersion }),
    await storage.head(path, { headers: tusVersion, as: 'nobody' }),
    await storage.head(path, { headers: tusVersion, shape: 'alias' }),
    await storage.head(path),
  ]) {
    assert.ok(reply.status >= 400, `${reply.status}`)
    assert.equal(header(reply, 'tus-resumable'), '1.0.0', reply.text)
    assert.equal(header(reply, 'cache-control'), 'no-store', reply.text)
  }
})

test('contract §7 an unknown upload returns 404', async () => {
  for (const id of [someId, 'nothing', '..%2f..%2fetc', 'a'.repeat(300)])
    for (const path of [`upload/resumable/${id}`]) {
      assertStatus(await storage.head(path, { headers: tusVersion }), 404)
      assertRefused(await storage.delete(path, undefined, { headers: tusVersion }), 404, 'NoSuchUpload')
      const headers = { ...tusVersion, ...offsetType, 'upload-offset': '0' }
      assertRefused(await storage.ask('PATCH', path, { raw: 'x', headers }), 404, 'NoSuchUpload')
    }
})

test('1 §1 another project does not see the upload', async () => {
  const upload = await created(name(), 3)
  const other = await storageProject(it)
  assertStatus(await other.head(upload.path, { headers: tusVersion }), 404)
  assert.equal(await upload.offset(), 0)
})

test('contract §8 creating an upload for an existing key returns 409 without x-upsert', async () => {
  const key = name()
  await storage.store(bucket, key, 'first')
  for (const headers of [{}, { 'x-upsert': 'false' }] as Record<string, string>[])
    assertRefused(await requestUpload(storage, { bucket, key, length: 3, headers }), 409, duplicate)
})

test('contract §8 with x-upsert the file is replaced when the upload is complete, not before', async () => {
  const key = name()
  const { Id } = await storage.store(bucket, key, 'first')
  const upload = await created(key, 6, { headers: upsert })
  assertStatus(await upload.append(0, Buffer.from('sec')), 204)
  assert.equal((await storage.read(bucket, key)).toString(), 'first')
  assertStatus(await upload.append(3, Buffer.from('ond')), 204)
  assert.equal((await storage.read(bucket, key)).toString(), 'second')
  assert.equal((await storage.info(bucket, key)).id, Id)
})

test('contract §8 without x-upsert a file uploaded in the meantime is not replaced', async () => {
  const key = name()
  const upload = await created(key, 3)
  await storage.store(bucket, key, 'in between')
  assertStatus(await upload.append(0, Buffer.from('abc')), 409)
  assert.equal((await storage.read(bucket, key)).toString(), 'in between')
})

test('contract §8 of two uploads of one key the first to finish is kept', async () => {
  const key = name()
  const [first, second] = [await created(key, 3), await created(key, 3)]
  assertStatus(await second.append(0, Buffer.from('two')), 204)
  assertStatus(await first.append(0, Buffer.from('one')), 409)
  assert.equal((await storage.read(bucket, key)).toString(), 'two')
})

test('clarifications: service_role creates an unknown bucket, others get 404', async () => {
  const own = unique('tus')
  const upload = await createUpload(storage, { bucket: own, key: 'a', length: 1 })
  assertStatus(await upload.append(0, Buffer.from('x')), 204)
  assert.equal(bodyOf(await storage.get(`bucket/${own}`)).public, false)
  for (const as of ['anon', ada] as const)
    assertRefused(
      await requestUpload(storage, { bucket: unique('none'), key: 'a', length: 1, as }),
      404,
      'NoSuchBucket',
    )
  const mine = unique('user-tus')
  assertStatus(await requestUpload(storage, { bucket: mine, key: `${ada.sub}/a`, length: 1, as: ada }), 201)
})

test('contract §8 CORS exposes the TUS headers', async () => {
  const origin = { origin: 'https://app.example.test' }
  const reply = await requestUpload(storage, { bucket, key: name(), length: 1, headers: origin })
  const exposed = (header(reply, 'access-control-expose-headers') ?? '').toLowerCase().split(/\s*,\s*/)
  for (const each of [
    'location',
    'upload-offset',
    'upload-length',
    'upload-expires',
    'tus-version',
    'tus-resumable',
    'tus-max-size',
    'tus-extension',
    'tus-complete',
    'upload-metadata',
  ])
    assert.ok(exposed.includes(each) || exposed.includes('*'), each)
  const asked = ['x-http-method-override', 'upload-defer-length', 'x-signature', 'x-metadata', 'x-robots-tag']
  for (const method of ['POST', 'PATCH', 'HEAD', 'DELETE']) {
    const preflight = await it.call('OPTIONS', `${storageRoot(storage.project)}/upload/resumable`, {
      headers: {
        ...origin,
        'access-control-request-method': method,
        'access-control-request-headers': asked.join(','),
      },
    })
    const methods = (header(preflight, 'access-control-allow-methods') ?? '').split(/\s*,\s*/)
    assert.ok(methods.includes(method), `${methods}`)
    const allowed = (header(preflight, 'access-control-allow-headers') ?? '').toLowerCase().split(/\s*,\s*/)
    for (const each of asked) assert.ok(allowed.includes(each), each)
  }
})
