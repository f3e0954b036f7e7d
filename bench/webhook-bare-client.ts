// The references of bench/webhooks.ts: keep-alive clients that post a body over ten connections and do nothing else.
// POST / with {client, url, body, count} makes one of them post the body count times.
import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'

const connections = 10
const headers = { 'content-type': 'application/json' }

/** The HTTP client of Node with its keep-alive agent. */
function withNode(url: string, body: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const length = { 'content-length': Buffer.byteLength(body) }
  return {
    async post() {
      const sending = request(url, { method: 'POST', agent, headers: { ...headers, ...length } })
      sending.end(body)
      const [answer] = (await once(sending, 'response')) as [IncomingMessage]
      answer.resume()
      await once(answer, 'end')
    },
    close: async () => agent.destroy(),
  }
}

/** The client that the platform builds on. */
function withUndici(url: string, body: string) {
  const { origin, pathname } = new URL(url)
  const pool = new Pool(origin, { connections, pipelining: 1 })
  return {
    async post() {
      const answer = await pool.request({ path: pathname, method: 'POST', headers, body })
      await answer.body.text()
    },
    close: () => pool.close(),
  }
}

async function postAll(client: ReturnType<typeof withNode>, count: number): Promise<void> {
  let left = count
  const postNext = async () => {
    while (left-- > 0) await client.post()
  }
  await Promise.all(Array.from({ length: connections }, postNext))
  await client.close()
}

const server = createServer((incoming, response) => {
  const chunks: Buffer[] = []
  incoming.on('data', chunk => chunks.push(chunk))
  incoming.on('end', async () => {
    const { client, url, body, count } = JSON.parse(Buffer.concat(chunks).toString())
    await postAll((client === 'node' ? withNode : withUndici)(url, body), count)
    response.end('done')
  })
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stderr.write(`running at http://127.0.0.1:${port}\n`)
})
