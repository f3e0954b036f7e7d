import { once } from 'node:events'
import { createServer } from 'node:net'

/** Listens on a free port of the loopback interface, so that it is in use until `close`. */
export async function occupyPort(): Promise<{ port: number; close(): void }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as { port: number }).port, close: () => server.close() }
}
