// Serves calls that arrive as frames on one connection, and sends their answers. Frames that are ready together are one
// write.
import { type Connection, deno } from './deno.ts'
import {
  creditStep,
  encodeFrame,
  FrameReader,
  type FrameType,
  frameTypes,
  initialCredit,
  isHeaderValue,
  maxAnswerHeadBytes,
  maxAnswerHeaders,
  maxWholeBytes,
} from './frames.ts'

export interface LinkedRequest {
  readonly method: string
  readonly target: string
  /** Names and values, alternating. */
  readonly headers: readonly string[]
  readonly body: Uint8Array | ReadableStream<Uint8Array> | null
  /** Aborts when the client has disconnected. */
  readonly signal: AbortSignal
}

export interface Calls {
  answer(request: LinkedRequest): Promise<Response>
  /** What is sent instead of an answer whose headers HTTP does not allow, or the platform. */
  headRefused(why: string): Response
  /** The body of an answer has failed while it was sent. */
  bodyFailed(error: unknown): void
}

/** So many frames are handled together. The answers of short calls are then sent before the next ones are handled. */
const framesOfTurn = 4
/** Turns of promises that a short call needs from its frame to its answer. */
const turnsOfCalls = 30
/** Turns in which other answers may still become ready to be written together. */
const turnsOfWrite = 8

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const empty = new Uint8Array(0)

export async function serveLink(path: string, calls: Calls): Promise<void> {
  for await (const connection of deno.listen({ transport: 'unix', path }))
    serveConnection(connection, calls).catch(() => {})
}

interface Stream {
  readonly abort: AbortController
  /** Of the request's body, until that has ended. */
  body: ReadableStreamDefaultController<Uint8Array> | undefined
  /** Bytes of it that the platform has no credit for again. */
  received: number
  /** Bytes of the answer that may be sent. */
  credit: number
  onCredit: () => void
}

async function serveConnection(connection: Connection, calls: Calls): Promise<void> {
  const streams = new Map<number, Stream>()
  const reader = new FrameReader()
  const writer = new BatchedWriter(connection)

  function begin(call: number, head: Uint8Array, body: Uint8Array | null, hasMore: boolean): void {
    const [method, target, headers] = JSON.parse(decoder.decode(head)) as [string, string, string[]]
    const stream: Stream = {
      abort: new AbortController(),
      body: undefined,
      received: 0,
      credit: initialCredit,
      onCredit() {},
    }
    streams.set(call, stream)
    const request: LinkedRequest = {
      method,
      target,
      headers,
      body: hasMore ? bodyStream(call, stream) : body,
      signal: stream.abort.signal,
    }
    void run(call, stream, request)
  }

  /** Gives credit back when the function wants to read more than it has received. */
  function bodyStream(call: number, stream: Stream): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        start(controller) {
          stream.body = controller
        },
        pull() {
          if (stream.received === 0) return
          writer.send(encodeFrame(frameTypes.credit, call, number(stream.received)))
          stream.received = 0
        },
        cancel() {
          stream.body = undefined
        },
      },
      { highWaterMark: 0 },
    )
  }

  async function run(call: number, stream: Stream, request: LinkedRequest): Promise<void> {
    try {
      await sendAnswer(call, stream, await calls.answer(request))
    } catch (error) {
      writer.send(encodeFrame(frameTypes.reset, call))
      if (!request.signal.aborted) calls.bodyFailed(error)
    } finally {
      streams.delete(call)
      stream.body?.error(new Error('the answer has ended before the request'))
    }
  }

  async function sendAnswer(call: number, stream: Stream, response: Response): Promise<void> {
    const headers: string[] = []
    response.headers.forEach((value, name) => void headers.push(name, value))
    const head = encoder.encode(JSON.stringify([response.status, headers]))
    const problem = problemOf(headers, head)
    if (problem !== undefined) return sendAnswer(call, stream, calls.headRefused(problem))
    const body = response.body
    if (body === null) return sendWhole(call, head, empty)
    const chunks = bytesOf(body)
    if (stream.abort.signal.aborted) return chunks.cancel()
    const first = chunks.read()
    const soon = await settledSoon(first)
    if (soon?.done) return sendWhole(call, head, empty)
    const isShort = soon !== undefined && soon.value.length <= maxWholeBytes
    const second = isShort ? chunks.read() : undefined
    if (second && (await settledSoon(second))?.done) return sendWhole(call, head, soon!.value)
    writer.send(encodeFrame(frameTypes.head, call, head))
    stream.abort.signal.addEventListener('abort', () => void chunks.cancel())
    let next = await first
    if (!next.done) await sendData(call, stream, next.value)
    for (next = await (second ?? chunks.read()); !next.done; next = await chunks.read())
      await sendData(call, stream, next.value)
    writer.send(encodeFrame(frameTypes.end, call))
  }

  function sendWhole(call: number, head: Uint8Array, body: Uint8Array): void {
    writer.send(encodeFrame(frameTypes.whole, call, number(head.length), head, body))
  }

  async function sendData(call: number, stream: Stream, chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length; ) {
      while (stream.credit <= 0)
        await new Promise<void>(resolve => {
          stream.onCredit = resolve
        })
      if (stream.abort.signal.aborted) throw new Error('the client has disconnected')
      const part = chunk.subarray(at, at + Math.min(stream.credit, creditStep))
      stream.credit -= part.length
      at += part.length
      writer.send(encodeFrame(frameTypes.data, call, part))
    }
  }

  function receive(type: FrameType, call: number, content: Uint8Array): void {
    if (type === frameTypes.whole) {
      const headEnd = 4 + numberFrom(content)
      const body = content.length === headEnd ? null : content.slice(headEnd)
      return begin(call, content.subarray(4, headEnd), body, false)
    }
    if (type === frameTypes.head) return begin(call, content, null, true)
    const stream = streams.get(call)
    if (!stream) return
    if (type === frameTypes.data) {
      stream.received += content.length
      stream.body?.enqueue(content.slice())
    } else if (type === frameTypes.end) {
      stream.body?.close()
      stream.body = undefined
    } else if (type === frameTypes.credit) {
      stream.credit += numberFrom(content)
      stream.onCredit()
    } else {
      stream.body?.error(new Error('the client has disconnected'))
      stream.body = undefined
      stream.credit = Number.POSITIVE_INFINITY
      stream.abort.abort()
      stream.onCredit()
    }
  }

  let received = 0
  for (
    let count = await connection.read(reader.room);
    count !== null;
    count = await connection.read(reader.room)
  )
    for (const { type, call, content } of reader.received(count)) {
      receive(type, call, content)
      received = (received + 1) % framesOfTurn
      if (received === 0) await afterTurns(turnsOfCalls)
    }
}

function problemOf(headers: readonly string[], head: Uint8Array): string | undefined {
  if (head.length > maxAnswerHeadBytes) return 'The headers of the answer are too long'
  if (headers.length > 2 * maxAnswerHeaders) return `The answer has more than ${maxAnswerHeaders} headers`
  const at = headers.findIndex((value, at) => at % 2 === 1 && !isHeaderValue(value))
  if (at > 0) return `The header ${headers[at - 1]} of the answer has a character that is not allowed`
}

interface Chunks {
  read(): Promise<{ done: false; value: Uint8Array } | { done: true; value?: undefined }>
  cancel(): Promise<void>
}

/** Checks what the function has put into the stream. */
function bytesOf(body: ReadableStream<Uint8Array>): Chunks {
  const reader = body.getReader()
  const cancel = () => reader.cancel().catch(() => {})
  return {
    async read() {
      const { done, value } = await reader.read()
      if (done) return { done }
      if (value instanceof Uint8Array) return { done, value }
      void cancel()
      throw new TypeError('A stream of an answer must have chunks of the type Uint8Array')
    },
    cancel,
  }
}

/** The result, if it is there without waiting for anything but other promises. */
const settledSoon = <T>(promise: Promise<T>): Promise<T | undefined> =>
  Promise.race([promise, afterTurns(turnsOfWrite)])

/** Resolves when other promises have had so many turns. */
async function afterTurns(turns: number): Promise<undefined> {
  for (let turn = 0; turn < turns; turn++) await undefined
}

class BatchedWriter {
  readonly #connection: Connection
  #frames: Uint8Array[] = []
  #isWriting = false

  constructor(connection: Connection) {
    this.#connection = connection
  }

  send(frame: Uint8Array): void {
    this.#frames.push(frame)
    if (this.#isWriting) return
    this.#isWriting = true
    // Other calls that end in the same turn are written together.
    afterTurns(turnsOfWrite)
      .then(() => this.#write())
      // The platform has ended, and so will the worker.
      .catch(() => {})
  }

  async #write(): Promise<void> {
    try {
      while (this.#frames.length > 0) {
        let bytes = joined(this.#frames)
        this.#frames = []
        while (bytes.length > 0) bytes = bytes.subarray(await this.#connection.write(bytes))
      }
    } finally {
      this.#isWriting = false
    }
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!
  let length = 0
  for (const part of parts) length += part.length
  const bytes = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

function number(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value)
  return bytes
}

const numberFrom = (bytes: Uint8Array): number =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(0)
