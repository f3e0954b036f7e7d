// What the servers of other products need that a benchmark starts as its reference.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export async function waitUntilReady(name: string, url: string, hasEnded: () => boolean): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    if (hasEnded()) throw new Error(`${name} ended while starting`)
    const reply = await fetch(url).catch(() => undefined)
    await reply?.arrayBuffer()
    if (reply) return
    await sleep(100)
  }
  throw new Error(`${name} did not start`)
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
