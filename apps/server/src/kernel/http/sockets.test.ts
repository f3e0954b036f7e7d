import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { WebSocket } from 'ws'
import { createLog } from '#src/kernel/log.ts'
import { paceReading } from '#src/kernel/paced-reading.ts'
import { DirectBodyRequest } from './body.ts'
import type { ClientSocket } from './client-socket.ts'
import { nobody } from './observation.ts'
import { RequestPieces } from './request-pieces.ts'
import { createSockets } from './sockets.ts'
import { textFrame } from './websocket-frame.ts'

const log = createLog('silent', { write() {} })

/** A server whose sockets echo messages. It is closed after the test. */
async function echo(
  t: TestContext,
  pace?: { idleMs: number; sweepMs: number },
  onMessage: (data: Buffer) => void = () => {},
) {
  const opened: ClientSocket[] = []
  const sockets = createSockets(
    log,
    () => {},
    () => 'an id',
    () => '127.0.0.1',
    pace,
  )
  sockets.mount('test', {
    addresses: ['/echo/{name}'],
    admit: ({ params }) => params['name'],
    identify: () => nobody,
    accept(name, socket) {
      opened.push(socket)
      return {
        message(data) {
          onMessage(data)
          socket.send(textFrame(`${name}: ${data.subarray(0, 50)}`))
        },
        closed() {},
      }
    },
    refuse: ({ message }) => ({ message }),
  })
  const server = createServer(
    {
      shouldUpgradeCallback: sockets.shouldUpgrade,
      IncomingMessage: DirectBodyRequest as typeof IncomingMessage,
    },
    (_request, reply) => void reply.end('plain'),
  )
  server.on('connection', socket => paceReading(socket, new RequestPieces(socket)))
  server.on('upgrade', sockets.upgrade)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    await sockets.close(1000)
    server.close()
  })
  const origin = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    origin,
    opened,
    async open() {
      const client = new WebSocket(`ws://${origin}/echo/x`)
      await once(client, 'open')
      return client
    },
  }
}

/** A TCP client that sends the handshake and `after` in one write, and parses the received frames. */
async function rawClient(t: TestContext, origin: string, after: Buffer) {
  const [host, port] = origin.split(':')
  const socket = connect(Number(port), host)
  socket.on('error', () => {})
  t.after(() => socket.destroy())
  const lines = [
    'GET /echo/x HTTP/1.1',
    'host: x',
    'connection: upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    `sec-websocket-key: ${Buffer.alloc(16).toString('base64')}`,
  ]
  socket.write(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), after]))
  const frames: { kind: number; payload: string }[] = []
  let bytes = Buffer.alloc(0)
  let isOpen = false
  socket.on('data', chunk => {
    bytes = Buffer.concat([bytes, chunk])
    if (!isOpen) {
      const end = bytes.indexOf('\r\n\r\n')
      if (end < 0) return
      isOpen = true
      bytes = bytes.subarray(end + 4)
    }
    // All frames are short, so the second byte is the length.
    while (bytes.length >= 2 && bytes.length >= 2 + bytes[1]!) {
      frames.push({ kind: bytes[0]! & 0xf, payload: bytes.toString('latin1', 2, 2 + bytes[1]!) })
      bytes = bytes.subarray(2 + bytes[1]!)
    }
  })
  const until = async (isEnough: () => boolean) => {
    while (!isEnough() && !socket.closed) await new Promise(resolve => setImmediate(resolve))
  }
  return { socket, frames, until }
}

/** A client frame, masked with zeros. */
function masked(kind: number, payload: string): Buffer {
  const { length } = payload
  const lengthBytes = length < 126 ? [0x80 | length] : [0x80 | 126, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([0x80 | kind, ...lengthBytes, 0, 0, 0, 0]), Buffer.from(payload)])
}

const texts = (client: WebSocket): string[] => {
  const received: string[] = []
  client.on('message', data => received.push(String(data)))
  return received
}

test('frames arrive in the order in which they were sent, whatever their number and size', async t => {
  const { opened, open } = await echo(t)
  const client = await open()
  const received = texts(client)
  // Fewer bytes than the limit for slow readers.
  const sent = Array.from({ length: 100 }, (_, at) => `${at} ${'x'.repeat((at * 701) % 70_000)}`)
  for (const [at, text] of sent.entries()) {
    opened[0]!.send(textFrame(text))
    if (at % 20 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  opened[0]!.close(1000, 'that was all')
  opened[0]!.send(textFrame('too late'))
  const [code, reason] = await once(client, 'close')
  assert.deepEqual([code, String(reason)], [1000, 'that was all'])
  assert.ok(received.length === sent.length && received.every((text, at) => text === sent[at]))
})

test('an idle socket is closed; one that sends pings or messages stays open', async t => {
  const { open } = await echo(t, { idleMs: 2000, sweepMs: 20 })
  const [pinging, talking, silent] = [await open(), await open(), await open()]
  const closed = once(silent, 'close')
  const beat = setInterval(() => {
    pinging.ping()
    talking.send('here')
  }, 50)
  t.after(() => clearInterval(beat))
  const [code, reason] = await closed
  assert.deepEqual([code, String(reason)], [1001, 'idle: nothing was heard for 2 seconds'])
  assert.deepEqual([pinging.readyState, talking.readyState], [WebSocket.OPEN, WebSocket.OPEN])
})

test('only an upgrade request at the address of a socket becomes a socket', async t => {
  const { origin, open } = await echo(t)
  assert.equal(await (await fetch(`http://${origin}/echo/x`)).text(), 'plain')
  const elsewhere = new WebSocket(`ws://${origin}/other`)
  elsewhere.on('error', () => {})
  const [, answer] = await once(elsewhere, 'unexpected-response')
  assert.equal(answer.statusCode, 200)
  elsewhere.terminate()
  const client = await open()
  client.send('hello')
  assert.equal(String((await once(client, 'message'))[0]), 'x: hello')
})

test('messages in the same packet as the handshake are handled in order', async t => {
  const { origin } = await echo(t)
  const sent = Array.from({ length: 5000 }, (_, at) => String(at))
  const { frames, until } = await rawClient(t, origin, Buffer.concat(sent.map(text => masked(1, text))))
  await until(() => frames.length === sent.length)
  assert.ok(frames.every(({ payload }, at) => payload === `x: ${at}`))
  assert.equal(frames.length, sent.length)
})

test('one turn of the event loop handles a bounded number of messages', async t => {
  const inTurn = { now: 0, most: 0 }
  const { origin } = await echo(t, undefined, () => {
    if (inTurn.now++ === 0)
      setImmediate(() => {
        inTurn.now = 0
      })
    inTurn.most = Math.max(inTurn.most, inTurn.now)
    for (const endAt = performance.now() + 1; performance.now() < endAt; );
  })
  const sent = Buffer.concat(Array.from({ length: 300 }, () => masked(1, 'y'.repeat(1000))))
  const { frames, until } = await rawClient(t, origin, sent)
  await until(() => frames.length === 300)
  assert.equal(frames.length, 300)
  // Ten milliseconds for direct work, two for sliced work, and a piece of five messages more of each.
  assert.ok(inTurn.most <= 22, `${inTurn.most} messages in one turn`)
})

test('a burst of pings gets few pongs, and the last ping is answered', async t => {
  const { origin } = await echo(t)
  const pings = Array.from({ length: 20_000 }, (_, at) => masked(9, String(at)))
  const { frames, until } = await rawClient(t, origin, Buffer.concat([...pings, masked(1, 'then')]))
  await until(() => ['19999', 'x: then'].every(last => frames.some(({ payload }) => payload === last)))
  const pongs = frames.filter(({ kind }) => kind === 0xa)
  assert.equal(pongs.at(-1)?.payload, '19999')
  assert.ok(pongs.length < 2000, `${pongs.length} pongs`)
})

test('a frame that arrives in too many pieces closes the socket', async t => {
  const { origin } = await echo(t)
  const length = 10_000
  const frame = masked(1, 'y'.repeat(length))
  const { socket, frames, until } = await rawClient(t, origin, frame.subarray(0, frame.length - length))
  socket.setNoDelay()
  for (let at = 0; at < length && !socket.closed; at++) {
    socket.write('y')
    // The server reads each byte before the next is sent.
    await new Promise(resolve => setImmediate(resolve))
  }
  await until(() => frames.length > 0)
  assert.deepEqual(
    frames.map(({ kind, payload }) => [kind, Buffer.from(payload, 'latin1').readUInt16BE()]),
    [[8, 1008]],
  )
})

test('frames after a close frame are not read', async t => {
  const received: string[] = []
  const { origin } = await echo(t, undefined, data => received.push(String(data)))
  const closeFrame = masked(8, String.fromCharCode(3, 232))
  const after = Array.from({ length: 5000 }, () => masked(1, 'after'))
  const { until } = await rawClient(t, origin, Buffer.concat([masked(1, 'before'), closeFrame, ...after]))
  await until(() => false)
  assert.deepEqual(received, ['before'])
})
