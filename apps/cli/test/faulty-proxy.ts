// A TCP proxy before a platform that cuts or stalls connections as a test specifies.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after } from 'node:test'

export interface Fault {
  /** Bytes to the platform, or bytes from it. */
  direction: 'up' | 'down'
  /** After this many bytes of one connection. */
  bytes: number
  /** Only when the last request of the connection contains this. */
  request?: string
  /** Sends nothing more, instead of a cut. */
  isStall?: true
}

export interface FaultyProxy {
  url: string
  /** `PATCH /v1/storage/…`, in order. */
  requests: string[]
  /** Faults that have not happened yet. */
  pending: Fault[]
  /** Resolves with the first stall. */
  stalled: Promise<void>
  /** Cuts every open connection. */
  cut(): void
}

export async function faultyProxy(target: string, faults: Fault[]): Promise<FaultyProxy> {
  const { hostname, port } = new URL(target)
  const requests: string[] = []
  const pending = [...faults]
  const sockets = new Set<Socket>()
  const { promise: stalled, resolve: reportStall } = Promise.withResolvers<void>()

  function forward(direction: Fault['direction'], from: Socket, to: Socket): void {
    let bytes = 0
    let lastRequest = ''
    let isStalled = false
    from.on('data', (chunk: Buffer) => {
      if (isStalled) return
      const head = /^([A-Z]+ \S+) HTTP\/1\.1\r\n/.exec(chunk.toString('latin1', 0, 2000))
      if (direction === 'up' && head) {
        lastRequest = head[1]!
        requests.push(lastRequest)
      }
      bytes += chunk.length
      const next = pending[0]
      if (next?.direction === direction && bytes >= next.bytes && lastRequest.includes(next.request ?? '')) {
        pending.shift()
        if (!next.isStall) return void [from, to].map(reset)
        isStalled = true
        return reportStall()
      }
      if (!to.write(chunk)) from.pause()
    })
    to.on('drain', () => from.resume())
    from.on('end', () => to.end())
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
    sockets.add(from)
  }

  const server = createServer(client => {
    const platform = connect(Number(port), hostname)
    forward('up', client, platform)
    forward('down', platform, client)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    for (const socket of sockets) reset(socket)
    sockets.clear()
  }
  after(() => {
    cut()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, requests, pending, stalled, cut }
}

/** Node cannot reset a socket that is shutting down: its handle would never close, and the process never end. */
const reset = (socket: Socket) => (socket.writableEnded ? socket.destroy() : socket.resetAndDestroy())
