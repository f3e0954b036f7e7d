// Uploads files of one size over a few connections for some time. Each connection replaces its own file repeatedly. Its
// argument is an UploadLoad as JSON; it prints the number of uploads. A separate process, so its CPU is not counted.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'

export interface UploadLoad {
  /** Connection `n` uploads to this URL followed by `n`. */
  url: string
  headers: Record<string, string>
  bytes: number
  connections: number
  seconds: number
}

export interface UploadResult {
  uploads: number
  seconds: number
}

const { url, headers, bytes, connections, seconds } = JSON.parse(process.argv[2]!) as UploadLoad
const body = randomBytes(bytes)
const agent = new Agent({ keepAlive: true, maxSockets: connections })

async function put(name: string): Promise<void> {
  const sending = request(name, {
    agent,
    method: 'PUT',
    headers: { ...headers, 'content-type': 'application/octet-stream', 'content-length': bytes },
  })
  sending.end(body)
  const [reply] = (await once(sending, 'response')) as [IncomingMessage]
  const answer = await text(reply)
  if (reply.statusCode !== 200) throw new Error(`PUT ${name} answered ${reply.statusCode}: ${answer}`)
}

let uploads = 0
const startedAt = performance.now()
const work = async (connection: number) => {
  while (performance.now() - startedAt < seconds * 1000) {
    await put(`${url}${connection}`)
    uploads++
  }
}
await Promise.all(Array.from({ length: connections }, (_, connection) => work(connection)))
agent.destroy()
const result: UploadResult = { uploads, seconds: (performance.now() - startedAt) / 1000 }
process.stdout.write(JSON.stringify(result))
