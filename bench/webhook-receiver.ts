// A receiver of webhooks in its own process. GET /seen answers how many requests it has had, and when the first and the
// last of them came, since the last GET /reset.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

let count = 0
let first = 0
let last = 0

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    if (request.url === '/reset') count = first = last = 0
    response.end(JSON.stringify({ count, first, last }))
    return
  }
  request.on('data', () => {})
  request.on('end', () => {
    last = performance.timeOrigin + performance.now()
    if (count++ === 0) first = last
    response.end('ok')
  })
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stderr.write(`running at http://127.0.0.1:${port}\n`)
})
