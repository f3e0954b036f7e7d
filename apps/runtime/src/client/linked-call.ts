// One call on the connection to a worker: its request, and the answer as it arrives.
import type { Readable } from 'node:stream'
import {
  creditStep,
  type FrameType,
  frameHeaderBytes,
  frameTypes,
  initialCredit,
  isHeaderValue,
  maxAnswerHeaders,
} from '../frames.ts'
import { ReceivedBytes } from './received-bytes.ts'

export interface CallHead {
  method: string
  /** Path and query. */
  target: string
  /** Names and values, alternating. */
  headers: readonly string[]
}

export interface AnswerHead {
  status: number
  headers: readonly string[]
}

export interface Answer extends AnswerHead {
  /** The body, if it was received together with the head. */
  readonly whole: Buffer | undefined
  /** The next bytes of the body. An empty result is the end. */
  read(): Promise<readonly Buffer[]>
}

/** The worker has ended, or the call was cancelled. */
export class ConnectionLost extends Error {
  constructor(cause?: unknown) {
    super('the worker closed the connection', { cause })
    this.name = 'ConnectionLost'
  }
}

/** The worker has given the call up, and goes on. */
export class CallReset extends Error {
  constructor() {
    super('the worker gave the call up')
    this.name = 'CallReset'
  }
}

/** The worker has sent nothing in the given time. */
export class AnswerTimeout extends Error {
  constructor() {
    super('the worker sent nothing in time')
    this.name = 'AnswerTimeout'
  }
}

interface CallOptions {
  id: number
  timeoutMs: number
  send(frame: Buffer): void
  /** Undefined if more can be sent at once. */
  drained(): Promise<void> | undefined
  onEnd(isCancelled: boolean): void
}

/** As Deno returns them. */
const nameForm = /^[!#$%&'*+.^_`|~0-9a-z-]+$/

const noBytes = Buffer.alloc(0)

export class LinkedCall {
  readonly #options: CallOptions
  readonly #answer = Promise.withResolvers<Answer>()
  #timer: NodeJS.Timeout | undefined
  /** Bytes of the request's body that may be sent. */
  #credit = initialCredit
  #onCredit: () => void = () => {}
  #hasHead = false
  readonly #received = new ReceivedBytes()
  /** Bytes that the worker has sent without having credit for them again. */
  #uncredited = 0
  /** Those of them that were read. */
  #read = 0
  #isOver = false
  #failure: unknown
  #wake: () => void = () => {}

  constructor(options: CallOptions) {
    this.#options = options
    this.#answer.promise.catch(() => {})
  }

  /** Rejects with ConnectionLost, CallReset or AnswerTimeout, as reading its body does. */
  get answer(): Promise<Answer> {
    return this.#answer.promise
  }

  start({ method, target, headers }: CallHead, body: Buffer | Readable | undefined): void {
    this.#startTimer()
    const head = JSON.stringify([method, target, headers])
    if (body === undefined || Buffer.isBuffer(body)) return this.#sendWhole(head, body ?? noBytes)
    this.#send(frameTypes.head, Buffer.from(head))
    this.#sendBody(body).catch(() => this.#send(frameTypes.reset, noBytes))
  }

  /** The answer, or its rest, is not wanted. */
  cancel(): void {
    this.#giveUp(new ConnectionLost())
  }

  /** Throws if the worker breaks a rule. */
  receive(type: FrameType, content: Buffer): void {
    if (type === frameTypes.whole) {
      this.#beginAnswer()
      const headEnd = 4 + content.readUInt32BE(0)
      const head = headFrom(content.subarray(4, headEnd))
      this.#end(false)
      this.#answer.resolve({ ...head, whole: content.subarray(headEnd), read: async () => [] })
    } else if (type === frameTypes.head) {
      this.#beginAnswer()
      this.#answer.resolve({ ...headFrom(content), whole: undefined, read: () => this.#nextBytes() })
    } else if (type === frameTypes.data) this.#receiveData(content)
    else if (type === frameTypes.end) {
      if (!this.#hasHead) throw new Error('an answer has ended that has not begun')
      this.#end(false)
      this.#wake()
    } else if (type === frameTypes.reset) this.#fail(new CallReset(), false)
    else if (type === frameTypes.credit) this.#receiveCredit(content.readUInt32BE(0))
    else throw new Error('a frame of an unknown type')
  }

  fail(error: unknown): void {
    this.#fail(error, true)
  }

  #beginAnswer(): void {
    if (this.#hasHead) throw new Error('an answer has begun twice')
    this.#hasHead = true
    clearTimeout(this.#timer)
  }

  #receiveCredit(bytes: number): void {
    this.#credit += bytes
    if (bytes === 0 || this.#credit > initialCredit) throw new Error('a credit is too large or empty')
    this.#onCredit()
  }

  #fail(error: unknown, isCancelled: boolean): void {
    if (this.#isOver) return
    this.#failure = error
    this.#end(isCancelled)
    this.#answer.reject(error)
    this.#wake()
  }

  #giveUp(error: unknown): void {
    if (this.#isOver) return
    this.#send(frameTypes.reset, noBytes)
    this.fail(error)
  }

  #startTimer(): void {
    this.#timer = setTimeout(() => this.#giveUp(new AnswerTimeout()), this.#options.timeoutMs)
  }

  #end(isCancelled: boolean): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#onCredit()
    this.#options.onEnd(isCancelled)
  }

  #send(type: FrameType, content: Buffer): void {
    const frame = Buffer.allocUnsafe(frameHeaderBytes + content.length)
    this.#writeHeader(frame, type)
    content.copy(frame, frameHeaderBytes)
    this.#options.send(frame)
  }

  #sendWhole(head: string, body: Buffer): void {
    const headBytes = Buffer.byteLength(head)
    const frame = Buffer.allocUnsafe(frameHeaderBytes + 4 + headBytes + body.length)
    this.#writeHeader(frame, frameTypes.whole)
    frame.writeUInt32BE(headBytes, frameHeaderBytes)
    frame.write(head, frameHeaderBytes + 4)
    body.copy(frame, frameHeaderBytes + 4 + headBytes)
    this.#options.send(frame)
  }

  #writeHeader(frame: Buffer, type: FrameType): void {
    frame.writeUInt32BE(frame.length - 4, 0)
    frame[4] = type
    frame.writeUInt32BE(this.#options.id, 5)
  }

  async #sendBody(body: Readable): Promise<void> {
    // The client can still receive the answer if the rest of its request is not wanted.
    const chunks = body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>
    try {
      for await (const chunk of chunks) {
        await this.#sendParts(chunk)
        if (this.#isOver) return
      }
      this.#send(frameTypes.end, noBytes)
    } finally {
      // The rest is read and dropped, once the iterator has let go of it. Otherwise the next request on the connection of
      // the client would wait for ever.
      if (this.#isOver) setImmediate(() => body.resume())
    }
  }

  async #sendParts(chunk: Buffer): Promise<void> {
    for (let at = 0; at < chunk.length; ) {
      while (this.#credit <= 0 && !this.#isOver)
        await new Promise<void>(resolve => {
          this.#onCredit = resolve
        })
      await this.#options.drained()
      if (this.#isOver) return
      const part = chunk.subarray(at, at + this.#credit)
      this.#credit -= part.length
      at += part.length
      this.#send(frameTypes.data, part)
    }
  }

  #receiveData(content: Buffer): void {
    this.#uncredited += content.length
    if (content.length === 0 || this.#uncredited > initialCredit)
      throw new Error('the worker sends more than it may, or nothing')
    this.#received.add(content)
    this.#wake()
  }

  async #nextBytes(): Promise<readonly Buffer[]> {
    if (this.#received.isEmpty && !this.#isOver) {
      this.#startTimer()
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
      clearTimeout(this.#timer)
    }
    const chunks = this.#received.take()
    if (chunks.length === 0 && this.#failure) throw this.#failure
    for (const { length } of chunks) this.#read += length
    if (this.#read >= creditStep && !this.#isOver) this.#giveCredit()
    return chunks
  }

  #giveCredit(): void {
    const credit = Buffer.allocUnsafe(4)
    credit.writeUInt32BE(this.#read)
    this.#uncredited -= this.#read
    this.#read = 0
    this.#send(frameTypes.credit, credit)
  }
}

function headFrom(bytes: Buffer): AnswerHead {
  const [status, headers] = JSON.parse(bytes.toString()) as [unknown, unknown]
  if (!isStatus(status) || !areHeaders(headers)) throw new Error('the head of an answer is malformed')
  return { status, headers }
}

const isStatus = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 200 && (value as number) <= 599

function areHeaders(value: unknown): value is string[] {
  if (!Array.isArray(value) || value.length % 2 !== 0 || value.length > 2 * maxAnswerHeaders) return false
  return value.every((each, at) =>
    typeof each !== 'string' ? false : at % 2 === 0 ? nameForm.test(each) : isHeaderValue(each),
  )
}
