// A connection to a worker: a small HTTP/1.1 client, with one request at a time. Node's client takes as much CPU time as
// all other work for a call together. The other end is Deno's server, so the framing of an answer is well-formed; the
// headers and the body are the project's own.
import { connect, type Socket } from 'node:net'
import type { Readable } from 'node:stream'

export interface CallHead {
  method: string
  /** Path and query. */
  target: string
  /** Names and values, alternating. */
  headers: readonly string[]
}

export interface AnswerHead {
  status: number
  /** Names in lower case and values, alternating. */
  headers: readonly string[]
}

export interface Answer extends AnswerHead {
  /** The body, if it was received together with the head. */
  readonly whole: Buffer | undefined
  /** The body, piece by piece. An empty result is the end. Each call waits for more bytes. */
  read(): Promise<readonly Buffer[]>
}

export interface Connection {
  /** Whether it can be used for another call. Not if the answer has ended before the body of the request. */
  readonly isIdle: boolean
  readonly isClosed: boolean
  /** Rejects with ConnectionLost if the worker ends or the connection is closed. */
  call(head: CallHead, body: Buffer | Readable | undefined): Promise<Answer>
  /** Passes the socket on after the answer 101, with the bytes received since. */
  upgrade(head: CallHead): Promise<{ answer: AnswerHead; socket: Socket; rest: Buffer } | Answer>
  close(): void
}

export class ConnectionLost extends Error {
  constructor(cause?: unknown) {
    super('the worker closed the connection', { cause })
    this.name = 'ConnectionLost'
  }
}

const maxHeadBytes = 256 * 1024
/** Beyond this, reading from the worker stops until the client has taken some. */
const maxBuffered = 512 * 1024
const headEnd = Buffer.from('\r\n\r\n')
const empty = Buffer.alloc(0)

type Framing = { kind: 'none' } | { kind: 'length'; left: number } | { kind: 'chunked' } | { kind: 'close' }

export function openConnection(path: string): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path })
    socket.once('error', cause => reject(new ConnectionLost(cause)))
    socket.once('connect', () => resolve(connectionOn(socket)))
  })
}

function connectionOn(socket: Socket): Connection {
  let received: Buffer = empty
  let isAnswered = true
  let isSent = true
  let isClosed = false
  let wake: () => void = () => {}
  let failure: unknown

  socket.removeAllListeners('error')
  socket.on('error', error => {
    failure = error
  })
  socket.on('close', () => {
    isClosed = true
    wake()
  })
  const onData = (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    if (received.length > maxBuffered) socket.pause()
    wake()
  }
  socket.on('data', onData)

  /** Waits for bytes beyond those that were received already. */
  async function more(): Promise<void> {
    const before = received.length
    if (socket.isPaused()) socket.resume()
    while (received.length === before) {
      if (isClosed) throw new ConnectionLost(failure)
      await new Promise<void>(resolve => {
        wake = resolve
      })
    }
  }

  async function readHead(): Promise<AnswerHead> {
    for (;;) {
      const end = received.indexOf(headEnd)
      if (end < 0) {
        if (received.length > maxHeadBytes) throw lost(new Error('the head of the answer is too long'))
        await more()
        continue
      }
      const head = parseHead(received.toString('latin1', 0, end))
      received = received.subarray(end + headEnd.length)
      if (head.status === 100 || head.status === 103) continue
      return head
    }
  }

  function lost(cause: Error): ConnectionLost {
    socket.destroy()
    return new ConnectionLost(cause)
  }

  function finish(): void {
    isAnswered = true
  }

  function takeUpTo(count: number): Buffer {
    const taken = received.length <= count ? received : received.subarray(0, count)
    received = received.length <= count ? empty : received.subarray(count)
    return taken
  }

  async function readChunkSize(): Promise<number> {
    for (;;) {
      const end = received.indexOf('\r\n')
      if (end >= 0) {
        const size = Number.parseInt(received.toString('latin1', 0, end), 16)
        if (!(size >= 0)) throw lost(new Error('a chunk has no size'))
        received = received.subarray(end + 2)
        return size
      }
      if (received.length > maxHeadBytes) throw lost(new Error('the size of a chunk is too long'))
      await more()
    }
  }

  function bodyReader(framing: Framing): () => Promise<readonly Buffer[]> {
    let chunkLeft = 0
    let isDone = framing.kind === 'none' || (framing.kind === 'length' && framing.left === 0)
    const end = (): readonly Buffer[] => {
      isDone = true
      finish()
      return []
    }
    if (isDone) finish()
    return async () => {
      if (isDone) return []
      if (framing.kind === 'length') {
        if (received.length === 0) await more()
        const taken = takeUpTo(framing.left)
        framing.left -= taken.length
        if (framing.left === 0) {
          isDone = true
          finish()
        }
        return [taken]
      }
      if (framing.kind === 'close') {
        if (received.length === 0)
          try {
            await more()
          } catch {
            return end()
          }
        return [takeUpTo(received.length)]
      }
      if (chunkLeft === 0) {
        chunkLeft = await readChunkSize()
        if (chunkLeft === 0) {
          // Deno sends no trailers.
          while (received.length < 2) await more()
          received = received.subarray(2)
          return end()
        }
      }
      if (received.length === 0) await more()
      const taken = takeUpTo(chunkLeft)
      chunkLeft -= taken.length
      if (chunkLeft === 0) {
        while (received.length < 2) await more()
        received = received.subarray(2)
      }
      return [taken]
    }
  }

  function send({ method, target, headers }: CallHead, body: Buffer | Readable | undefined): void {
    isAnswered = false
    let head = `${method} ${target} HTTP/1.1\r\n`
    for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`
    if (body === undefined) return void socket.write(`${head}\r\n`, 'latin1')
    if (Buffer.isBuffer(body)) {
      socket.cork()
      socket.write(`${head}content-length: ${body.length}\r\n\r\n`, 'latin1')
      socket.write(body)
      socket.uncork()
      return
    }
    socket.write(`${head}transfer-encoding: chunked\r\n\r\n`, 'latin1')
    isSent = false
    void sendChunks(body)
  }

  async function sendChunks(body: Readable): Promise<void> {
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        if (socket.destroyed) return
        if (chunk.length === 0) continue
        socket.cork()
        socket.write(`${chunk.length.toString(16)}\r\n`)
        socket.write(chunk)
        const isRoom = socket.write('\r\n')
        socket.uncork()
        if (!isRoom) await drained(socket)
      }
      socket.write('0\r\n\r\n')
      isSent = true
    } catch {
      // The client has disconnected. The function learns it from the end of the connection.
      socket.destroy()
    }
  }

  return {
    get isIdle() {
      return isAnswered && isSent
    },
    get isClosed() {
      return isClosed || socket.destroyed
    },
    async call(head, body) {
      send(head, body)
      const answer = await readHead()
      const framing = framingOf(answer, head.method)
      if (framing.kind === 'none' || (framing.kind === 'length' && received.length >= framing.left)) {
        const whole = framing.kind === 'none' ? empty : takeUpTo(framing.left)
        finish()
        return { ...answer, whole, read: async () => [] }
      }
      return { ...answer, whole: undefined, read: bodyReader(framing) }
    },
    async upgrade(head) {
      send(head, undefined)
      const answer = await readHead()
      if (answer.status !== 101) {
        const framing = framingOf(answer, head.method)
        return { ...answer, whole: undefined, read: bodyReader(framing) }
      }
      socket.removeAllListeners()
      return { answer, socket, rest: received }
    },
    close: () => void socket.destroy(),
  }
}

function parseHead(text: string): AnswerHead {
  const [statusLine = '', ...lines] = text.split('\r\n')
  const headers: string[] = []
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers.push(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim())
  }
  return { status: Number(statusLine.slice(9, 12)), headers }
}

function framingOf({ status, headers }: AnswerHead, method: string): Framing {
  if (method === 'HEAD' || status === 204 || status === 304) return { kind: 'none' }
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] === 'content-length') return { kind: 'length', left: Number(headers[at + 1]) }
    if (headers[at] === 'transfer-encoding') return { kind: 'chunked' }
  }
  return { kind: 'close' }
}

const drained = (socket: Socket) =>
  new Promise<void>(resolve => {
    const done = () => {
      socket.off('drain', done)
      socket.off('close', done)
      resolve()
    }
    socket.on('drain', done)
    socket.on('close', done)
  })
