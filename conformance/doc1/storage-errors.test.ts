// 1 §7 and storage contract §7: status, code and body of every error.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  type Ask,
  ada,
  assertErrorBody,
  assertRefused,
  assertStatus,
  duplicate,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { createUpload, requestUpload } from '../uploads.ts'
import type { Reply } from '../wire.ts'

let it: Target
let storage: StorageApi
const bucket = 'files'
const limited = 'limited'
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  await storage.bucket({ id: bucket })
  await storage.bucket({ id: limited, file_size_limit: 3, allowed_mime_types: ['image/png'] })
  await storage.store(bucket, 'a.txt', 'content')
})
after(() => it.stop())

type Way = (options: Ask) => Promise<Reply>
const post =
  (path: string, body: unknown): Way =>
  options =>
    storage.post(path, body, options)
const get =
  (path: string): Way =>
  options =>
    storage.get(path, options)

/** Code, status, short name if the specification has one, and the request that causes it. */
const refusals: [string, string | string[], number, string | undefined, Way][] = [
  ['a missing bucket', 'NoSuchBucket', 404, 'Bucket not found', get('bucket/none')],
  ['a missing file', 'NoSuchKey', 404, 'not_found', get(`object/${bucket}/none`)],
  [
    'a hidden file',
    'NoSuchKey',
    404,
    'not_found',
    o => storage.get(`object/${bucket}/a.txt`, { ...o, as: ada }),
  ],
  [
    'deleting a missing file',
    'NoSuchKey',
    404,
    'not_found',
    o => storage.delete(`object/${bucket}/none`, undefined, o),
  ],
  [
    'an existing bucket name',
    ['BucketAlreadyExists', 'ResourceAlreadyExists'],
    409,
    'Duplicate',
    post('bucket', { id: bucket }),
  ],
  ['an existing key', duplicate, 409, 'Duplicate', o => storage.upload(bucket, 'a.txt', 'x', o)],
  [
    'a bucket that is not empty',
    'ResourceNotEmpty',
    409,
    undefined,
    o => storage.delete(`bucket/${bucket}`, {}, o),
  ],
  [
    'an upload without permission',
    'AccessDenied',
    403,
    'Unauthorized',
    o => storage.upload(bucket, 'b.txt', 'x', { ...o, as: ada }),
  ],
  [
    'creating a bucket without permission',
    'AccessDenied',
    403,
    'Unauthorized',
    o => storage.post('bucket', { id: unique('x') }, { ...o, as: 'anon' }),
  ],
  [
    'an invalid bucket name',
    'InvalidBucketName',
    400,
    'Invalid Input',
    post('bucket', { id: 'a/b', name: 'a/b' }),
  ],
  ['an invalid key', 'InvalidKey', 400, undefined, o => storage.upload(bucket, 'ü', 'x', o)],
  ['an invalid token', 'InvalidJWT', 400, undefined, get(`object/sign/${bucket}/a.txt?token=a.b.c`)],
  [
    'a file over the size limit',
    'EntityTooLarge',
    413,
    'Payload too large',
    o => storage.upload(limited, 'a', '1234', { ...o, headers: { 'content-type': 'image/png' } }),
  ],
  [
    'a content type that is not allowed',
    'InvalidMimeType',
    415,
    'invalid_mime_type',
    o => storage.upload(limited, 'a', '1', o),
  ],
  [
    'an unsatisfiable range',
    'InvalidRange',
    416,
    'invalid_range',
    o => storage.get(`object/${bucket}/a.txt`, { ...o, headers: { range: 'bytes=99-' } }),
  ],
]
for (const [what, code, status, name, way] of refusals)
  test(`contract §7 ${what} returns ${status} ${[code].flat()[0]}`, async () => {
    for (const shape of shapes) {
      const reply = await way({ shape })
      assertRefused(reply, status, code)
      if (name) assert.equal(reply.body.error, name)
      assert.match(reply.headers.get('content-type') ?? '', /^application\/json/)
      assert.equal(reply.body.hint === undefined || reply.body.details === undefined, false)
    }
  })

test('contract §7 a body with the wrong shape returns 400 with a message that names the field', async () => {
  const wrong: [string, Promise<Reply>][] = [
    ['expires', storage.post(`object/sign/${bucket}/a.txt`, {})],
    ['paths', storage.post(`object/sign/${bucket}`, { expiresIn: 5 })],
    ['prefixes', storage.delete(`object/${bucket}`, {})],
    ['destinationKey', storage.post('object/move', { bucketId: bucket, sourceKey: 'a.txt' })],
    ['sourceKey', storage.post('object/copy', { bucketId: bucket, destinationKey: 'a.txt' })],
    ['limit', storage.post(`object/list/${bucket}`, { prefix: '', limit: 'x' })],
    ['public', storage.post('bucket', { id: unique('x'), public: 'x' })],
  ]
  for (const [field, asked] of wrong) {
    const reply = await asked
    assertRefused(reply, 400)
    assert.match(`${reply.body.message} ${reply.body.details}`, new RegExp(field, 'i'))
  }
})

test('contract §7 invalid JSON returns 400', async () => {
  for (const path of [`object/sign/${bucket}/a.txt`, 'bucket', 'object/move', `object/list/${bucket}`])
    for (const body of ['{', 'null', '[]', '"x"']) assertRefused(await storage.post(path, body), 400)
})

test('1 §5 a request without a credential returns 401 with the same fields', async () => {
  for (const reply of [
    await storage.get('bucket', { as: 'nobody' }),
    await storage.upload(bucket, 'b', 'x', { as: 'nobody' }),
    await storage.post('object/move', {}, { as: 'nobody' }),
    await requestUpload(storage, { bucket, key: 'x', length: 1, as: 'nobody' }),
  ])
    assertRefused(reply, 401)
})

test('contract §7 an error of HEAD has only a status', async () => {
  for (const [path, as, status] of [
    [`object/${bucket}/none`, 'service_role', 404],
    [`object/public/${bucket}/a.txt`, 'nobody', 404],
    [`object/authenticated/${bucket}/a.txt`, 'nobody', 401],
  ] as const) {
    const reply = await storage.head(path, { as })
    assert.deepEqual([reply.status, reply.text], [status, ''])
  }
})

test('1 §7 a request over the rate limit returns 429 with Retry-After and the same fields', async () => {
  const few = await storageProject(it, { rate_limit_service_role: 2 })
  for (let i = 0; i < 2; i++) bodyOf(await few.get('bucket'))
  const reply = await few.get('bucket')
  assertRefused(reply, 429)
  assert.match(reply.headers.get('retry-after') ?? '', /^\d+$/)
})

test('1 §7 unknown routes and methods return 404 or 405 with the same fields', async () => {
  for (const [method, path] of [
    ['GET', ''],
    ['GET', 'object'],
    ['PATCH', 'bucket/x'],
    ['GET', 'nothing'],
    ['GET', 'render/image'],
    ['PUT', 'upload/resumable'],
  ] as const) {
    const reply = await storage.ask(method, path, method === 'GET' ? {} : { body: {} })
    assert.ok(reply.status >= 400 && reply.status < 500, `${method} ${path}: ${reply.status}`)
    assertErrorBody(reply)
  }
})

test('case 44: malformed bodies and headers return 4xx, never 5xx', async () => {
  const strange: Promise<Reply>[] = [
    storage.post('bucket', '{"id":"p1","__proto__":{"public":true}}'),
    storage.post('bucket', '{"id":"\\ud800"}'),
    storage.post('bucket', '{"id":"a\\u0000b"}'),
    storage.post(`object/list/${bucket}`, { prefix: '\0' }),
    storage.post(`object/list/${bucket}`, { prefix: '', search: '\0' }),
    storage.post(`object/list-v2/${bucket}`, { prefix: '\ud800' }),
    storage.delete(`object/${bucket}`, { prefixes: ['\0', '\ud800'] }),
    storage.post('object/move', { bucketId: '\0', sourceKey: '\0', destinationKey: 'x' }),
    storage.post(`object/sign/${bucket}`, { expiresIn: 5, paths: ['\0'] }),
    storage.get('bucket?search=%00'),
    storage.get('bucket?search=%ff'),
    storage.get('bucket?limit=99999999999999999999'),
    storage.post(`object/list/${bucket}`, { prefix: '', offset: 1e300 }),
    storage.upload(bucket, unique('x'), 'x', { headers: { 'content-type': 'x'.repeat(5000) } }),
    storage.upload(bucket, unique('x'), 'x', { headers: { 'content-type': '/' } }),
    storage.upload(bucket, unique('x'), 'x', { headers: { 'x-upsert': 'perhaps' } }),
    storage.upload(bucket, unique('x'), 'x', {
      headers: { 'x-metadata': Buffer.from('{"a":"\\u0000"}').toString('base64') },
    }),
    storage.upload(bucket, unique('x'), 'x', {
      headers: { 'x-metadata': Buffer.from('{"__proto__":{"a":1}}').toString('base64') },
    }),
    storage.upload(bucket, unique('x'), 'x', { headers: { 'cache-control': 'x'.repeat(5000) } }),
    storage.get(`object/${bucket}/a.txt`, {
      headers: { 'if-modified-since': 'x'.repeat(5000), 'if-none-match': ',,,' },
    }),
    storage.get(`object/${bucket}/a.txt?download=%ff%00`),
    requestUpload(storage, {
      bucket,
      key: unique('x'),
      length: 1,
      fields: { contentType: 'text/html\r\nx: y' },
    }),
    requestUpload(storage, { bucket, key: unique('x'), length: 1, fields: { contentType: '\0' } }),
  ]
  for (const [i, reply] of (await Promise.all(strange)).entries())
    assert.ok(reply.status < 500, `${i}: ${reply.status} ${reply.text}`)
  assert.equal((await storage.read(bucket, 'a.txt')).toString(), 'content')
})

test('contract §8 errors of a resumable upload have the same fields', async () => {
  const upload = await createUpload(storage, { bucket, key: unique('x'), length: 5 })
  const x = Buffer.from('x')
  assertRefused(await upload.append(3, x), 409)
  assertRefused(await upload.append(0, x, { headers: { 'content-type': 'text/plain' } }), 415)
  assertRefused(await upload.append(0, x, { headers: { 'tus-resumable': '9' } }), 412)
  assertRefused(await upload.append(0, Buffer.alloc(6)), 413)
  assertRefused(
    await requestUpload(storage, { bucket, key: unique('x'), headers: { 'upload-length': 'x' } }),
    400,
  )
  assertStatus(await upload.terminate(), 204)
})

test('1 §7 errors reveal no internals', async () => {
  const replies = await Promise.all([
    storage.get(`object/${bucket}/none`),
    storage.upload(bucket, 'b', 'x', { as: ada }),
    storage.get(objectPath('none', 'x', 'object/public'), { as: 'nobody' }),
    storage.get(`object/sign/${bucket}/a.txt?token=a.b.c`),
  ])
  for (const { text } of replies) {
    assert.doesNotMatch(text, /select|insert|postgres|\/tmp|\.ts|stack|relation/i)
  }
})
