import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { after, test } from 'node:test'
import { encodeFrame, FrameReader, type FrameType, frameTypes, initialCredit } from '../frames.ts'
import { type Link, openLink } from './link.ts'
import { type Answer, AnswerTimeout, CallReset, ConnectionLost } from './linked-call.ts'

const directory = mkdtempSync(join(tmpdir(), 'plinth-link-'))
after(() => rmSync(directory, { recursive: true, force: true }))
let servers = 0
const head = { method: 'GET', target: '/x', headers: ['host', 'h'] }
const long = 60_000

interface Received {
  type: FrameType
  call: number
  content: string
}

/** The other end of a link, which does only what a test says. */
class Peer {
  readonly frames: Received[] = []
  readonly socket: Socket
  #wake: () => void = () => {}

  constructor(socket: Socket) {
    this.socket = socket
    const reader = new FrameReader()
    socket.on('error', () => {})
    socket.on('data', chunk => {
      for (let at = 0; at < chunk.length; ) {
        const room = reader.room
        const part = chunk.subarray(at, at + room.length)
        room.set(part)
        at += part.length
        for (const { type, call, content } of reader.received(part.length))
          this.frames.push({ type, call, content: Buffer.from(content).toString('latin1') })
      }
      this.#wake()
    })
  }

  async until(isEnough: (frames: readonly Received[]) => boolean): Promise<void> {
    while (!isEnough(this.frames))
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
  }

  send(type: FrameType, call: number, ...parts: readonly (string | Uint8Array)[]): void {
    this.socket.write(encodeFrame(type, call, ...parts.map(part => Buffer.from(part as string))))
  }
}

async function linked(use: (link: Link, peer: Peer) => Promise<void>): Promise<void> {
  const path = join(directory, `s${++servers}`)
  const accepted = Promise.withResolvers<Peer>()
  const server = createServer(socket => accepted.resolve(new Peer(socket)))
  await new Promise<void>(resolve => server.listen(path, resolve))
  const link = await openLink(path, () => {})
  const peer = await accepted.promise
  try {
    await use(link, peer)
  } finally {
    link.close()
    peer.socket.destroy()
    server.close()
  }
}

async function textOf(answer: Answer): Promise<string> {
  const chunks = answer.whole ? [answer.whole] : []
  for (let next = await answer.read(); next.length > 0; next = await answer.read()) chunks.push(...next)
  return Buffer.concat(chunks).toString()
}

function whole(call: number, answerHead: unknown, body: string): Uint8Array {
  const bytes = Buffer.from(JSON.stringify(answerHead))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return encodeFrame(frameTypes.whole, call, length, bytes, Buffer.from(body))
}

test('link: answers are read whatever pieces they arrive in, each by its own call', () =>
  linked(async (link, { socket }) => {
    const calls = [1, 2, 3].map(() => link.call(head, undefined, long))
    const bytes = Buffer.concat([
      whole(2, [201, ['x-a', 'b']], 'second'),
      encodeFrame(frameTypes.head, 1, Buffer.from('[200,[]]')),
      encodeFrame(frameTypes.data, 1, Buffer.from('fir')),
      whole(3, [204, []], ''),
      encodeFrame(frameTypes.data, 1, Buffer.from('st')),
      encodeFrame(frameTypes.end, 1),
    ])
    socket.setNoDelay(true)
    for (const byte of bytes) {
      socket.write(Buffer.of(byte))
      await new Promise(resolve => setImmediate(resolve))
    }
    const answers = await Promise.all(calls.map(({ answer }) => answer))
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 201, 204],
    )
    assert.deepEqual(answers[1]!.headers, ['x-a', 'b'])
    assert.deepEqual(await Promise.all(answers.map(textOf)), ['first', 'second', ''])
  }))

test('link: a request has its head, and its body whole or in parts', () =>
  linked(async (link, peer) => {
    link.call({ ...head, headers: ['x-name', 'Zoë'] }, Buffer.from('body'), long)
    link.call(head, Readable.from([Buffer.from('one'), Buffer.from('two')]), long)
    await peer.until(frames => frames.some(({ type }) => type === frameTypes.end))
    const [first, ...others] = peer.frames
    const headText = Buffer.from(JSON.stringify(['GET', '/x', ['x-name', 'Zoë']])).toString('latin1')
    assert.equal(first!.content.slice(4), `${headText}body`)
    assert.deepEqual(others, [
      { type: frameTypes.head, call: 2, content: '["GET","/x",["host","h"]]' },
      { type: frameTypes.data, call: 2, content: 'one' },
      { type: frameTypes.data, call: 2, content: 'two' },
      { type: frameTypes.end, call: 2, content: '' },
    ])
  }))

test('link: no more of a body is sent than the worker gives credit for', () =>
  linked(async (link, peer) => {
    const total = initialCredit + 1000
    const sent = () =>
      peer.frames
        .filter(({ type }) => type === frameTypes.data)
        .reduce((sum, { content }) => sum + content.length, 0)
    link.call(head, Readable.from([Buffer.alloc(total)]), long)
    await peer.until(() => sent() === initialCredit)
    const credit = Buffer.alloc(4)
    credit.writeUInt32BE(400)
    peer.send(frameTypes.credit, 1, credit)
    await peer.until(() => sent() > initialCredit)
    assert.equal(sent(), initialCredit + 400)
    credit.writeUInt32BE(initialCredit)
    peer.send(frameTypes.credit, 1, credit)
    await peer.until(frames => frames.at(-1)!.type === frameTypes.end)
    assert.equal(sent(), total)
  }))

test('link: the worker gets credit back for what is read', () =>
  linked(async (link, peer) => {
    const { answer } = link.call(head, undefined, long)
    peer.send(frameTypes.head, 1, '[200,[]]')
    const { read } = await answer
    for (let part = 0; part < 4; part++) peer.send(frameTypes.data, 1, Buffer.alloc(initialCredit / 4))
    let length = 0
    while (length < initialCredit) for (const chunk of await read()) length += chunk.length
    const credits = () => peer.frames.filter(({ type }) => type === frameTypes.credit)
    const given = () =>
      credits().reduce((sum, { content }) => sum + Buffer.from(content, 'latin1').readUInt32BE(), 0)
    await peer.until(() => given() === initialCredit)
    peer.send(frameTypes.data, 1, Buffer.alloc(initialCredit / 4))
    assert.notEqual((await read()).length, 0)
  }))

test('link: a call that is cancelled is reset at the worker, and others go on', () =>
  linked(async (link, peer) => {
    const cancelled = link.call(head, undefined, long)
    const other = link.call(head, undefined, long)
    cancelled.cancel()
    await assert.rejects(cancelled.answer, ConnectionLost)
    await peer.until(frames => frames.some(({ type, call }) => type === frameTypes.reset && call === 1))
    peer.socket.write(whole(1, [200, []], 'too late'))
    peer.socket.write(whole(2, [200, []], 'ok'))
    assert.equal(await textOf(await other.answer), 'ok')
  }))

test('link: a worker that sends nothing in time is AnswerTimeout, before the head and within the body', () =>
  linked(async (link, peer) => {
    await assert.rejects(link.call(head, undefined, 20).answer, AnswerTimeout)
    const { answer } = link.call(head, undefined, 1500)
    peer.send(frameTypes.head, 2, '[200,[]]')
    const { read } = await answer
    peer.send(frameTypes.data, 2, 'half')
    assert.equal(Buffer.concat([...(await read())]).toString(), 'half')
    await assert.rejects(read(), AnswerTimeout)
    await peer.until(frames => frames.filter(({ type }) => type === frameTypes.reset).length === 2)
  }))

test('link: what was received is read before the loss of the connection is reported', () =>
  linked(async (link, peer) => {
    const { answer } = link.call(head, undefined, long)
    peer.send(frameTypes.head, 1, '[200,[]]')
    peer.send(frameTypes.data, 1, 'half')
    const { read } = await answer
    const lost = link.call(head, undefined, long)
    peer.socket.end()
    await assert.rejects(lost.answer, ConnectionLost)
    assert.equal(Buffer.concat([...(await read())]).toString(), 'half')
    await assert.rejects(read(), ConnectionLost)
    await assert.rejects(link.call(head, undefined, long).answer, ConnectionLost)
  }))

function withHeaders(...headers: string[]): Uint8Array {
  return encodeFrame(frameTypes.head, 1, Buffer.from(JSON.stringify([200, headers])))
}

const tooLong = Buffer.alloc(9)
tooLong.writeUInt32BE(0xfffffff0)
tooLong[4] = frameTypes.head
tooLong.writeUInt32BE(1, 5)
const answerHead = encodeFrame(frameTypes.head, 1, Buffer.from('[200,[]]'))
const hostile: [string, Uint8Array][] = [
  ['a frame that is too long', tooLong],
  ['a head that is not JSON', encodeFrame(frameTypes.head, 1, Buffer.from('nonsense'))],
  ['a head of another form', encodeFrame(frameTypes.head, 1, Buffer.from('[200,{"a":1}]'))],
  ['a status that does not exist', encodeFrame(frameTypes.head, 1, Buffer.from('[99,[]]'))],
  ['a whole answer without a head', encodeFrame(frameTypes.whole, 1, Buffer.from('x'))],
  ['an end without a head', encodeFrame(frameTypes.end, 1)],
  ['a header name in capital letters', withHeaders('Content-Length', '5')],
  ['a header name that is none', withHeaders('x y', '5')],
  ['a header value of two lines', withHeaders('x', 'a\r\nset-cookie: b')],
  ['an answer of too many headers', withHeaders(...Array.from({ length: 2002 }, () => 'x'))],
  ['a data frame without data', encodeFrame(frameTypes.data, 1)],
  ['a credit that is too large', encodeFrame(frameTypes.credit, 1, Buffer.from([0, 0, 0, 1]))],
  ['a frame of an unknown type', encodeFrame(9 as FrameType, 1)],
  ['a frame that is too short', Buffer.from([0, 0, 0, 1, frameTypes.head, 0, 0, 0, 1])],
  ['a flood of frames of no call', Buffer.concat(Array(200).fill(encodeFrame(frameTypes.head, 77)))],
]
for (const [what, bytes] of hostile)
  test(`link: ${what} from the worker is ConnectionLost`, () =>
    linked(async (link, peer) => {
      const { answer } = link.call(head, undefined, long)
      peer.socket.write(bytes)
      await assert.rejects(answer, ConnectionLost)
    }))

test('link: a worker that sends more than it may loses the connection', () =>
  linked(async (link, peer) => {
    const { answer } = link.call(head, undefined, long)
    peer.socket.write(answerHead)
    for (let part = 0; part < 5; part++) peer.send(frameTypes.data, 1, Buffer.alloc(initialCredit / 4))
    const closed = new Promise(resolve => peer.socket.once('close', resolve))
    const { read } = await answer
    await closed
    await assert.rejects(async () => {
      while ((await read()).length > 0);
    }, ConnectionLost)
  }))

test('link: a second head loses the connection, and the wait for the body ends', () =>
  linked(async (link, peer) => {
    const { answer } = link.call(head, undefined, long)
    peer.socket.write(answerHead)
    const reading = (await answer).read()
    peer.socket.write(answerHead)
    await assert.rejects(reading, ConnectionLost)
  }))

test('link: a call that the worker resets fails alone', () =>
  linked(async (link, peer) => {
    const [first, second] = [link.call(head, undefined, long), link.call(head, undefined, long)]
    peer.send(frameTypes.reset, 1)
    await assert.rejects(first.answer, CallReset)
    peer.socket.write(whole(2, [200, []], 'ok'))
    assert.equal(await textOf(await second.answer), 'ok')
  }))

test('link: a worker that answers and does not read loses the connection, before much is stored for it', () =>
  linked(async (link, peer) => {
    peer.socket.pause()
    let sent = 0
    for (let id = 1; ; id++) {
      const { answer } = link.call(head, Buffer.alloc(64 * 1024), long)
      peer.socket.write(whole(id, [200, []], ''))
      const isLost = await answer.then(
        () => false,
        () => true,
      )
      if (isLost) break
      sent += 64 * 1024
      assert.ok(sent < 64 * 1024 * 1024, `${sent} bytes are stored`)
    }
  }))

test('link: parts of one byte are joined', () =>
  linked(async (link, peer) => {
    const { answer } = link.call(head, undefined, long)
    const bytes = [answerHead]
    for (let n = 0; n < 50_000; n++) bytes.push(encodeFrame(frameTypes.data, 1, Buffer.of(n % 256)))
    bytes.push(encodeFrame(frameTypes.end, 1))
    peer.socket.write(Buffer.concat(bytes))
    const { read } = await answer
    // Until all has arrived.
    const other = link.call(head, undefined, long)
    peer.socket.write(whole(2, [200, []], ''))
    await other.answer
    const chunks = [...(await read())]
    assert.ok(chunks.length < 10, `${chunks.length} chunks`)
    for (let next = await read(); next.length > 0; next = await read()) chunks.push(...next)
    const all = Buffer.concat(chunks)
    assert.equal(all.length, 50_000)
    assert.ok(all.every((byte, at) => byte === at % 256))
  }))

test('link: the rest of a body is dropped after the answer, so that its sender can go on', () =>
  linked(async (link, peer) => {
    const body = new PassThrough()
    const call = link.call(head, body, long)
    body.write('first')
    await peer.until(frames => frames.some(({ type }) => type === frameTypes.data))
    peer.socket.write(whole(1, [200, []], 'enough'))
    await call.answer
    const ended = new Promise(resolve => body.once('end', resolve))
    for (let n = 0; n < 100; n++) body.write(Buffer.alloc(100_000))
    body.end()
    await ended
  }))
