// A wire to a platform that breaks where it is told to.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after } from 'node:test'

export interface Break {
  /** Towards the platform, or back from it. */
  way: 'up' | 'down'
  /** After so many bytes of one connection. */
  bytes: number
  /** Only when the last request of the connection holds this. */
  asking?: string
  /** Silence instead of a cut. */
  isStall?: true
}

export interface Brittle {
  url: string
  /** `PATCH /v1/storage/…`, in order. */
  asked: string[]
  /** Breaks that have not happened yet. */
  left: Break[]
  /** When the first stall has happened. */
  stalled: Promise<void>
  /** Ends every connection there is. */
  cut(): void
}

export async function brittle(target: string, breaks: Break[]): Promise<Brittle> {
  const { hostname, port } = new URL(target)
  const asked: string[] = []
  const left = [...breaks]
  const sockets = new Set<Socket>()
  const { promise: stalled, resolve: stall } = Promise.withResolvers<void>()

  function carry(way: Break['way'], from: Socket, to: Socket): void {
    let bytes = 0
    let last = ''
    let isSilent = false
    from.on('data', (chunk: Buffer) => {
      if (isSilent) return
      const head = /^([A-Z]+ \S+) HTTP\/1\.1\r\n/.exec(chunk.toString('latin1', 0, 2000))
      if (way === 'up' && head) {
        last = head[1]!
        asked.push(last)
      }
      bytes += chunk.length
      const next = left[0]
      if (next?.way === way && bytes >= next.bytes && last.includes(next.asking ?? '')) {
        left.shift()
        if (!next.isStall) return void [from, to].map(each => each.resetAndDestroy())
        isSilent = true
        return stall()
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
    carry('up', client, platform)
    carry('down', platform, client)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    for (const socket of sockets) socket.resetAndDestroy()
    sockets.clear()
  }
  after(() => {
    cut()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, left, stalled, cut }
}
