// One long file up or down, made and hashed as it goes, never held. Its argument is a Transfer as JSON; it prints what
// it has seen. A process of its own, so that its memory is not the platform's.
import { createCipheriv, createHash } from 'node:crypto'
import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'

export type Transfer = { headers: Record<string, string>; url: string } & (
  | { kind: 'download' }
  /** In requests of at most so many bytes. */
  | { kind: 'upload'; bytes: number; chunkBytes: number }
)

export interface Transferred {
  bytes: number
  sha256: string
  requests: number
  clientPeakMegabytes: number
}

const stepBytes = 64 * 1024
const zeros = Buffer.alloc(stepBytes)
const transfer = JSON.parse(process.argv[2]!) as Transfer
const hash = createHash('sha256')
let requests = 0

async function answerOf(sending: ClientRequest): Promise<IncomingMessage> {
  requests++
  const [reply] = (await once(sending, 'response')) as [IncomingMessage]
  if (reply.statusCode! < 300) return reply
  throw new Error(`${transfer.kind} answered ${reply.statusCode}: ${await text(reply)}`)
}

async function download(): Promise<number> {
  const sending = request(transfer.url, { headers: transfer.headers })
  sending.end()
  let bytes = 0
  for await (const chunk of (await answerOf(sending)) as AsyncIterable<Buffer>) {
    hash.update(chunk)
    bytes += chunk.length
  }
  return bytes
}

async function upload(bytes: number, chunkBytes: number): Promise<number> {
  // The key stream of a cipher: it cannot be compressed, and it is the same each time.
  const stream = createCipheriv('aes-128-ctr', Buffer.alloc(16, 7), Buffer.alloc(16))
  let offset = 0
  while (offset < bytes) {
    const end = Math.min(bytes, offset + chunkBytes)
    const sending = request(transfer.url, {
      method: 'PATCH',
      headers: { ...transfer.headers, 'upload-offset': offset, 'content-length': end - offset },
    })
    const answered = answerOf(sending)
    while (offset < end) {
      const chunk = stream.update(zeros.subarray(0, Math.min(stepBytes, end - offset)))
      hash.update(chunk)
      offset += chunk.length
      if (!sending.write(chunk)) await Promise.race([once(sending, 'drain'), answered])
    }
    sending.end()
    const reply = await answered
    reply.resume()
    if (Number(reply.headers['upload-offset']) !== offset)
      throw new Error(`of ${offset} bytes sent the platform has ${reply.headers['upload-offset']}`)
  }
  return offset
}

const bytes = await (transfer.kind === 'download' ? download() : upload(transfer.bytes, transfer.chunkBytes))
const transferred: Transferred = {
  bytes,
  sha256: hash.digest('hex'),
  requests,
  clientPeakMegabytes: process.resourceUsage().maxRSS / 1024,
}
process.stdout.write(JSON.stringify(transferred))
