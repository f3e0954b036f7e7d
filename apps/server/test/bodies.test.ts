// Request bodies as they can arrive: complete, in pieces, late, too long, aborted, and pipelined.
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { type CacheProject, cacheProject } from './cache-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: CacheProject
before(async () => {
  platform = await startPlatform()
  project = await cacheProject(platform)
  await project.set('warm', 'up')
})
after(() => platform?.stop())

const setPath = () => `/v1/cache/${project.id}/set`

function head(path: string, headers: Record<string, string>): string {
  const all = { host: 'x', authorization: `Bearer ${project.service_role_key}`, ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}
const json = { 'content-type': 'application/json' }

/** A connection, and what has come back on it so far. */
function open(): { socket: Socket; received: () => string } {
  const { hostname, port } = new URL(platform.url)
  let text = ''
  const socket = connect(Number(port), hostname)
  socket.setNoDelay(true)
  socket.on('error', () => {})
  socket.on('data', chunk => {
    text += chunk
  })
  return { socket, received: () => text }
}
const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(match => Number(match[1]))

async function sendInPieces(pieces: (string | Buffer)[], answers = 1): Promise<string> {
  const { socket, received } = open()
  for (const piece of pieces) {
    socket.write(piece)
    await sleep(5)
  }
  await eventually(() => statuses(received()).length >= answers && received().endsWith('}'), 'all answers')
  socket.destroy()
  return received()
}

test('request bodies: a body can arrive with the head, after it, or byte by byte', async () => {
  const body = JSON.stringify({ key: 'pieces', value: 'ü😀' })
  const bytes = Buffer.from(body)
  const start = head(setPath(), { ...json, 'content-length': String(bytes.length) })
  const all = Buffer.concat([Buffer.from(start), bytes])
  for (const pieces of [
    [all],
    [start, bytes],
    [all.subarray(0, start.length + 1), all.subarray(start.length + 1)],
    [start, ...Array.from(bytes, byte => Buffer.from([byte]))],
  ]) {
    await project.set('pieces', 'old')
    assert.deepEqual(statuses(await sendInPieces(pieces)), [200])
    assert.equal(await project.get('pieces'), 'ü😀')
  }
})

test('request bodies: a body can be chunked', async () => {
  const start = head(setPath(), { ...json, 'transfer-encoding': 'chunked' })
  const chunks = ['{"key":"chu', 'nked","value":"', '1"}'].map(
    text => `${text.length.toString(16)}\r\n${text}\r\n`,
  )
  assert.deepEqual(statuses(await sendInPieces([`${start}${chunks.join('')}0\r\n\r\n`])), [200])
  assert.deepEqual(statuses(await sendInPieces([start, ...chunks, '0\r\n\r\n'])), [200])
  assert.equal(await project.get('chunked'), '1')
  const empty = await sendInPieces([`${start}0\r\n\r\n`])
  assert.deepEqual(statuses(empty), [400])
  assert.match(empty, /The body must be object/)
})

test('request bodies: a body is kept while the credential is checked in the database', async () => {
  const body = JSON.stringify({ key: 'managed', value: 'x' })
  const start = head(`/api/v1/projects/${project.id}/cache/keys`, {
    ...json,
    authorization: `Bearer ${(await platform.platform.mintToken({ body: { name: 't', scope: 'admin' } })).token}`,
    'content-length': String(body.length),
  })
  for (const pieces of [[start + body], [start + body.slice(0, 5), body.slice(5)], [start, body]]) {
    await project.cache('POST', 'del', { keys: ['managed'] })
    assert.deepEqual(statuses(await sendInPieces(pieces)), [201])
    assert.equal(await project.get('managed'), 'x')
  }
})

test('request bodies: pipelined requests are answered in order', async () => {
  const requests = Array.from({ length: 20 }, (_, number) => {
    const body = JSON.stringify({ key: `line ${number}`, value: String(number) })
    return `${head(setPath(), { ...json, 'content-length': String(body.length) })}${body}`
  })
  const get = head(`/v1/cache/${project.id}/get/warm`, {}).replace('POST', 'GET')
  const answers = await sendInPieces([`${requests.join('')}${get}`], 21)
  assert.deepEqual(
    statuses(answers),
    Array.from({ length: 21 }, () => 200),
  )
  assert.match(answers, /\{"value":"up"\}$/)
})

test('request bodies: a body over the limit is 413, with Content-Length or chunked', async () => {
  const limit = 10 * 1024 * 1024
  const declared = await sendInPieces([head(setPath(), { ...json, 'content-length': String(limit + 1) })])
  assert.deepEqual(statuses(declared), [413])
  assert.match(declared, /connection: close/i)
  const piece = Buffer.alloc(1024 * 1024, 'x')
  const { socket, received } = open()
  socket.write(head(setPath(), { ...json, 'transfer-encoding': 'chunked' }))
  for (let sent = 0; sent < 14 && statuses(received()).length === 0; sent++) {
    socket.write(`${piece.length.toString(16)}\r\n`)
    socket.write(piece)
    socket.write('\r\n')
    await sleep(5)
  }
  await eventually(() => statuses(received()).length > 0, 'the body is rejected')
  socket.destroy()
  assert.deepEqual(statuses(received()), [413])
  assert.equal(await project.get('warm'), 'up')
})

test('request bodies: an aborted body changes nothing and logs no error', async () => {
  const before = platform.logged.length
  for (const pieces of [
    [head(setPath(), { ...json, 'content-length': '1000' }), '{"key":"cut","value":"'],
    [head(setPath(), { ...json, 'transfer-encoding': 'chunked' }), '5\r\n{"key\r\n'],
  ]) {
    const { socket } = open()
    for (const piece of pieces) {
      socket.write(piece)
      await sleep(20)
    }
    socket.destroy()
  }
  await sleep(200)
  assert.doesNotMatch(platform.logged.slice(before).join(''), /"level":"error"/)
  assert.equal(await project.get('cut'), null)
})

test('request bodies: a wrong content type is 415, and invalid JSON is 400', async () => {
  const body = '{"key":"kind","value":"1"}'
  const send = async (headers: Record<string, string>, bytes: string | Buffer = body) =>
    (
      await fetch(platform.url + setPath(), {
        method: 'POST',
        headers: { authorization: `Bearer ${project.service_role_key}`, ...headers },
        body: typeof bytes === 'string' ? bytes : new Uint8Array(bytes),
      })
    ).status
  for (const type of [
    'application/json',
    'application/json; charset=utf-8',
    'application/json;charset=utf-8',
    'Application/JSON',
  ])
    assert.equal(await send({ 'content-type': type }), 200, type)
  for (const type of [
    'text/plain',
    'application/jsonp',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    '',
  ])
    assert.equal(await send({ 'content-type': type }), 415, type)
  assert.equal(await send({ ...json, 'content-encoding': 'gzip' }, gzipSync(body)), 415)
  assert.equal(await send(json, '{'), 400)
  assert.equal(await send(json, Buffer.from([0x7b, 0xff, 0x7d])), 400)
  assert.equal(await send(json, `\ufeff${body}`), 200)
  assert.equal(await send(json, ''), 400)
})

test('request bodies: the body of a GET is ignored', async () => {
  const body = 'x'.repeat(1000)
  const get = head(`/v1/whoami/${project.id}`, { 'content-length': String(body.length) }).replace(
    'POST',
    'GET',
  )
  const answers = await sendInPieces([`${get}${body}${get}${body}`], 2)
  assert.deepEqual(statuses(answers), [200, 200])
})

test('request bodies: texts of megabytes are returned unchanged', async () => {
  for (const text of ['\n"\\'.repeat(1_000_000), '😀é'.repeat(700_000), '\u0000'.repeat(1_000_000)]) {
    await project.set('large', text)
    assert.ok((await project.get('large')) === text, 'get')
    const { body } = await project.cache('POST', 'mget', { keys: ['large', 'absent', 'warm', 'large'] })
    const { values } = body as { values: (string | null)[] }
    assert.ok(values[0] === text && values[3] === text, 'mget')
    assert.deepEqual(values.slice(1, 3), [null, 'up'])
  }
})

test('request bodies: a body with too many values is rejected before it is parsed', async () => {
  const keys = `{"keys":[${Array(60_000).fill('"k"').join()}]}`
  const start = head(`/v1/cache/${project.id}/del`, { ...json, 'content-length': String(keys.length) })
  const answer = await sendInPieces([start, keys])
  assert.deepEqual(statuses(answer), [413])
  assert.match(answer, /more than 50000 values/)
})
