// The body of a request, read whole and never past its limit. What arrives goes past the machinery of streams, which
// would cost more than all that is done with a small body afterwards.
import { type IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Refusal } from '#src/kernel/errors.ts'
import type { RawRequest } from './request.ts'
import { requestBegins } from './request-pieces.ts'

type OnBody = (error: Error | null, bytes: Buffer) => void

interface Taking {
  /** False when the next should wait until they are asked for. */
  take(chunk: Buffer): boolean
  end(): void
  /** Of no consequence after the end. */
  abort(): void
}

/** A request whose body somebody may take before it arrives; otherwise it is the stream it always is. */
export class TakeableRequest extends IncomingMessage {
  taking: Taking | undefined = undefined

  constructor(socket: Socket) {
    super(socket)
    requestBegins(socket, this)
  }

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const { taking } = this
    if (taking === undefined) return super.push(chunk, encoding)
    if (chunk !== null) return taking.take(chunk)
    const isMoreWanted = super.push(null)
    taking.end()
    return isMoreWanted
  }

  /** After a chunk that was one too many. */
  askForMore(): void {
    this._read(0)
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.taking?.abort()
    super._destroy(error, callback)
  }
}

/** Calls back once; at once where there is no body. */
export function takeBody(body: Readable, headers: IncomingHttpHeaders, limit: number, done: OnBody): void {
  const length = headers['content-length']
  if (headers['transfer-encoding'] === undefined && (length === undefined || length === '0'))
    return done(null, nothing)
  if (Number(length ?? 0) > limit) return done(tooLarge(limit, { connection: 'close' }), nothing)
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') return done(encoded(), nothing)
  const taking = createTaking(limit, done)
  if (body instanceof TakeableRequest && body.readableLength === 0 && !body.complete) {
    body.taking = taking
    return
  }
  body.on('data', taking.take)
  body.on('end', taking.end)
  body.on('close', taking.abort)
}

const maxFew = 1000

function createTaking(limit: number, done: OnBody): Taking {
  const chunks: Buffer[] = []
  /** A body that comes byte by byte would take up the room of a hundred: some are put together now and then. */
  let few: Buffer[] = []
  let received = 0
  let isDone = false
  const refuse = (why: Refusal) => {
    isDone = true
    done(why, nothing)
  }
  return {
    take(chunk) {
      received += chunk.length
      // What comes after that is read and dropped, so that the refusal can be heard.
      if (isDone) return true
      if (received > limit) refuse(tooLarge(limit))
      else few.push(chunk)
      if (few.length < maxFew) return true
      chunks.push(Buffer.concat(few))
      few = []
      return true
    },
    end() {
      if (isDone) return
      isDone = true
      chunks.push(...few)
      done(null, chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
    },
    abort() {
      if (!isDone) refuse(clientClosed())
    },
  }
}

export function readBody({ body, headers }: RawRequest, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    takeBody(body, headers, limit, (error, bytes) => (error ? reject(error) : resolve(bytes)))
  })
}

/** What may wait to be taken. */
const maxArrived = { bytes: 512 * 1024, chunks: 64 }

/**
 * A body of any length, in whatever has come since the last of it was taken. The client waits when that is much. What
 * comes after whoever takes it has stopped is left to the stream.
 */
export async function* arrivingChunks(body: TakeableRequest): AsyncGenerator<readonly Buffer[]> {
  let arrived: Buffer[] = []
  let arrivedBytes = 0
  let isComplete = false
  let isCut = body.destroyed
  let wake = () => {}
  const isEnough = () => arrivedBytes >= maxArrived.bytes || arrived.length >= maxArrived.chunks
  const taking: Taking = {
    take(chunk) {
      arrived.push(chunk)
      arrivedBytes += chunk.length
      wake()
      return !isEnough()
    },
    end() {
      isComplete = true
      wake()
    },
    abort() {
      isCut = true
      wake()
    },
  }
  // What came before is in the stream.
  const before = body.read() as Buffer | null
  if (before) taking.take(before)
  isComplete = body.complete
  body.taking = taking
  try {
    while (!isComplete || arrived.length > 0) {
      if (arrived.length > 0) {
        const taken = arrived
        const wasEnough = isEnough()
        arrived = []
        arrivedBytes = 0
        if (wasEnough) body.askForMore()
        yield taken
      } else if (isCut) throw clientClosed()
      else
        await new Promise<void>(resolve => {
          wake = resolve
        })
    }
  } finally {
    body.taking = undefined
    // The stream thinks that it has asked already.
    if (!isComplete) body.askForMore()
  }
}

export const clientClosed = (cause?: unknown) =>
  new Refusal('client_closed_request', 'The client closed the connection', { cause })

const nothing = Buffer.alloc(0)
const encoded = () => new Refusal('unsupported_media_type', 'Send the body without Content-Encoding')
const tooLarge = (limit: number, headers: Record<string, string> = {}) =>
  new Refusal('body_too_large', `The body is larger than the ${limit} bytes this route takes`, { headers })
