// Puts files of one size over a few connections for a while, each connection to a name of its own, again and again.
// Its argument is a LoadOfUploads as JSON; it prints how many were taken. A process of its own: its CPU is not counted.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'

export interface LoadOfUploads {
  /** Connection `n` puts to this with `n` behind it. */
  url: string
  headers: Record<string, string>
  bytes: number
  connections: number
  seconds: number
}

export interface Uploaded {
  uploads: number
  seconds: number
}

const { url, headers, bytes, connections, seconds } = JSON.parse(process.argv[2]!) as LoadOfUploads
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
const begun = performance.now()
const work = async (connection: number) => {
  while (performance.now() - begun < seconds * 1000) {
    await put(`${url}${connection}`)
    uploads++
  }
}
await Promise.all(Array.from({ length: connections }, (_, connection) => work(connection)))
agent.destroy()
const uploaded: Uploaded = { uploads, seconds: (performance.now() - begun) / 1000 }
process.stdout.write(JSON.stringify(uploaded))
