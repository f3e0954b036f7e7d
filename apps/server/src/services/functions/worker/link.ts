// The connection to a worker, for all its calls at once. What is sent in one turn of the event loop is one write: waking the
// other process for each call would take as much CPU time as the rest of the call.
import { connect, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { creditStep, type FrameType, frameTypes, initialCredit } from '@plinth/runtime/frames.ts'
import { ConnectionLost } from './received-bytes.ts'

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

export interface LinkedCall {
  /** Rejects with ConnectionLost if the worker ends, or gives the call up. */
  readonly answer: Promise<Answer>
  /** The rest of the answer is not wanted. */
  cancel(): void
}

export interface Link {
  call(head: CallHead, body: Buffer | Readable | undefined): LinkedCall
  close(): void
}

const headerBytes = 9
const empty = Buffer.alloc(0)

export function openLink(path: string): Promise<Link> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path })
    const fail = (cause: unknown) => reject(new ConnectionLost(cause))
    socket.once('error', fail)
    socket.once('connect', () => {
      socket.off('error', fail)
      resolve(linkOn(socket))
    })
  })
}

function linkOn(socket: Socket): Link {
  const calls = new Map<number, Call>()
  let nextCall = 1
  let failure: unknown
  let queued: Buffer[] = []
  let rest: Buffer = empty

  function send(frame: Buffer): void {
    queued.push(frame)
    if (queued.length > 1) return
    setImmediate(() => {
      const frames = queued
      queued = []
      socket.write(frames.length === 1 ? frames[0]! : Buffer.concat(frames))
    })
  }

  socket.on('error', error => {
    failure = error
  })
  socket.on('close', () => {
    for (const call of calls.values()) call.fail(new ConnectionLost(failure))
    calls.clear()
  })
  socket.on('data', (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    while (bytes.length - at >= headerBytes) {
      const end = at + 4 + bytes.readUInt32BE(at)
      if (end > bytes.length) break
      const type = bytes[at + 4] as FrameType
      const content = bytes.subarray(at + headerBytes, end)
      calls.get(bytes.readUInt32BE(at + 5))?.receive(type, content)
      at = end
    }
    rest = bytes.subarray(at)
  })

  return {
    call(head, body) {
      const id = nextCall
      nextCall = nextCall === 0xffffffff ? 1 : nextCall + 1
      const call = new Call(
        (type, ...parts) => send(encode(type, id, parts)),
        () => calls.delete(id),
      )
      calls.set(id, call)
      if (socket.destroyed) call.fail(new ConnectionLost(failure))
      else call.start(head, body)
      return { answer: call.answer, cancel: () => call.cancel() }
    },
    close: () => void socket.destroy(),
  }
}

type Send = (type: FrameType, ...parts: readonly Buffer[]) => void

class Call {
  readonly #send: Send
  readonly #onEnd: () => void
  readonly #answer = Promise.withResolvers<Answer>()
  /** Bytes of the request's body that may be sent. */
  #credit = initialCredit
  #onCredit: () => void = () => {}
  #received: Buffer[] = []
  #taken = 0
  #isOver = false
  #failure: unknown
  #wake: () => void = () => {}

  constructor(send: Send, onEnd: () => void) {
    this.#send = send
    this.#onEnd = onEnd
    this.#answer.promise.catch(() => {})
  }

  get answer(): Promise<Answer> {
    return this.#answer.promise
  }

  start({ method, target, headers }: CallHead, body: Buffer | Readable | undefined): void {
    const head = Buffer.from(JSON.stringify([method, target, headers]))
    if (body === undefined || Buffer.isBuffer(body)) {
      const length = Buffer.allocUnsafe(4)
      length.writeUInt32BE(head.length)
      this.#send(frameTypes.whole, length, head, ...(body === undefined ? [] : [body]))
      return
    }
    this.#send(frameTypes.head, head)
    this.#sendBody(body).catch(() => this.#send(frameTypes.reset))
  }

  async #sendBody(body: Readable): Promise<void> {
    for await (const chunk of body as AsyncIterable<Buffer>) {
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
    this.#send(frameTypes.end)
  }

  receive(type: FrameType, content: Buffer): void {
    if (type === frameTypes.whole) {
      const headEnd = 4 + content.readUInt32BE(0)
      this.#end()
      this.#answer.resolve({
        ...headFrom(content.subarray(4, headEnd)),
        whole: content.subarray(headEnd),
        read: async () => [],
      })
    } else if (type === frameTypes.head)
      this.#answer.resolve({ ...headFrom(content), whole: undefined, read: () => this.#read() })
    else if (type === frameTypes.data) {
      this.#received.push(content)
      this.#wake()
    } else if (type === frameTypes.end) {
      this.#end()
      this.#wake()
    } else if (type === frameTypes.reset) this.fail(new ConnectionLost())
    else {
      this.#credit += content.readUInt32BE(0)
      this.#onCredit()
    }
  }

  async #read(): Promise<readonly Buffer[]> {
    while (this.#received.length === 0) {
      if (this.#failure) throw this.#failure
      if (this.#isOver) return []
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
    const chunks = this.#received
    this.#received = []
    for (const { length } of chunks) this.#taken += length
    if (this.#taken >= creditStep && !this.#isOver) {
      const credit = Buffer.allocUnsafe(4)
      credit.writeUInt32BE(this.#taken)
      this.#taken = 0
      this.#send(frameTypes.credit, credit)
    }
    return chunks
  }

  cancel(): void {
    if (this.#isOver) return
    this.#send(frameTypes.reset)
    this.fail(new ConnectionLost())
  }

  fail(error: unknown): void {
    this.#failure = error
    this.#end()
    this.#answer.reject(error)
    this.#wake()
  }

  #end(): void {
    this.#isOver = true
    this.#onCredit()
    this.#onEnd()
  }
}

function encode(type: FrameType, call: number, parts: readonly Buffer[]): Buffer {
  let length = headerBytes
  for (const part of parts) length += part.length
  const frame = Buffer.allocUnsafe(length)
  frame.writeUInt32BE(length - 4, 0)
  frame[4] = type
  frame.writeUInt32BE(call, 5)
  let at = headerBytes
  for (const part of parts) at += part.copy(frame, at)
  return frame
}

function headFrom(bytes: Buffer): AnswerHead {
  const [status, headers] = JSON.parse(bytes.toString()) as [number, string[]]
  return { status, headers }
}
