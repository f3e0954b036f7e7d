// 1 §4.6 and storage contract §2: bodies and metadata of uploads, and replacing files.
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
  bob,
  duplicate,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { until } from '../until.ts'
import { sendPart, sendPieces } from '../uploads.ts'

let it: Target
let storage: StorageApi
let bucket: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
})
after(() => it.stop())

const key = (ending = 'txt') => `${unique('file')}.${ending}`
const raw = (method: string, name: string, body: RequestInit['body'], headers: Record<string, string> = {}) =>
  storage.ask(method, objectPath(bucket, name), { raw: body, headers })
const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')

for (const shape of shapes)
  for (const method of ['POST', 'PUT'])
    test(`contract §1 ${method} with a raw body returns Id and Key on the ${shape} path, and the bytes can be downloaded`, async () => {
      const name = `folder/${key('bin')}`
      const content = randomBytes(70_000)
      const headers = { 'content-type': 'application/x-thing' }
      const path = objectPath(bucket, name)
      const { Id, Key } = bodyOf(await storage.ask(method, path, { raw: content, headers, shape }))
      assert.match(Id, uuid)
      assert.equal(Key, `${bucket}/${name}`)
      const reply = await storage.get(path, { shape })
      assertBytes(reply.bytes, content)
      assert.equal(reply.headers.get('content-type'), 'application/x-thing')
    })

test('contract §2 a body of JSON, text or a form is stored unparsed', async () => {
  for (const [type, content] of [
    ['application/json', '{"a": [1,\n2]}'],
    ['application/json', '{"not JSON'],
    ['application/json; charset=utf-8', ''],
    ['text/plain;charset=UTF-8', 'ü'],
    ['application/x-www-form-urlencoded', 'a=1&b=2'],
    ['text/csv', 'a,b'],
  ] as const) {
    const name = key()
    bodyOf(await raw('POST', name, content, { 'content-type': type }))
    const reply = await fetch(`${it.url}/v1/storage/${storage.project.id}/${objectPath(bucket, name)}`, {
      headers: { apikey: storage.project.service_role_key },
    })
    assert.equal(await reply.text(), content)
    assert.equal(reply.headers.get('content-type'), type)
  }
})

test('contract §2 a raw body without a content type is application/octet-stream', async () => {
  const name = key('png')
  bodyOf(await raw('POST', name, Buffer.from('bytes')))
  assert.equal((await storage.info(bucket, name)).content_type, 'application/octet-stream')
})

test('contract §2 a stream without a length is stored completely', async () => {
  const name = key()
  const pieces = [randomBytes(1), randomBytes(65_536), randomBytes(200_001)]
  const stream = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    },
  })
  bodyOf(await raw('POST', name, stream, { 'content-type': 'text/plain' }))
  assertBytes(await storage.read(bucket, name), Buffer.concat(pieces))
  assert.equal((await storage.info(bucket, name)).size, 265_538)
})

test('contract §2 files of sizes around block boundaries are stored unchanged', async () => {
  for (const size of [1, 65_535, 65_536, 65_537, 131_072, 8 * 1024 * 1024, 8 * 1024 * 1024 + 1]) {
    const content = randomBytes(size)
    await storage.store(bucket, 'edge.bin', content, { headers: upsert })
    assert.ok(content.equals(await storage.read(bucket, 'edge.bin')), `${size}`)
  }
})

test('contract §2 an empty file can be stored', async () => {
  for (const send of [
    (name: string) => raw('POST', name, Buffer.alloc(0), { 'content-type': 'text/plain' }),
    (name: string) => raw('PUT', name, undefined),
    (name: string) => sendPieces(storage, 'POST', objectPath(bucket, name), []),
  ]) {
    const name = key()
    bodyOf(await send(name))
    const reply = await storage.get(objectPath(bucket, name))
    assert.deepEqual([reply.status, reply.bytes.length, reply.headers.get('content-length')], [200, 0, '0'])
    assert.equal((await storage.info(bucket, name)).size, 0)
  }
})

test('contract §2 the cache-control of a raw upload is stored verbatim; the default is no-cache', async () => {
  for (const [sent, kept] of [
    ['max-age=3600', 'max-age=3600'],
    ['public, max-age=31536000, immutable', 'public, max-age=31536000, immutable'],
    [undefined, 'no-cache'],
  ]) {
    const name = key()
    bodyOf(await raw('POST', name, 'text', sent === undefined ? {} : { 'cache-control': sent }))
    assert.equal((await storage.get(objectPath(bucket, name))).headers.get('cache-control'), kept)
    assert.equal((await storage.info(bucket, name)).cache_control, kept)
  }
})

test('contract §2 x-robots-tag is stored and returned; the default is none', async () => {
  const name = key()
  bodyOf(await raw('POST', name, 'text', { 'x-robots-tag': 'noindex, nofollow' }))
  const robots = async (name: string) =>
    (await storage.get(objectPath(bucket, name))).headers.get('x-robots-tag')
  assert.equal(await robots(name), 'noindex, nofollow')
  const { Key } = await storage.store(bucket, key())
  assert.equal(await robots(Key.slice(bucket.length + 1)), 'none')
})

test('contract §2 x-metadata is the user metadata in base64', async () => {
  const metadata = { camera: 'ü', nested: { list: [1, null, true] } }
  const name = key()
  bodyOf(await raw('POST', name, 'text', { 'x-metadata': base64(metadata) }))
  assert.deepEqual((await storage.info(bucket, name)).metadata, metadata)
  await storage.store(bucket, 'without.txt')
  assert.deepEqual((await storage.info(bucket, 'without.txt')).metadata, {})
})

test('contract §2 x-metadata that is not base64 JSON returns 400, and nothing is stored', async () => {
  for (const sent of ['{"a":1}', Buffer.from('{"a":').toString('base64'), '%%%']) {
    const name = key()
    assertRefused(await raw('POST', name, 'text', { 'x-metadata': sent }), 400)
    await storage.assertMissing(bucket, name)
  }
})

test('contract §2 POST to an existing key returns 409 and changes nothing', async () => {
  const { Id } = await storage.store(bucket, 'taken.txt', 'first')
  for (const headers of [{}, { 'x-upsert': 'false' }])
    assertRefused(await raw('POST', 'taken.txt', 'second', headers), 409, duplicate)
  assert.equal((await storage.read(bucket, 'taken.txt')).toString(), 'first')
  assert.equal((await storage.info(bucket, 'taken.txt')).id, Id)
})

for (const [what, method, headers] of [
  ['POST with x-upsert: true', 'POST', { 'x-upsert': 'true' }],
  ['PUT', 'PUT', {}],
] as const)
  test(`contract §2 ${what} replaces bytes and metadata, and keeps id and created_at`, async () => {
    const name = key()
    const { Id } = await storage.store(bucket, name, 'first', {
      headers: { 'x-metadata': base64({ first: true }), 'cache-control': 'max-age=1' },
    })
    const before = await storage.info(bucket, name)
    const again = bodyOf(await raw(method, name, 'the second', { ...headers, 'content-type': 'text/csv' }))
    assert.deepEqual(again, { Id, Key: `${bucket}/${name}` })
    assert.equal((await storage.read(bucket, name)).toString(), 'the second')
    const after = await storage.info(bucket, name)
    assert.deepEqual(
      [after.id, after.created_at, after.size, after.content_type, after.cache_control, after.metadata],
      [Id, before.created_at, 10, 'text/csv', 'no-cache', {}],
    )
    assert.notEqual(after.etag, before.etag)
    assert.notEqual(after.version, before.version)
    assert.ok(Date.parse(after.last_modified) >= Date.parse(before.last_modified))
  })

test('contract §2 of concurrent POST requests to one key one succeeds, the others return 409', async () => {
  const name = key()
  const contents = Array.from({ length: 8 }, (_, i) => `${i}`.repeat(100_000))
  const replies = await Promise.all(contents.map(content => raw('POST', name, content)))
  assert.deepEqual(replies.map(({ status }) => status).sort(), [200, ...Array(7).fill(409)])
  const winner = replies.findIndex(({ status }) => status === 200)
  assertBytes(await storage.read(bucket, name), Buffer.from(contents[winner]!))
})

test('issue 6: of concurrent replacements one remains, and every reader sees a complete version', async () => {
  const name = key()
  const contents = Array.from({ length: 6 }, (_, i) => `${i}`.repeat(150_000))
  await storage.store(bucket, name, contents[0])
  const look = async () => {
    const seen = (await storage.read(bucket, name)).toString()
    assert.ok(contents.includes(seen), `${seen.length} bytes of ${new Set(seen).size} kinds`)
  }
  const replaced = contents.map(async content => bodyOf(await raw('PUT', name, content)))
  await Promise.all([...replaced, ...Array.from({ length: 12 }, look)])
  await look()
  assert.equal((await storage.keys(bucket)).filter(each => each === name).length, 1)
})

for (const announced of [100_000, 'chunked'] as const)
  test(`issue 6: an aborted upload (${announced}) stores nothing and replaces nothing`, async () => {
    const half = Buffer.alloc(70_000, 'x')
    const [fresh, taken] = [key(), key()]
    await storage.store(bucket, taken, 'the first')
    await sendPart(storage, 'POST', objectPath(bucket, fresh), announced, half)
    await sendPart(storage, 'PUT', objectPath(bucket, taken), announced, half)
    await until('both are given up', async () => {
      await storage.assertMissing(bucket, fresh)
      assert.equal((await storage.read(bucket, taken)).toString(), 'the first')
      return (await storage.usage()) === (await bytesOfAll())
    })
    await storage.store(bucket, fresh, 'now')
    assert.equal((await storage.read(bucket, fresh)).toString(), 'now')
  })

async function bytesOfAll(): Promise<number> {
  const sql = `select coalesce(sum((metadata ->> 'size')::bigint), 0)::float8 as bytes from storage.objects`
  return (await storage.sql(sql))[0].bytes
}

test('clarifications: an upload by service_role to an unknown bucket creates it as private', async () => {
  for (const method of ['POST', 'PUT']) {
    const id = unique('new')
    bodyOf(await storage.ask(method, objectPath(id, 'a/b.txt'), { raw: 'text' }))
    const made = bodyOf(await storage.get(`bucket/${id}`))
    assert.deepEqual([made.public, made.file_size_limit, made.allowed_mime_types], [false, null, null])
    assertRefused(await storage.get(`object/public/${id}/a/b.txt`, { as: 'nobody' }), 404)
  }
})

test('clarifications: an upload by its user to an unknown user- bucket creates it as private', async () => {
  const id = unique('user-new')
  bodyOf(await storage.upload(id, `${ada.sub}/a.txt`, 'mine', { as: ada }))
  assert.equal(bodyOf(await storage.get(`bucket/${id}`)).public, false)
  assert.equal((await storage.read(id, `${ada.sub}/a.txt`, { as: ada })).toString(), 'mine')
})

test('clarifications: for other callers an unknown bucket returns 404 and is not created', async () => {
  const id = unique('none')
  for (const as of ['anon', ada] as const) {
    assertRefused(await storage.upload(id, 'a.txt', 'x', { as }), 404, 'NoSuchBucket')
    assertRefused(await storage.ask('PUT', objectPath(id, 'a.txt'), { raw: 'x', as }), 404, 'NoSuchBucket')
  }
  const theirs = unique('user-none')
  for (const as of ['anon', bob] as const)
    assertOneOf(await storage.upload(theirs, `${ada.sub}/a.txt`, 'x', { as }), [403, 404])
  for (const each of [id, theirs]) assertRefused(await storage.get(`bucket/${each}`), 404, 'NoSuchBucket')
})

test('clarifications: an upload does not create a bucket with an invalid name', async () => {
  for (const id of ['a%25b', 'b%C3%BCcher', '%20a', 'a'.repeat(101), 'a%00b'])
    assertRefused(await storage.ask('POST', `object/${id}/a.txt`, { raw: 'x' }), 400)
})

test('contract §9 a file belongs to the user who uploaded it', async () => {
  const id = await storage.bucket({ id: unique('user-owned') })
  const name = `${ada.sub}/a.txt`
  await storage.store(id, name, 'mine', { as: ada })
  await storage.store(id, `${ada.sub}/b.txt`)
  const rows = await storage.sql(
    `select name, owner::text, owner_id from storage.objects where bucket_id = '${id}' order by name`,
  )
  assert.deepEqual(rows, [
    { name, owner: ada.sub, owner_id: ada.sub },
    { name: `${ada.sub}/b.txt`, owner: null, owner_id: null },
  ])
})
