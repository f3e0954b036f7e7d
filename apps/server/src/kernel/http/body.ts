// Reads request bodies up to a limit. Chunks bypass Node's stream, which would take more time than everything else that is
// done with a small body.
import { type IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Refusal } from '#src/kernel/errors.ts'
import type { RawRequest } from './request.ts'
import { setLatestRequest } from './request-pieces.ts'

type OnBody = (error: Error | null, bytes: Buffer) => void

interface BodyConsumer {
  /** False stops reading from the socket until `resumeReading`. */
  take(chunk: Buffer): boolean
  end(): void
  /** Does nothing after the end. */
  abort(): void
}

/** A request that passes its body to a consumer, if one is set before the body arrives. Otherwise it is a stream. */
export class DirectBodyRequest extends IncomingMessage {
  consumer: BodyConsumer | undefined = undefined

  constructor(socket: Socket) {
    super(socket)
    setLatestRequest(socket, this)
  }

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const { consumer } = this
    if (consumer === undefined) return super.push(chunk, encoding)
    if (chunk !== null) return consumer.take(chunk)
    const isMoreWanted = super.push(null)
    consumer.end()
    return isMoreWanted
  }

  /** Called after `take` has returned false. */
  resumeReading(): void {
    this._read(0)
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.consumer?.abort()
    super._destroy(error, callback)
  }
}

/** Calls back once with the whole body, or synchronously if there is none. */
export function collectBody(body: Readable, headers: IncomingHttpHeaders, limit: number, done: OnBody): void {
  const length = headers['content-length']
  if (headers['transfer-encoding'] === undefined && (length === undefined || length === '0'))
    return done(null, empty)
  if (Number(length ?? 0) > limit) return done(tooLarge(limit, { connection: 'close' }), empty)
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') return done(encodedBody(), empty)
  const consumer = createCollector(limit, done)
  if (body instanceof DirectBodyRequest && body.readableLength === 0 && !body.complete) {
    body.consumer = consumer
    return
  }
  body.on('data', consumer.take)
  body.on('end', consumer.end)
  body.on('close', consumer.abort)
}

const maxPending = 1000

function createCollector(limit: number, done: OnBody): BodyConsumer {
  const chunks: Buffer[] = []
  /** Concatenated every `maxPending` chunks: a buffer per byte would take a hundred times the memory of the body. */
  let pending: Buffer[] = []
  let received = 0
  let isDone = false
  const refuse = (why: Refusal) => {
    isDone = true
    done(why, empty)
  }
  return {
    take(chunk) {
      received += chunk.length
      // The rest is read and dropped, so that the client can receive the refusal.
      if (isDone) return true
      if (received > limit) refuse(tooLarge(limit))
      else pending.push(chunk)
      if (pending.length < maxPending) return true
      chunks.push(Buffer.concat(pending))
      pending = []
      return true
    },
    end() {
      if (isDone) return
      isDone = true
      chunks.push(...pending)
      done(null, chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
    },
    abort() {
      if (!isDone) refuse(clientClosed())
    },
  }
}

export function readBody({ body, headers }: RawRequest, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    collectBody(body, headers, limit, (error, bytes) => (error ? reject(error) : resolve(bytes)))
  })
}

/** Received chunks that wait to be consumed. Beyond this, reading from the socket stops. */
const maxBuffered = { bytes: 512 * 1024, chunks: 64 }

/**
 * Yields a body of any length, each time all chunks that were received since the last time. If the consumer stops early,
 * the rest stays in the stream.
 */
export async function* directBodyChunks(body: DirectBodyRequest): AsyncGenerator<readonly Buffer[]> {
  let received: Buffer[] = []
  let receivedBytes = 0
  let isComplete = false
  let isAborted = body.destroyed
  let wake = () => {}
  const isFull = () => receivedBytes >= maxBuffered.bytes || received.length >= maxBuffered.chunks
  const consumer: BodyConsumer = {
    take(chunk) {
      received.push(chunk)
      receivedBytes += chunk.length
      wake()
      return !isFull()
    },
    end() {
      isComplete = true
      wake()
    },
    abort() {
      isAborted = true
      wake()
    },
  }
  // Chunks that were received before now are in the stream.
  const before = body.read() as Buffer | null
  if (before) consumer.take(before)
  isComplete = body.complete
  body.consumer = consumer
  try {
    while (!isComplete || received.length > 0) {
      if (received.length > 0) {
        const taken = received
        const wasFull = isFull()
        received = []
        receivedBytes = 0
        if (wasFull) body.resumeReading()
        yield taken
      } else if (isAborted) throw clientClosed()
      else
        await new Promise<void>(resolve => {
          wake = resolve
        })
    }
  } finally {
    body.consumer = undefined
    // The stream has not seen the chunks and still waits for its last `_read`, so it would not call it again.
    if (!isComplete) body.resumeReading()
  }
}

export const clientClosed = (cause?: unknown) =>
  new Refusal('client_closed_request', 'The client closed the connection', { cause })

const empty = Buffer.alloc(0)
const encodedBody = () => new Refusal('unsupported_media_type', 'Send the body without Content-Encoding')
const tooLarge = (limit: number, headers: Record<string, string> = {}) =>
  new Refusal('body_too_large', `The body is larger than the ${limit} bytes this route takes`, { headers })
