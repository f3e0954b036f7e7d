// The reference of bench/webhooks.ts: a keep-alive client that posts bodies over ten connections and nothing else. POST / with
// {url, body, count} makes it post the body count times.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'

const connections = 10

async function postAll(url: string, body: string, count: number): Promise<void> {
  const { origin, pathname } = new URL(url)
  const pool = new Pool(origin, { connections, pipelining: 1 })
  let left = count
  const post = async () => {
    while (left-- > 0) {
      const headers = { 'content-type': 'application/json' }
      const answer = await pool.request({ path: pathname, method: 'POST', headers, body })
      await answer.body.text()
    }
  }
  await Promise.all(Array.from({ length: connections }, post))
  await pool.close()
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', chunk => chunks.push(chunk))
  request.on('end', async () => {
    const { url, body, count } = JSON.parse(Buffer.concat(chunks).toString())
    await postAll(url, body, count)
    response.end('done')
  })
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stderr.write(`running at http://127.0.0.1:${port}\n`)
})
