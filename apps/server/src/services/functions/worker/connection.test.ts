import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, test } from 'node:test'
import { openConnection } from './connection.ts'
import { ConnectionLost } from './received-bytes.ts'

const directory = mkdtempSync(join(tmpdir(), 'plinth-connection-'))
after(() => rmSync(directory, { recursive: true, force: true }))
let servers = 0

/** A server that sends the given parts one after the other, each in a turn of its own. */
async function serving(parts: readonly string[], shouldClose = false) {
  const path = join(directory, `s${++servers}`)
  const received: string[] = []
  const server = createServer(async (socket: Socket) => {
    socket.on('error', () => {})
    socket.on('data', chunk => received.push(chunk.toString()))
    await new Promise(resolve => socket.once('data', resolve))
    for (const part of parts) {
      socket.write(part)
      await new Promise(resolve => setTimeout(resolve, 2))
    }
    if (shouldClose) socket.end()
  })
  await new Promise<void>(resolve => server.listen(path, resolve))
  const connection = await openConnection(path)
  const end = () => {
    connection.close()
    server.close()
  }
  return { connection, received, end }
}

const head = { method: 'GET', target: '/x', headers: ['host', 'h'] }

async function bodyOf(answer: {
  whole: Buffer | undefined
  read(): Promise<readonly Buffer[]>
}): Promise<string> {
  if (answer.whole) return answer.whole.toString()
  const chunks: Buffer[] = []
  for (let next = await answer.read(); next.length > 0; next = await answer.read()) chunks.push(...next)
  return Buffer.concat(chunks).toString()
}

const answers: [string, string, string, boolean][] = [
  ['a length', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX-A: b\r\n\r\nhello', 'hello', true],
  ['no body', 'HTTP/1.1 204 No Content\r\n\r\n', '', true],
  [
    'chunks',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\na\r\n and more!\r\n0\r\n\r\n',
    'hello and more!',
    true,
  ],
  ['the end of the connection', 'HTTP/1.1 200 OK\r\n\r\nall of it', 'all of it', false],
  [
    'an interim answer before',
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok',
    'ok',
    true,
  ],
]
for (const [what, bytes, body, isReusable] of answers)
  test(`connection: a body with ${what} is read, however its bytes arrive`, async () => {
    for (const parts of [[bytes], [...bytes], bytes.split(/(?<=\r\n)/)]) {
      const { connection, end } = await serving(parts, !isReusable)
      const answer = await connection.call(head, undefined)
      assert.equal(await bodyOf(answer), body)
      if (isReusable) assert.equal(connection.isIdle, true)
      end()
    }
  })

test('connection: a request has its head and body, whole or in chunks', async () => {
  const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'
  const whole = await serving([ok])
  await whole.connection.call({ ...head, method: 'POST' }, Buffer.from('body'))
  assert.equal(whole.received.join(''), 'POST /x HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\r\nbody')
  whole.end()
  const chunked = await serving([])
  void chunked.connection
    .call(head, Readable.from([Buffer.from('one'), Buffer.from('three')]))
    .catch(() => {})
  while (!chunked.received.join('').endsWith('0\r\n\r\n'))
    await new Promise(resolve => setTimeout(resolve, 2))
  assert.match(
    chunked.received.join(''),
    /transfer-encoding: chunked\r\n\r\n3\r\none\r\n5\r\nthree\r\n0\r\n\r\n$/,
  )
  chunked.end()
})

test('connection: a worker that ends in the head or in the body is ConnectionLost', async () => {
  const inHead = await serving(['HTTP/1.1 200 OK\r\ncontent-'], true)
  await assert.rejects(inHead.connection.call(head, undefined), ConnectionLost)
  inHead.end()
  const inBody = await serving(['HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'], true)
  const answer = await inBody.connection.call(head, undefined)
  await assert.rejects(bodyOf(answer), ConnectionLost)
  assert.equal(inBody.connection.isIdle, false)
  inBody.end()
})

test('connection: a head without end is given up', async () => {
  const { connection, end } = await serving([`HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(100_000)}`])
  await assert.rejects(connection.call(head, undefined), ConnectionLost)
  end()
})
