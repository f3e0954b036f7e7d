// Case 42: clients that do not read, and many that reconnect at once.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { WebSocket } from 'ws'
import { startPlatform, type TestPlatform } from './harness.ts'
import { heldMemory } from './held-memory.ts'
import { broadcast, RawSocket, socketUrl } from './realtime-raw.ts'

let platform: TestPlatform
let project: CreatedProject
before(async () => {
  platform = await startPlatform()
  project = await platform.createProject()
})
after(() => platform.stop())

/** A client on a raw TCP socket, with an all-zero frame mask. */
async function rawConnection(): Promise<Socket> {
  const { hostname, port, pathname, search } = new URL(socketUrl(platform, project))
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  const key = randomBytes(16).toString('base64')
  socket.write(
    `GET ${pathname}${search} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`,
  )
  const [answer] = (await once(socket, 'data')) as [Buffer]
  assert.match(String(answer), /^HTTP\/1\.1 101 /)
  return socket
}

function masked(kind: number, payload: Buffer): Buffer {
  const length = payload.length
  const head =
    length < 126 ? [0x80 | kind, 0x80 | length] : [0x80 | kind, 0x80 | 126, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), payload])
}

const joinFrame = (topic: string) =>
  masked(1, Buffer.from(JSON.stringify(['1', '1', topic, 'phx_join', { config: {} }])))

test('slow readers: a client that stops reading is closed with a reason, the others get everything, and memory stays bounded', async () => {
  const topic = 'realtime:torrent'
  const [sender, reader] = [await RawSocket.open(platform, project), await RawSocket.open(platform, project)]
  await sender.join(topic, { broadcast: { ack: true } })
  await reader.join(topic)
  const slow = await rawConnection()
  slow.write(joinFrame(topic))
  await once(slow, 'data')
  slow.pause()

  const before = heldMemory()
  const payload = 'x'.repeat(1_000_000)
  const count = 150
  for (let at = 0; at < count; at++) {
    const { status } = await sender.ask(topic, 'broadcast', broadcast('', 'e', `${at}${payload}`)[4])
    assert.equal(status, 'ok')
    await reader.event(topic, 'broadcast')
  }
  const { arrayBuffers } = heldMemory()
  assert.ok(
    arrayBuffers - before.arrayBuffers < 75_000_000,
    `${arrayBuffers - before.arrayBuffers} bytes are buffered`,
  )

  // It reads again: the frames under way, the close reason, and the end.
  const chunks: Buffer[] = []
  slow.on('data', chunk => chunks.push(chunk))
  slow.resume()
  await once(slow, 'close')
  const bytes = Buffer.concat(chunks)
  assert.ok(bytes.length < 20_000_000, `${bytes.length} bytes received`)
  await sender.settled()
  for (const socket of [sender, reader]) await socket.close()
})

/** Whether the platform, which runs in this process, has closed a socket with this code. */
function closedByPlatform(code: number): { isDone: boolean } {
  const state = { isDone: false }
  const { close } = WebSocket.prototype
  WebSocket.prototype.close = function (given, reason) {
    if (given === code) {
      state.isDone = true
      WebSocket.prototype.close = close
    }
    return close.call(this, given, reason)
  }
  return state
}

test('slow readers: a client that resumes in time receives the close reason', async () => {
  const topic = 'realtime:waking'
  const sender = await RawSocket.open(platform, project)
  await sender.join(topic, { broadcast: { ack: true } })
  const slow = await RawSocket.open(platform, project)
  await slow.join(topic)
  slow.connection.pause()
  const payload = 'x'.repeat(1_000_000)
  const closing = closedByPlatform(1013)
  // The platform waits two seconds for the client, so nothing is sent after it has decided to close.
  while (!closing.isDone) await sender.ask(topic, 'broadcast', broadcast('', 'e', payload)[4])
  slow.connection.resume()
  const { code, reason } = await slow.end()
  assert.deepEqual([code, reason.split(':')[0]], [1013, 'too slow'])
  await sender.close()
})

test('slow readers: unread pongs do not accumulate', async () => {
  const socket = await rawConnection()
  socket.pause()
  const pings = Buffer.concat(Array.from({ length: 5000 }, () => masked(9, Buffer.alloc(125))))
  const before = heldMemory().arrayBuffers
  for (let round = 0; round < 30; round++) if (!socket.write(pings)) await once(socket, 'drain')
  assert.ok(heldMemory().arrayBuffers - before < 50_000_000)
  // A client that reads again gets its pongs.
  let tail = ''
  socket.on('data', chunk => {
    tail = (tail + chunk.toString('latin1')).slice(-10)
  })
  socket.resume()
  socket.write(masked(9, Buffer.from('last')))
  while (!tail.endsWith('last')) await once(socket, 'data')
  socket.destroy()
})

test('slow readers: 300 clients that reconnect repeatedly leave no state behind', async () => {
  const topic = 'realtime:storm'
  const observer = await RawSocket.open(platform, project)
  await observer.join(topic, { presence: { key: 'witness', enabled: true } })
  for (let round = 0; round < 3; round++) {
    const sockets = await Promise.all(Array.from({ length: 300 }, () => RawSocket.open(platform, project)))
    await Promise.all(sockets.map(socket => socket.join(topic, { presence: { key: '', enabled: true } })))
    await Promise.all(
      sockets.slice(0, 50).map(async socket => {
        const { status } = await socket.ask(topic, 'presence', { event: 'track', payload: { round } })
        assert.equal(status, 'ok')
      }),
    )
    for (const socket of sockets) socket.connection.terminate()
  }
  const present = new Set<string>()
  while (
    present.size > 0 ||
    observer.frames.some(([, , , event]) => event === 'presence_diff') ||
    (await stillThere())
  ) {
    const [, , , , { joins, leaves }] = await observer.event(topic, 'presence_diff')
    for (const key of Object.keys(joins)) present.add(key)
    for (const key of Object.keys(leaves)) present.delete(key)
  }
  await observer.close()

  /** Whether a new member sees any presence. */
  async function stillThere(): Promise<boolean> {
    const late = await RawSocket.open(platform, project)
    await late.join(topic, { presence: { key: '', enabled: true } })
    const [, , , , state] = await late.event(topic, 'presence_state')
    await late.close()
    return Object.keys(state).length > 0
  }
})
