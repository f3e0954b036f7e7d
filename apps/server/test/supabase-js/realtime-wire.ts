// A wire between client and server that can be cut, held and mended.
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export interface Wire {
  url: string
  /** Connections so far. */
  connections: number
  /** Ends every connection without a goodbye. */
  cut(): void
  /** Nothing passes any more, in connections there are and those to come. */
  hold(): void
  /** All passes again, what was held first. */
  release(): void
  stop(): void
}

export async function startWire(target: string): Promise<Wire> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let isHeld = false
  const server = createServer(client => {
    wire.connections++
    const upstream = connect(Number(port), hostname)
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket)
      socket
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket)
          other.destroy()
        })
        .on('data', data => void other.write(data))
      if (isHeld) socket.pause()
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const wire: Wire = {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    connections: 0,
    cut() {
      for (const socket of sockets) socket.resetAndDestroy()
    },
    hold() {
      isHeld = true
      for (const socket of sockets) socket.pause()
    },
    release() {
      isHeld = false
      for (const socket of sockets) socket.resume()
    },
    stop() {
      server.close()
      wire.cut()
    },
  }
  return wire
}
