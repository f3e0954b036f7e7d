// The reference for a fan-out: a bare `ws` server that forwards each message unchanged to all other sockets. Every two
// milliseconds each socket gets all new messages in one write of the same bytes.
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { WebSocketServer } from 'ws'

const flushMs = 2
const sockets = new Map<object, Socket>()
let frames: Buffer[] = []

const server = createServer()
const websockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
server.on('upgrade', (request, socket, head) => {
  websockets.handleUpgrade(request, socket, head, connection => {
    const isListening = request.url !== '/sender'
    if (isListening) sockets.set(connection, socket as Socket)
    connection.on('close', () => sockets.delete(connection))
    connection.on('error', () => sockets.delete(connection))
    connection.on('message', (data, isBinary) => {
      if (isListening) return // a heartbeat
      if (frames.length === 0) setTimeout(flush, flushMs)
      frames.push(frameOf(data as Buffer, isBinary ? 2 : 1))
    })
  })
})

function flush(): void {
  const bytes = frames.length === 1 ? frames[0]! : Buffer.concat(frames)
  frames = []
  for (const socket of sockets.values()) socket.write(bytes)
}

function frameOf(payload: Buffer, opcode: number): Buffer {
  const size = payload.length
  const head = size < 126 ? [0x80 | opcode, size] : [0x80 | opcode, 126, (size >> 8) & 0xff, size & 0xff]
  return Buffer.concat([Buffer.from(head), payload])
}

server.listen(0, '127.0.0.1', 1024, () => {
  process.stderr.write(`running at http://127.0.0.1:${(server.address() as AddressInfo).port}\n`)
})
process.once('SIGTERM', () => process.exit(0))
