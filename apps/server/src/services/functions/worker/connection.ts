// A connection to a worker: a small HTTP/1.1 client, with one request at a time. Node's client takes as much CPU time as
// all other work for a call together. The other end is Deno's server, so the framing of an answer is well-formed; the
// headers and the body are the project's own.
import { connect, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { AnswerHead, CallHead } from './link.ts'
import { ConnectionLost, ReceivedBytes } from './received-bytes.ts'

/** The next bytes of a body. An empty result is the end. */
export type ReadBody = () => Promise<readonly Buffer[]>

export interface Answer extends AnswerHead {
  /** The body, if it was received together with the head. */
  readonly whole: Buffer | undefined
  read: ReadBody
}

export interface Upgraded {
  answer: AnswerHead
  socket: Socket
  /** Bytes that were received after the head. */
  rest: Buffer
}

export interface Connection {
  /** Whether it can be used for another call. Not if the answer has ended before the body of the request. */
  readonly isIdle: boolean
  readonly isClosed: boolean
  /** Rejects with ConnectionLost if the worker ends or the connection is closed. */
  call(head: CallHead, body: Buffer | Readable | undefined): Promise<Answer>
  /** After the answer 101, the socket belongs to the caller. */
  upgrade(head: CallHead): Promise<Upgraded | Answer>
  close(): void
}

const empty = Buffer.alloc(0)

export function openConnection(path: string): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path })
    const fail = (cause: unknown) => reject(new ConnectionLost(cause))
    socket.once('error', fail)
    socket.once('connect', () => {
      socket.off('error', fail)
      resolve(connectionOn(socket))
    })
  })
}

function connectionOn(socket: Socket): Connection {
  const received = new ReceivedBytes(socket)
  let isAnswered = true
  let isSent = true

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
    sendChunks(socket, body).then(
      () => {
        isSent = true
      },
      // The client has disconnected. The function learns it from the end of the connection.
      () => void socket.destroy(),
    )
  }

  async function readHead(): Promise<AnswerHead> {
    for (;;) {
      const head = parseHead(await received.takeTextUntil('\r\n\r\n'))
      if (head.status >= 200 || head.status === 101) return head
    }
  }

  function answerWith(head: AnswerHead, method: string): Answer {
    const end = () => {
      isAnswered = true
    }
    const framing = framingOf(head, method)
    if (framing.kind === 'length' && received.length >= framing.bytes) {
      const whole = framing.bytes === 0 ? empty : received.take(framing.bytes)
      end()
      return { ...head, whole, read: async () => [] }
    }
    const read = {
      length: () => lengthBody(received, (framing as { bytes: number }).bytes, end),
      chunked: () => chunkedBody(received, end),
      close: () => closingBody(received),
    }[framing.kind]()
    return { ...head, whole: undefined, read }
  }

  return {
    get isIdle() {
      return isAnswered && isSent
    },
    get isClosed() {
      return socket.destroyed
    },
    async call(head, body) {
      send(head, body)
      return answerWith(await readHead(), head.method)
    },
    async upgrade(head) {
      send(head, undefined)
      const answer = await readHead()
      if (answer.status !== 101) return answerWith(answer, head.method)
      socket.removeAllListeners()
      return { answer, socket, rest: received.take(received.length) }
    },
    close: () => void socket.destroy(),
  }
}

async function sendChunks(socket: Socket, body: Readable): Promise<void> {
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
}

const lengthBody = (received: ReceivedBytes, bytes: number, end: () => void): ReadBody => {
  let left = bytes
  return async () => {
    if (left === 0) return []
    if (received.length === 0) await received.more()
    const taken = received.take(left)
    left -= taken.length
    if (left === 0) end()
    return [taken]
  }
}

const chunkedBody = (received: ReceivedBytes, end: () => void): ReadBody => {
  let left = 0
  let isOver = false
  return async () => {
    if (isOver) return []
    if (left === 0) left = Number.parseInt(await received.takeTextUntil('\r\n'), 16)
    if (left > 0 && received.length === 0) await received.more()
    const taken = received.take(left)
    left -= taken.length
    // The end of a chunk, or of the body: Deno sends no trailers.
    if (left === 0) await received.takeTextUntil('\r\n')
    if (taken.length > 0) return [taken]
    isOver = true
    end()
    return []
  }
}

/** Ends with the connection. */
const closingBody =
  (received: ReceivedBytes): ReadBody =>
  async () => {
    if (received.length === 0) await received.more().catch(() => {})
    return received.length === 0 ? [] : [received.take(received.length)]
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

type Framing = { kind: 'length'; bytes: number } | { kind: 'chunked' } | { kind: 'close' }

function framingOf({ status, headers }: AnswerHead, method: string): Framing {
  if (method === 'HEAD' || status === 204 || status === 304) return { kind: 'length', bytes: 0 }
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] === 'content-length') return { kind: 'length', bytes: Number(headers[at + 1]) }
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
