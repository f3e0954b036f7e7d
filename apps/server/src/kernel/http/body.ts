// The body of a `raw` request, read whole and never past its limit.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawRequest } from './request.ts'

export function readBody({ body, headers }: RawRequest, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (Number(headers['content-length'] ?? 0) > limit) return reject(tooLarge(limit))
    if ((headers['content-encoding'] ?? 'identity') !== 'identity') return reject(encoded())
    const chunks: Buffer[] = []
    let length = 0
    body.on('data', (chunk: Buffer) => {
      length += chunk.length
      // What comes after that is read and dropped, so that the refusal can be heard.
      if (length > limit) reject(tooLarge(limit))
      else chunks.push(chunk)
    })
    let hasEnded = false
    body.once('end', () => {
      hasEnded = true
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
    })
    body.once('error', reject)
    body.once('close', () => {
      if (!hasEnded) reject(new Refusal('client_closed_request', 'The client closed the connection'))
    })
  })
}

const encoded = () => new Refusal('unsupported_media_type', 'Send the body without Content-Encoding')

const tooLarge = (limit: number) =>
  new Refusal('body_too_large', `The body is larger than the ${limit} bytes this route takes`, {
    headers: { connection: 'close' },
  })
