// 1 §4.6.3, §4.6.4 and storage contract §1, §3: responses of downloads, and access without a credential.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { unique, uuid } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  ada,
  assertBytes,
  assertOneOf,
  assertRefused,
  assertStatus,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let storage: StorageApi
let open: string
let closed: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  open = await storage.bucket({ public: true })
  closed = await storage.bucket()
  for (const bucket of [open, closed])
    await storage.store(bucket, 'folder/a.txt', 'content', { headers: { 'cache-control': 'max-age=60' } })
})
after(() => it.stop())

const path = 'folder/a.txt'
const storeAs = async (type: string, content = 'content', bucket = open) => {
  const name = unique('typed')
  await storage.store(bucket, name, content, { headers: { 'content-type': type } })
  return name
}
const isAttachment = ({ headers }: Reply) => /^attachment/.test(headers.get('content-disposition') ?? '')

for (const shape of shapes)
  test(`contract §3 a download returns its bytes and headers on the ${shape} path`, async () => {
    const bytes = randomBytes(150_000)
    await storage.store(closed, `${shape}.bin`, bytes, {
      headers: { 'content-type': 'image/png', 'cache-control': 'max-age=77' },
    })
    const reply = await storage.get(objectPath(closed, `${shape}.bin`), { shape })
    assertStatus(reply, 200)
    assertBytes(reply.bytes, bytes)
    const header = (name: string) => reply.headers.get(name)
    assert.equal(header('content-type'), 'image/png')
    assert.equal(header('content-length'), '150000')
    assert.equal(header('accept-ranges'), 'bytes')
    assert.equal(header('cache-control'), 'max-age=77')
    assert.equal(header('x-robots-tag'), 'none')
    assert.match(header('etag') ?? '', /^"[^"]+"$/)
    const modified = header('last-modified') ?? ''
    assert.equal(new Date(modified).toUTCString(), modified, 'RFC 1123')
    assert.ok(Math.abs(Date.now() - Date.parse(modified)) < 60_000, modified)
  })

test('contract §1 all routes to a file return the same response', async () => {
  for (const way of ['object', 'object/authenticated', 'object/public'])
    for (const shape of shapes) {
      const reply = await storage.get(`${objectPath(open, path, way)}?cacheNonce=1`, { shape })
      assert.equal(reply.text, 'content', `${way} ${reply.status}`)
      assert.equal(reply.headers.get('cache-control'), 'max-age=60')
    }
})

test('contract §3 the ETag changes only when the content changes', async () => {
  const etag = async () => (await storage.get(objectPath(closed, 'tagged.txt'))).headers.get('etag')
  await storage.store(closed, 'tagged.txt', 'one')
  const first = await etag()
  assert.equal(await etag(), first)
  await storage.store(closed, 'tagged.txt', 'two', { headers: upsert })
  assert.notEqual(await etag(), first)
})

test('contract §3 HEAD returns the headers of GET', async () => {
  for (const way of ['object', 'object/public', 'object/authenticated']) {
    const [head, got] = [
      await storage.head(objectPath(open, path, way)),
      await storage.get(objectPath(open, path, way)),
    ]
    assert.deepEqual([head.status, head.text], [200, ''])
    for (const name of [
      'content-type',
      'content-length',
      'etag',
      'last-modified',
      'cache-control',
      'accept-ranges',
      'x-robots-tag',
      'content-disposition',
      'x-content-type-options',
    ])
      assert.equal(head.headers.get(name), got.headers.get(name), `${way} ${name}`)
  }
})

test('contract §1 HEAD returns 200 for an existing file, otherwise 400 or 404', async () => {
  assertStatus(await storage.head(objectPath(closed, path)), 200)
  assertOneOf(await storage.head(objectPath(closed, 'missing')), [400, 404])
  assertOneOf(await storage.head(objectPath(unique('none'), 'missing')), [400, 404])
  assertOneOf(await storage.head(objectPath(closed, path), { as: 'anon' }), [400, 404])
  assertStatus(await storage.head(objectPath(open, path, 'object/public'), { as: 'nobody' }), 200)
  assertStatus(await storage.head(objectPath(closed, path, 'object/public'), { as: 'nobody' }), 404)
})

const infoFields = [
  'bucket_id',
  'cache_control',
  'content_type',
  'created_at',
  'etag',
  'id',
  'last_modified',
  'metadata',
  'name',
  'size',
  'version',
]
test('contract §1 info returns the metadata of a file', async () => {
  const metadata = { a: { b: [1] } }
  const { Id } = await storage.store(closed, 'in/fo.txt', 'content', {
    headers: {
      'cache-control': 'max-age=9',
      'x-metadata': Buffer.from(JSON.stringify(metadata)).toString('base64'),
    },
  })
  const { headers } = await storage.get(objectPath(closed, 'in/fo.txt'))
  for (const way of ['object/info', 'object/info/authenticated'])
    for (const shape of shapes) {
      const reply = await storage.get(objectPath(closed, 'in/fo.txt', way), { shape })
      const { version, created_at, last_modified, ...info } = bodyOf(reply)
      assert.deepEqual(Object.keys(reply.body).sort(), infoFields)
      assert.deepEqual(info, {
        id: Id,
        name: 'in/fo.txt',
        bucket_id: closed,
        size: 7,
        content_type: 'text/plain',
        cache_control: 'max-age=9',
        etag: headers.get('etag'),
        metadata,
      })
      assert.match(Id, uuid)
      assert.equal(typeof version, 'string')
      for (const moment of [created_at, last_modified])
        assert.ok(Math.abs(Date.now() - Date.parse(moment)) < 60_000, moment)
    }
  assertRefused(await storage.get(objectPath(closed, 'missing', 'object/info')), 404, 'NoSuchKey')
  assertRefused(await storage.get(objectPath(closed, path, 'object/info'), { as: ada }), 404, 'NoSuchKey')
})

test('contract §1 info of a public file needs no credential, info of a private file does', async () => {
  const known = bodyOf(await storage.get(objectPath(open, path, 'object/info/public'), { as: 'nobody' }))
  assert.deepEqual(Object.keys(known).sort(), infoFields)
  assertRefused(await storage.get(objectPath(closed, path, 'object/info/public'), { as: 'nobody' }), 404)
})

for (const type of [
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'application/pdf',
  'application/json',
  'text/plain',
  'text/plain;charset=UTF-8',
])
  test(`1 §4.6.3 ${type} is served inline`, async () => {
    const name = await storeAs(type, '{}')
    for (const way of ['object', 'object/public']) {
      const reply = await storage.get(objectPath(open, name, way))
      assert.equal(isAttachment(reply), false, reply.headers.get('content-disposition') ?? '')
      assert.equal(reply.headers.get('content-type'), type)
      assert.equal(reply.text, '{}')
    }
  })

const page = '<html><svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"></svg></html>'
for (const type of [
  'text/html',
  'text/html; charset=utf-8',
  'TEXT/HTML',
  'application/xhtml+xml',
  'image/svg+xml',
  'image/SVG+xml;charset=utf-8',
  'application/xml',
  'text/xml',
  'application/rss+xml',
  'application/mathml+xml',
  'text/html;image/png',
])
  test(`1 §4.6.3, case 34: ${type} is served as an attachment with nosniff`, async () => {
    const name = await storeAs(type, page)
    const signed = bodyOf(
      await storage.post(objectPath(open, name, 'object/sign'), { expiresIn: 60 }),
    ).signedURL
    for (const [way, as] of [
      [objectPath(open, name), 'service_role'],
      [objectPath(open, name, 'object/public'), 'nobody'],
      [objectPath(open, name, 'object/authenticated'), ada],
      [signed.slice(1), 'nobody'],
      [`${objectPath(open, name)}?download`, 'service_role'],
    ] as const)
      for (const method of ['GET', 'HEAD']) {
        const reply = await storage.ask(method, way, { as })
        assertStatus(reply, 200)
        assert.ok(isAttachment(reply), `${way}: ${reply.headers.get('content-disposition')}`)
        assert.equal(reply.headers.get('x-content-type-options'), 'nosniff')
      }
  })

test('case 34: a content type that lists several types is served as an attachment', async () => {
  for (const type of [
    'image/png, text/html',
    'text/plain,text/html',
    'image/png text/html',
    'image/png;a=b, text/html',
    'image/png;a="b", image/gif,text/html;charset=utf-8',
    'video/webm;codecs=vp8,opus,image/svg+xml',
  ]) {
    const name = unique('typed')
    const stored = await storage.upload(open, name, page, { headers: { 'content-type': type } })
    assertOneOf(stored, [200, 400, 415])
    if (stored.status !== 200) continue
    const reply = await storage.get(objectPath(open, name, 'object/public'), { as: 'nobody' })
    assert.ok(isAttachment(reply), type)
    assert.equal(reply.headers.get('x-content-type-options'), 'nosniff')
  }
})

test('1 §4.6.3 audio and video with a codecs parameter are served inline', async () => {
  for (const type of ['video/webm;codecs=vp8,opus', 'video/mp4; codecs="avc1.42E01E, mp4a.40.2"']) {
    const reply = await storage.get(objectPath(open, await storeAs(type), 'object/public'))
    assert.deepEqual([reply.headers.get('content-type'), isAttachment(reply)], [type, false])
  }
})

test('case 34: an HTML page stored as an image keeps the image type and nosniff', async () => {
  for (const type of ['image/png', 'text/plain', 'application/pdf']) {
    const reply = await storage.get(objectPath(open, await storeAs(type, page), 'object/public'))
    assert.equal(reply.headers.get('content-type'), type)
    assert.equal(reply.headers.get('x-content-type-options'), 'nosniff')
  }
})

test('contract §3 ?download serves an attachment with the given file name', async () => {
  const disposition = async (query: string, way = 'object') =>
    (await storage.get(objectPath(open, path, way) + query)).headers.get('content-disposition')
  for (const way of ['object', 'object/public', 'object/authenticated']) {
    assert.equal(await disposition('?download', way), 'attachment;')
    assert.equal(await disposition('?download=', way), 'attachment;')
    assert.equal(
      await disposition('?download=my.txt', way),
      "attachment; filename=my.txt; filename*=UTF-8''my.txt",
    )
  }
  const encoded = 'gr%C3%BC%C3%9Fe%20%22x%22.txt'
  const sent = await disposition(`?download=${encoded}`)
  assert.equal(sent, `attachment; filename=${encoded}; filename*=UTF-8''${encoded}`)
  assert.equal((await disposition('?download=a%0d%0ax-evil:%201'))?.includes('\n'), false)
})

test('contract §3 If-None-Match returns 304 without a body for the current ETag, and 200 for another', async () => {
  const first = await storage.get(objectPath(open, path))
  const etag = first.headers.get('etag') ?? ''
  for (const way of ['object', 'object/public', 'object/authenticated'])
    for (const method of ['GET', 'HEAD']) {
      const ask = (headers: Record<string, string>) =>
        storage.ask(method, objectPath(open, path, way), { headers })
      const same = await ask({ 'if-none-match': etag })
      assert.deepEqual([same.status, same.text], [304, ''])
      assert.equal(same.headers.get('etag'), etag)
      assertStatus(await ask({ 'if-none-match': '"another"' }), 200)
      assertStatus(await ask({ 'if-none-match': `"another", ${etag}` }), 304)
    }
})

test('contract §3 If-Modified-Since returns 304 unless the file is newer', async () => {
  const modified = (await storage.get(objectPath(open, path))).headers.get('last-modified') ?? ''
  const ask = (moment: string, more: Record<string, string> = {}) =>
    storage.get(objectPath(open, path), { headers: { 'if-modified-since': moment, ...more } })
  assertStatus(await ask(modified), 304)
  assertStatus(await ask(new Date(Date.parse(modified) + 5000).toUTCString()), 304)
  assertStatus(await ask(new Date(Date.parse(modified) - 5000).toUTCString()), 200)
  assertStatus(await ask('yesterday, or so'), 200)
  assertStatus(await ask(modified, { 'if-none-match': '"another"' }), 200)
})

test('contract §3 a 304 requires permission to read', async () => {
  const etag = (await storage.get(objectPath(closed, path))).headers.get('etag') ?? ''
  const headers = { 'if-none-match': etag }
  assertRefused(await storage.get(objectPath(closed, path), { headers, as: 'anon' }), 404, 'NoSuchKey')
  assertRefused(await storage.get(objectPath(closed, path, 'object/public'), { headers, as: 'nobody' }), 404)
})

test('1 §4.6.4 a public bucket can be read without a credential, on the public and the plain route', async () => {
  for (const shape of shapes)
    for (const as of ['nobody', 'anon', ada] as const)
      for (const way of ['object', 'object/public']) {
        const reply = await storage.get(objectPath(open, path, way), { as, shape })
        assert.deepEqual([reply.status, reply.text], [200, 'content'], `${way} ${shape}`)
      }
  assertRefused(
    await storage.get(objectPath(open, 'missing', 'object/public'), { as: 'nobody' }),
    404,
    'NoSuchKey',
  )
})

test('contract §3 on the public route a private bucket looks like a missing one', async () => {
  const ask = async (bucket: string, name: string, way = 'object/public') => {
    const { status, body } = await storage.get(objectPath(bucket, name, way), { as: 'nobody' })
    return { status, body }
  }
  for (const way of ['object/public', 'object/info/public']) {
    const none = await ask(unique('none'), path, way)
    assert.equal(none.status, 404)
    assert.deepEqual(await ask(closed, path, way), none)
    assert.deepEqual(await ask(closed, 'missing', way), none)
    assert.deepEqual(await ask(await storage.bucket({ id: unique('user-x') }), path, way), none)
  }
})

test('1 §5 on the plain route without a credential a private bucket looks like a missing one', async () => {
  const ask = async (bucket: string, name: string) => {
    const { status, body } = await storage.get(objectPath(bucket, name), { as: 'nobody' })
    return { status, body }
  }
  const none = await ask(unique('none'), path)
  assert.ok([400, 401, 404].includes(none.status), `${none.status}`)
  assert.deepEqual(await ask(closed, path), none)
  assert.deepEqual(await ask(closed, 'missing'), none)
})

test('1 §5 object/authenticated needs a credential, also for a public bucket', async () => {
  for (const bucket of [open, closed])
    for (const way of ['object/authenticated', 'object/info/authenticated'])
      assertRefused(await storage.get(objectPath(bucket, path, way), { as: 'nobody' }), 401)
})

test('1 §5 an invalid credential is rejected also where none is needed', async () => {
  const root = `/v1/storage/${storage.project.id}/${objectPath(open, path)}`
  assertStatus(await it.call('GET', root, { apikey: 'wrong' }), 401)
  assertStatus(await it.call('GET', root, { apikey: storage.project.anon_key, token: 'wrong' }), 401)
})

test('contract §3 making a bucket private or public takes effect at once', async () => {
  const bucket = await storage.bucket({ public: true })
  await storage.store(bucket, path)
  const look = async () =>
    (await storage.get(objectPath(bucket, path, 'object/public'), { as: 'nobody' })).status
  assert.equal(await look(), 200)
  bodyOf(await storage.put(`bucket/${bucket}`, { public: false }))
  assert.equal(await look(), 404)
  bodyOf(await storage.put(`bucket/${bucket}`, { public: true }))
  assert.equal(await look(), 200)
})
