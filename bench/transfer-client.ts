// Uploads or downloads one large file, which is generated and hashed as a stream. Its argument is a Transfer as JSON; it
// prints the result. A separate process, so that its memory is not the platform's.
import { createCipheriv, createHash } from 'node:crypto'
import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'

export type Transfer = { headers: Record<string, string>; url: string } & (
  | { kind: 'download' }
  /** The maximum number of bytes per request. */
  | { kind: 'upload'; bytes: number; chunkBytes: number }
)

export interface TransferResult {
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

async function readAnswer(sending: ClientRequest): Promise<IncomingMessage> {
  requests++
  const [reply] = (await once(sending, 'response')) as [IncomingMessage]
  if (reply.statusCode! < 300) return reply
  throw new Error(`${transfer.kind} answered ${reply.statusCode}: ${await text(reply)}`)
}

async function download(): Promise<number> {
  const sending = request(transfer.url, { headers: transfer.headers })
  sending.end()
  let bytes = 0
  for await (const chunk of (await readAnswer(sending)) as AsyncIterable<Buffer>) {
    hash.update(chunk)
    bytes += chunk.length
  }
  return bytes
}

async function upload(bytes: number, chunkBytes: number): Promise<number> {
  // The key stream of a cipher: incompressible, and the same each time.
  const stream = createCipheriv('aes-128-ctr', Buffer.alloc(16, 7), Buffer.alloc(16))
  let offset = 0
  while (offset < bytes) {
    const end = Math.min(bytes, offset + chunkBytes)
    const sending = request(transfer.url, {
      method: 'PATCH',
      headers: { ...transfer.headers, 'upload-offset': offset, 'content-length': end - offset },
    })
    const pendingAnswer = readAnswer(sending)
    while (offset < end) {
      const chunk = stream.update(zeros.subarray(0, Math.min(stepBytes, end - offset)))
      hash.update(chunk)
      offset += chunk.length
      if (!sending.write(chunk)) await Promise.race([once(sending, 'drain'), pendingAnswer])
    }
    sending.end()
    const reply = await pendingAnswer
    reply.resume()
    if (Number(reply.headers['upload-offset']) !== offset)
      throw new Error(`sent ${offset} bytes, but the platform has ${reply.headers['upload-offset']}`)
  }
  return offset
}

const bytes = await (transfer.kind === 'download' ? download() : upload(transfer.bytes, transfer.chunkBytes))
const result: TransferResult = {
  bytes,
  sha256: hash.digest('hex'),
  requests,
  clientPeakMegabytes: process.resourceUsage().maxRSS / 1024,
}
process.stdout.write(JSON.stringify(result))
