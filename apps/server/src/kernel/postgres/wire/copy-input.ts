// Sends the data of COPY FROM STDIN as fast as the server takes it.
import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { message } from './encoder.ts'

/** The server collects each message in memory. */
const maxMessageBytes = 256 * 1024
/** Bytes that are sent in one turn of the event loop. Without this limit, a fast source and server would never yield. */
const bytesPerTurn = 512 * 1024
const copyData = 0x64

/** Throws the errors of the source only. Sends nothing more once `isOver` returns true. */
export async function sendCopyData(
  socket: Socket,
  source: AsyncIterable<Buffer>,
  isOver: () => boolean,
): Promise<void> {
  let sentInTurn = 0
  for await (const chunk of source) {
    for (let at = 0; at < chunk.length && !isOver(); at += maxMessageBytes) {
      const part = chunk.subarray(at, at + maxMessageBytes)
      send(socket, part)
      await whenWritable(socket)
      sentInTurn += part.length
      if (sentInTurn < bytesPerTurn) continue
      sentInTurn = 0
      await nextTurn()
    }
    if (isOver()) return
  }
  if (!isOver()) socket.write(message('c'))
}

function send(socket: Socket, part: Buffer): void {
  const header = Buffer.allocUnsafe(5)
  header[0] = copyData
  header.writeInt32BE(part.length + 4, 1)
  socket.cork()
  socket.write(header)
  socket.write(part)
  socket.uncork()
}

/** Also resolves when the socket closes. */
function whenWritable(socket: Socket): Promise<void> | undefined {
  if (!socket.writableNeedDrain || socket.destroyed) return
  return new Promise(resolve => {
    const done = () => {
      socket.off('drain', done).off('close', done)
      resolve()
    }
    socket.on('drain', done).on('close', done)
  })
}
