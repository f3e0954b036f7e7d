// Webhook deliveries to hostile receivers (faults-and-attacks 28): each attempt ends in time, with bounded memory.
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { createConnector } from '#src/kernel/outbound/connect.ts'
import { createKeepAlive } from '#src/kernel/outbound/keep-alive.ts'
import { eventually } from './eventually.ts'
import { createReceivers, drip, plainAnswer, reasonOf, sendForever } from './receivers.ts'

const receivers = createReceivers()
const client = createKeepAlive(createConnector({ allow: ['127.0.0.1'] }), { idleMs: 3_600_000 })
after(async () => {
  await client.close()
  receivers.close()
})

/** For requests that must end for another reason than the time. */
const longMs = 120_000
const post = (url: string, body: string | Buffer = '{}', timeoutMs = longMs) =>
  client.post({ url, body, timeoutMs })

const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'

const hostile: [string, string, (socket: Socket) => void][] = [
  ['never answers', 'timeout', () => {}],
  [
    'sends its status line slowly',
    'timeout',
    socket => {
      socket.write('HTTP/1.1 200 ')
      drip(socket, 'x')
    },
  ],
  [
    'sends its headers slowly',
    'timeout',
    socket => {
      socket.write('HTTP/1.1 200 OK\r\n')
      drip(socket, 'a: b\r\n')
    },
  ],
  [
    'sends its body slowly',
    'timeout',
    socket => {
      socket.write(chunked)
      drip(socket, '1\r\nx\r\n')
    },
  ],
  ['sends empty lines slowly', 'timeout', socket => drip(socket, '\r\n')],
  [
    'sends an endless body with a length',
    'answer_too_large',
    socket => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n')
      sendForever(socket, 'x')
    },
  ],
  [
    'sends an endless body in chunks',
    'answer_too_large',
    socket => {
      socket.write(chunked)
      sendForever(socket, '5\r\nhello\r\n')
    },
  ],
  [
    'sends an endless body until it closes',
    'answer_too_large',
    socket => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      sendForever(socket, 'x')
    },
  ],
  [
    'sends headers without end',
    'protocol',
    socket => {
      socket.write('HTTP/1.1 200 OK\r\n')
      sendForever(socket, 'name: value\r\n')
    },
  ],
  [
    'sends an endless header',
    'protocol',
    socket => {
      socket.write('HTTP/1.1 200 OK\r\nname: ')
      sendForever(socket, 'x')
    },
  ],
  [
    'sends an endless status text',
    'answer_too_large',
    socket => {
      socket.write('HTTP/1.1 200 ')
      sendForever(socket, 'x')
    },
  ],
  [
    'sends trailers without end',
    'protocol',
    socket => {
      socket.write(`${chunked}0\r\n`)
      sendForever(socket, 'name: value\r\n')
    },
  ],
  [
    'sends an endless chunk extension',
    'answer_too_large',
    socket => {
      socket.write(`${chunked}5;name=`)
      sendForever(socket, 'x')
    },
  ],
  [
    'sends informational answers without end',
    'answer_too_large',
    socket => sendForever(socket, 'HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n'),
  ],
  ['sends empty lines without end', 'answer_too_large', socket => sendForever(socket, '\r\n')],
  ['sends zeros', 'protocol', socket => sendForever(socket, '\0')],
  ['speaks another protocol', 'protocol', socket => socket.write('220 mail.example.com ESMTP\r\n')],
  ['sends a TLS alert', 'protocol', socket => socket.write(Buffer.from([21, 3, 1, 0, 2, 2, 70]))],
  ['sends status 000', 'protocol', socket => socket.write('HTTP/1.1 000 Zero\r\ncontent-length: 0\r\n\r\n')],
  ['sends a status of five digits', 'protocol', socket => socket.write('HTTP/1.1 20000 OK\r\n\r\n')],
  [
    'sends two lengths',
    'protocol',
    socket => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx'),
  ],
  [
    'sends a length and chunks',
    'protocol',
    socket =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'),
  ],
  ['sends an invalid chunk size', 'protocol', socket => socket.write(`${chunked}zz\r\n`)],
  [
    'switches protocols',
    'protocol',
    socket => socket.write('HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
  ],
  [
    'sends 100 Continue, which was not requested',
    'protocol',
    socket => socket.write(`HTTP/1.1 100 Continue\r\n\r\n${plainAnswer('ok')}`),
  ],
  ['closes without an answer', 'closed', socket => socket.end()],
  ['resets the connection', 'closed', socket => socket.resetAndDestroy()],
  ['closes within the head', 'closed', socket => socket.end('HTTP/1.1 200 OK\r\nname: va')],
  [
    'closes within the body',
    'closed',
    socket => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive.'),
  ],
  [
    'closes within the body after announcing it',
    'closed',
    socket => socket.end('HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 10\r\n\r\nfive.'),
  ],
  ['closes within a chunk', 'closed', socket => socket.end(`${chunked}a\r\nfive.`)],
]
for (const [behaviour, reason, answer] of hostile)
  test(`keep-alive: a receiver that ${behaviour}: ${reason}`, async () => {
    const receiver = await receivers.raw(answer)
    const timeoutMs = reason === 'timeout' ? 200 : longMs
    assert.equal(await reasonOf(post(receiver.url, '{}', timeoutMs)), reason)
    const [socket] = receiver.connections
    await eventually(() => socket!.destroyed, 'the connection is closed')
    // The limit of the client, and what the buffers of two sockets take.
    assert.ok(socket!.bytesWritten < 30_000_000, `${socket!.bytesWritten} bytes were sent`)
    assert.equal(receiver.requests, 1, 'sent once')
  })

test('keep-alive: a receiver that neither reads nor answers: timeout', async () => {
  const receiver = await receivers.raw(
    () => {},
    socket => socket.pause(),
  )
  assert.equal(await reasonOf(post(receiver.url, Buffer.alloc(20_000_000), 200)), 'timeout')
  receiver.connections[0]!.resume()
  await eventually(() => receiver.connections[0]!.destroyed, 'the connection is closed')
})

test('keep-alive: a connection whose receiver answers without reading is not used again', async () => {
  const receiver = await receivers.raw(
    () => {},
    socket => {
      socket.pause()
      setImmediate(() => socket.write(plainAnswer('early')))
    },
  )
  for (let number = 1; number <= 3; number++) {
    assert.equal((await post(receiver.url, Buffer.alloc(20_000_000))).body, 'early')
    assert.equal(receiver.connections.length, number)
  }
})

test('keep-alive: a compressed answer is not decompressed', async () => {
  const bomb = gzipSync(Buffer.alloc(100_000_000))
  const receiver = await receivers.http((request, response) => {
    assert.equal(request.headers['accept-encoding'], 'identity')
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb.subarray(0, 900))
  })
  const { status, body } = await post(receiver.url)
  assert.equal(status, 200)
  assert.equal(body, bomb.subarray(0, 900).toString())
})

test('keep-alive: ten answers of 250,000 chunks at once arrive complete', async () => {
  const chunks = 250_000
  const receiver = await receivers.raw(socket => {
    socket.write(`${chunked}${'1\r\nx\r\n'.repeat(chunks)}0\r\n\r\n`)
  })
  for (let round = 0; round < 2; round++) {
    const answers = await Promise.all(Array.from({ length: 10 }, () => post(receiver.url)))
    for (const { body } of answers) assert.equal(body, 'x'.repeat(1024))
  }
  assert.equal(receiver.connections.length, 10)
})

test('keep-alive: a second answer does not become the answer of the next request', async () => {
  const receiver = await receivers.raw((socket, { number }) => {
    socket.write(plainAnswer(`answer ${number}`))
    if (number === 1) socket.write(plainAnswer('forged'))
  })
  assert.equal((await post(receiver.url)).body, 'answer 1')
  for (const number of [2, 3]) assert.equal((await post(receiver.url)).body, `answer ${number}`)
  assert.equal(receiver.connections.length, 2)
})

test('keep-alive: bytes on an unused connection close it', async () => {
  for (const bytes of ['\r\n', plainAnswer('forged')]) {
    const receiver = await receivers.raw(socket => socket.write(plainAnswer('ok')))
    assert.equal((await post(receiver.url)).body, 'ok')
    const [socket] = receiver.connections
    socket!.write(bytes)
    await eventually(() => socket!.destroyed, 'the connection is closed')
    assert.equal((await post(receiver.url)).body, 'ok')
  }
})

test('keep-alive: many endless answers at once end, and other requests are answered', async () => {
  const endless = await receivers.raw(socket => {
    socket.write(chunked)
    sendForever(socket, '1\r\nx\r\n')
  })
  const other = await receivers.http((_request, response) => response.end('ok'))
  const attacks = Array.from({ length: 30 }, () => reasonOf(post(endless.url)))
  assert.equal((await post(other.url)).body, 'ok')
  for (const reason of await Promise.all(attacks)) assert.equal(reason, 'answer_too_large')
})
