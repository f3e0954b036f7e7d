// One call on the connection to a worker: its request, and the answer as it arrives.
import type { Readable } from 'node:stream'
import { creditStep, type FrameType, frameHeaderBytes, frameTypes, initialCredit } from '../frames.ts'

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

/** The worker has ended, or has given the call up. */
export class ConnectionLost extends Error {
  constructor(cause?: unknown) {
    super('the worker closed the connection', { cause })
    this.name = 'ConnectionLost'
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
  onEnd(): void
}

const noBytes = Buffer.alloc(0)

export class LinkedCall {
  readonly #options: CallOptions
  readonly #answer = Promise.withResolvers<Answer>()
  #timer: NodeJS.Timeout | undefined
  /** Bytes of the request's body that may be sent. */
  #credit = initialCredit
  #onCredit: () => void = () => {}
  #received: Buffer[] = []
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

  /** Rejects with ConnectionLost or AnswerTimeout, as reading its body does. */
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

  receive(type: FrameType, content: Buffer): void {
    if (this.#isOver) return
    if (type === frameTypes.whole) {
      const headEnd = 4 + content.readUInt32BE(0)
      const head = headFrom(content.subarray(4, headEnd))
      this.#end()
      this.#answer.resolve({ ...head, whole: content.subarray(headEnd), read: async () => [] })
    } else if (type === frameTypes.head) {
      clearTimeout(this.#timer)
      this.#answer.resolve({ ...headFrom(content), whole: undefined, read: () => this.#nextBytes() })
    } else if (type === frameTypes.data) this.#receiveData(content)
    else if (type === frameTypes.end) {
      this.#end()
      this.#answer.reject(new ConnectionLost())
      this.#wake()
    } else if (type === frameTypes.reset) this.fail(new ConnectionLost())
    else if (type === frameTypes.credit) {
      this.#credit = Math.min(initialCredit, this.#credit + content.readUInt32BE(0))
      this.#onCredit()
    }
  }

  fail(error: unknown): void {
    if (this.#isOver) return
    this.#failure = error
    this.#end()
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

  #end(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#onCredit()
    this.#options.onEnd()
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
    for await (const chunk of chunks) {
      for (let at = 0; at < chunk.length && !this.#isOver; ) {
        while (this.#credit <= 0 && !this.#isOver)
          await new Promise<void>(resolve => {
            this.#onCredit = resolve
          })
        const part = chunk.subarray(at, at + this.#credit)
        this.#credit -= part.length
        at += part.length
        this.#send(frameTypes.data, part)
      }
      if (this.#isOver) return
    }
    if (!this.#isOver) this.#send(frameTypes.end, noBytes)
  }

  #receiveData(content: Buffer): void {
    this.#uncredited += content.length
    if (this.#uncredited > initialCredit) throw new Error('the worker sends more than it may')
    this.#received.push(content)
    this.#wake()
  }

  async #nextBytes(): Promise<readonly Buffer[]> {
    if (this.#received.length === 0 && !this.#isOver) {
      this.#startTimer()
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
      clearTimeout(this.#timer)
    }
    const chunks = this.#received
    if (chunks.length === 0 && this.#failure) throw this.#failure
    this.#received = []
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
  const isValid =
    Number.isInteger(status) &&
    (status as number) >= 200 &&
    (status as number) <= 599 &&
    Array.isArray(headers) &&
    headers.length % 2 === 0 &&
    headers.every(each => typeof each === 'string')
  if (!isValid) throw new Error('the head of an answer is malformed')
  return { status: status as number, headers: headers as string[] }
}
