// Storage contract and cases 18, 34, 44: hostile header values, subjects that are not UUIDs, and concurrent
// requests.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { unique } from '../people.ts'
import {
  ada,
  assertBytes,
  assertOneOf,
  assertStatus,
  headersOf,
  objectPath,
  type StorageApi,
  storageProject,
  storageRoot,
  storageTarget,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { until } from '../until.ts'
import { createUpload, formOf, requestUpload } from '../uploads.ts'
import type { Reply } from '../wire.ts'

let it: Target
let storage: StorageApi
let bucket: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket({ public: true })
})
after(() => it.stop())

const key = () => unique('file')

/** The upload is rejected, or the file can be read back. */
async function assertReadableOrRefused(name: string, reply: Reply, what: string): Promise<void> {
  assert.ok(reply.status < 500, `${what}: ${reply.status} ${reply.text}`)
  if (reply.status >= 300) return
  for (const path of [objectPath(bucket, name), objectPath(bucket, name, 'object/info')]) {
    const read = await storage.get(path)
    assert.equal(read.status, 200, `${what}: ${read.status} ${read.text}`)
    assert.equal(read.headers.get('x-evil'), null)
  }
}

const hostile = ['60\r\nx-evil: 1', 'max-age=😀', 'ü', '\0', 'a\nb', '\x7f', ' ', 'x'.repeat(20_000)]
for (const value of hostile)
  test(`case 44: ${JSON.stringify(value.slice(0, 20))} in a stored header is rejected or harmless`, async () => {
    const form = async (name: string, fields: Record<string, string>) =>
      storage.ask(
        'POST',
        objectPath(bucket, name),
        formOf([
          ...Object.entries(fields).map(([name, content]) => ({ name, content })),
          { name: '', filename: 'x', type: 'text/plain', content: 'content' },
        ]),
      )
    const [a, b, c, d, e] = [key(), key(), key(), key(), key()]
    await assertReadableOrRefused(a, await form(a, { cacheControl: value }), 'cacheControl')
    await assertReadableOrRefused(b, await form(b, { contentType: value }), 'contentType')
    const fields = { contentType: value, cacheControl: value }
    const tus = await requestUpload(storage, { bucket, key: c, length: 1, first: Buffer.from('x'), fields })
    await assertReadableOrRefused(c, tus, 'TUS')
    await storage.store(bucket, d, 'content')
    const copy = await storage.post('object/copy', {
      bucketId: bucket,
      sourceKey: d,
      destinationKey: e,
      copyMetadata: false,
      metadata: { mimetype: value, cacheControl: value },
    })
    await assertReadableOrRefused(e, copy, 'copy')
  })

test('contract §2 a body is stored unchanged, also with Content-Encoding', async () => {
  const packed = gzipSync('content')
  const name = key()
  const reply = await storage.upload(bucket, name, packed, { headers: { 'content-encoding': 'gzip' } })
  assertOneOf(reply, [200, 415])
  if (reply.status !== 200) return
  const read = await storage.read(bucket, name)
  assert.ok(read.equals(packed) || read.toString() === 'content')
})

test('contract §1 copying a file onto itself keeps its bytes and can change its metadata', async () => {
  const content = randomBytes(100_000)
  const name = key()
  await storage.store(bucket, name, content)
  const carry = { bucketId: bucket, sourceKey: name, destinationKey: name }
  assertStatus(await storage.post('object/copy', carry), 409)
  assertBytes(await storage.read(bucket, name), content)
  const reply = await storage.post(
    'object/copy',
    { ...carry, copyMetadata: false, metadata: { mimetype: 'image/png', cacheControl: 'max-age=1' } },
    { headers: upsert },
  )
  assertStatus(reply, 200)
  assertBytes(await storage.read(bucket, name), content)
  assert.equal((await storage.info(bucket, name)).content_type, 'image/png')
  assertOneOf(await storage.post('object/move', carry), [200, 400, 409])
  assertBytes(await storage.read(bucket, name), content)
})

const invalidSubs = [
  '%',
  '_',
  '..',
  '.',
  '',
  '/',
  'not-a-uuid',
  `${ada.sub}/x`,
  ada.sub.toUpperCase(),
  ' ',
  "' or 1=1",
]
test('case 18: a user whose sub is not a UUID has no folder and causes no error', async () => {
  const own = await storage.bucket({ id: unique('user-strange') })
  const secret = `${ada.sub}/secret.txt`
  await storage.store(own, secret, 'secret')
  for (const sub of invalidSubs)
    for (const as of [{ sub }, { sub, role: 'authenticated', user_metadata: { sub: ada.sub } }]) {
      const replies = [
        await storage.get(objectPath(own, secret), { as }),
        await storage.post(`object/list/${own}`, { prefix: '' }, { as }),
        await storage.post(`object/list/${own}`, { prefix: sub }, { as }),
        await storage.post(`object/list-v2/${own}`, { prefix: sub }, { as }),
        await storage.post(objectPath(own, secret, 'object/sign'), { expiresIn: 5 }, { as }),
        await storage.upload(own, `${ada.sub}/planted`, 'x', { as }),
        await storage.upload(bucket, key(), 'x', { as }),
        await storage.delete(`object/${own}`, { prefixes: [secret] }, { as }),
      ]
      for (const [i, reply] of replies.entries()) {
        assert.ok(reply.status < 500, `${sub} ${i}: ${reply.status} ${reply.text}`)
        assert.ok(!reply.text.includes('secret'), `${sub} ${i}: ${reply.text}`)
      }
    }
  const without = { sub: undefined as unknown as string }
  for (const reply of [
    await storage.get(objectPath(own, secret), { as: without }),
    await storage.upload(own, 'undefined/x', 'x', { as: without }),
    await storage.upload(own, 'null/x', 'x', { as: without }),
  ])
    assertOneOf(reply, [401, 403, 404])
  assert.deepEqual(await storage.keys(own), [secret])
})

test('clarifications: concurrent uploads to an unknown bucket all succeed', async () => {
  const own = unique('raced')
  const names = Array.from({ length: 8 }, (_, i) => `${i}.txt`)
  const replies = await Promise.all(names.map(name => storage.upload(own, name)))
  for (const reply of replies) assertStatus(reply, 200)
  assert.deepEqual(await storage.keys(own), names)
})

test('contract §1 deleting a bucket during uploads either fails or leaves no files', async () => {
  for (let round = 0; round < 5; round++) {
    const own = await storage.bucket()
    const [deleted, ...uploads] = await Promise.all([
      storage.delete(`bucket/${own}`, {}),
      ...Array.from({ length: 4 }, (_, i) => storage.upload(own, `${i}.txt`)),
    ])
    assertOneOf(deleted, [200, 409])
    for (const reply of uploads) assertOneOf(reply, [200, 404])
    for (const [i, { status }] of uploads.entries()) {
      const read = await storage.get(objectPath(own, `${i}.txt`))
      if (status === 200) assert.equal(read.text, 'some text', read.text)
      else assertOneOf(read, [404])
    }
  }
})

test('contract §1 deleting a bucket during a resumable upload ends the upload without a 5xx', async () => {
  const own = await storage.bucket()
  const upload = await createUpload(storage, { bucket: own, key: 'a', length: 3 })
  assertStatus(await storage.delete(`bucket/${own}`, {}), 200)
  const reply = await upload.append(0, Buffer.from('abc'))
  assert.ok(reply.status < 500, `${reply.status} ${reply.text}`)
  if (reply.status === 204) assert.equal((await storage.read(own, 'a')).toString(), 'abc')
})

test('issue 6: a running download is never corrupted when the file is replaced, moved or deleted', async () => {
  const content = randomBytes(6_000_000)
  const url = `${it.url}${storageRoot(storage.project)}`
  for (const change of [
    (name: string) => storage.store(bucket, name, 'replaced', { headers: upsert }),
    (name: string) =>
      storage.post('object/move', { bucketId: bucket, sourceKey: name, destinationKey: `${name}-moved` }),
    (name: string) => storage.delete(objectPath(bucket, name)),
  ]) {
    const name = key()
    await storage.store(bucket, name, content)
    const reply = await fetch(`${url}/${objectPath(bucket, name, 'object/public')}`)
    assert.equal(reply.status, 200)
    await change(name)
    // Complete, or aborted so that the client notices. Never bytes of another version.
    const bytes = await reply.arrayBuffer().catch(() => undefined)
    if (bytes) assert.ok(content.equals(Buffer.from(bytes)), `${bytes.byteLength} bytes`)
  }
})

test('case 44: the body of a rejected upload is not parsed as a request', async () => {
  const { hostname, port } = new URL(it.url)
  const smuggled = `GET ${storageRoot(storage.project)}/bucket HTTP/1.1\r\nhost: x\r\n\r\n`
  const body = smuggled.repeat(20)
  const head = (path: string, headers: Record<string, string>) =>
    `POST ${storageRoot(storage.project)}/${path} HTTP/1.1\r\n${Object.entries({ host: 'x', ...headers })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')}\r\n`
  const length = { 'content-length': String(body.length) }
  for (const [what, start] of [
    ['anon', head(objectPath(bucket, key()), { ...headersOf(storage.project, 'anon'), ...length })],
    ['nobody', head(objectPath(bucket, key()), length)],
    ['a key that cannot be', head(`object/${bucket}/%ff`, { ...headersOf(storage.project), ...length })],
    ['no upload', head('upload/resumable/nothing', { ...headersOf(storage.project), ...length })],
  ] as const) {
    const socket = connect(Number(port), hostname)
    let received = ''
    let isClosed = false
    socket.on('data', chunk => {
      received += chunk
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      isClosed = true
    })
    socket.write(`${start}${body}`)
    await until('an answer', async () => received.includes('\r\n\r\n') || isClosed)
    // The server either answers one more request on this connection or closes it.
    if (!isClosed) socket.write(`GET /v1/nothing-else HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)
    await until('the end', async () => isClosed)
    const statuses = [...received.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(match => Number(match[1]))
    assert.ok(statuses.length <= 2, `${what}: ${statuses}`)
    assert.ok((statuses[0] ?? 400) >= 400, `${what}: ${statuses}`)
  }
})

test('contract §4 huge limits are clamped or rejected', async () => {
  for (const body of [
    { prefix: '', limit: 1_000_000_000 },
    { prefix: '', limit: Number.MAX_SAFE_INTEGER, offset: Number.MAX_SAFE_INTEGER },
    { prefix: '', limit: 1e300 },
    { prefix: 'x'.repeat(100_000) },
    { prefix: '', search: 'x'.repeat(100_000) },
  ])
    for (const route of ['list', 'list-v2'])
      assertOneOf(await storage.post(`object/${route}/${bucket}`, body), [200, 400])
})

test('case 34: an SVG is not rendered and reads no files of the host', async () => {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="50" height="50">
    <script>alert(1)</script><image xlink:href="file:///etc/passwd" width="50" height="50"/></svg>`
  for (const type of ['image/svg+xml', 'image/png', 'text/plain']) {
    const name = key()
    await storage.store(bucket, name, svg, { headers: { 'content-type': type } })
    for (const query of ['width=20', '', 'format=origin']) {
      const path = `${objectPath(bucket, name, 'render/image/public')}?${query}`
      const reply = await storage.get(path, { as: 'nobody' })
      assertOneOf(reply, [200, 400, 415, 422])
      if (reply.status === 200)
        assert.match(reply.headers.get('content-type') ?? '', /^image\/(png|webp|avif|jpeg)$/)
      assert.ok(!reply.text.includes('<script'))
    }
  }
})

test('1 §5 an expired credential returns 401 even for a public file', async () => {
  await storage.store(bucket, 'open.txt')
  const as = { ...ada, exp: 1_000_000_000 }
  assertStatus(await storage.get(objectPath(bucket, 'open.txt'), { as }), 401)
})
