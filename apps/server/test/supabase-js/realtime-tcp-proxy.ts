// A TCP proxy between client and server that can drop and stall connections.
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export interface TcpProxy {
  url: string
  /** Number of connections so far. */
  connections: number
  /** Resets every connection. */
  cut(): void
  /** Stalls all current and future connections. */
  hold(): void
  /** Resumes all connections. Stalled bytes are sent first. */
  release(): void
  stop(): void
}

export async function startTcpProxy(target: string): Promise<TcpProxy> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let isHeld = false
  const server = createServer(client => {
    proxy.connections++
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
  const proxy: TcpProxy = {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    connections: 0,
    cut() {
      // Node cannot reset a socket that is shutting down: its handle would never close, and the process never end.
      for (const socket of sockets) socket.writableEnded ? socket.destroy() : socket.resetAndDestroy()
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
      proxy.cut()
    },
  }
  return proxy
}
