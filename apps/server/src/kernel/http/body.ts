// The body of a request, read whole and never past its limit. What arrives goes past the machinery of streams, which
// would cost more than all that is done with a small body afterwards.
import { type IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { Refusal } from '#src/kernel/errors.ts'
import type { RawRequest } from './request.ts'

type OnBody = (error: Error | null, bytes: Buffer) => void

interface Taking {
  take(chunk: Buffer): void
  end(): void
  /** Of no consequence after the end. */
  abort(): void
}

/** A request whose body somebody may take before it arrives; otherwise it is the stream it always is. */
export class TakeableRequest extends IncomingMessage {
  taking: Taking | undefined = undefined

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const { taking } = this
    if (taking === undefined) return super.push(chunk, encoding)
    if (chunk !== null) {
      taking.take(chunk)
      return true
    }
    const isMoreWanted = super.push(null)
    taking.end()
    return isMoreWanted
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
      if (isDone) return
      if (received > limit) return refuse(tooLarge(limit))
      few.push(chunk)
      if (few.length < maxFew) return
      chunks.push(Buffer.concat(few))
      few = []
    },
    end() {
      if (isDone) return
      isDone = true
      chunks.push(...few)
      done(null, chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
    },
    abort() {
      if (!isDone) refuse(new Refusal('client_closed_request', 'The client closed the connection'))
    },
  }
}

export function readBody({ body, headers }: RawRequest, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    takeBody(body, headers, limit, (error, bytes) => (error ? reject(error) : resolve(bytes)))
  })
}

const nothing = Buffer.alloc(0)
const encoded = () => new Refusal('unsupported_media_type', 'Send the body without Content-Encoding')
const tooLarge = (limit: number, headers: Record<string, string> = {}) =>
  new Refusal('body_too_large', `The body is larger than the ${limit} bytes this route takes`, { headers })
