// The internal port of the runtime, on which only programs of this machine can ask for its state.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Runtime } from './runtime.ts'

export interface HealthPort {
  readonly port: number
  close(): Promise<void>
}

export async function openHealthPort(port: number, health: Runtime['health']): Promise<HealthPort> {
  const server = createServer((request, answer) => {
    const isHealth = request.url === '/health' && (request.method === 'GET' || request.method === 'HEAD')
    answer.writeHead(isHealth ? 200 : 404, { 'content-type': 'application/json; charset=utf-8' })
    answer.end(JSON.stringify(isHealth ? health() : { message: 'Only GET /health is served here' }))
  })
  server.headersTimeout = 5000
  server.requestTimeout = 5000
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  server.unref()
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
