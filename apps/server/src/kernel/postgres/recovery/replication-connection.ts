// A connection for replication commands. Data that the server streams is read as fast as the consumer takes it: while
// more than `maxQueuedBytes` wait, nothing is read from the socket.
import { ConnectionLost } from '../database-error.ts'
import type { ServerAddress } from '../server-address.ts'
import { cellsOf } from '../wire/cells.ts'
import { message } from '../wire/encoder.ts'
import { errorFrom } from '../wire/error-response.ts'
import type { OnFrame } from '../wire/frames.ts'
import { logIn } from '../wire/handshake.ts'

type Row = readonly (string | null)[]

export interface ReplicationConnection {
  /** Runs a command and returns its rows, of all result sets. */
  rows(command: string): Promise<Row[]>
  /**
   * Runs a command that streams. Yields no messages when the stream begins, and then messages as they arrive. Returns the
   * rows besides the stream.
   */
  stream(command: string): AsyncGenerator<readonly Buffer[], Row[]>
  /** Sends a message to the server while it streams. */
  send(body: Buffer): void
  /** Asks the server to end its stream. What it has sent before still arrives. */
  endStream(): void
  /** Ends a stream, too. */
  close(): void
}

const maxQueuedBytes = 512 * 1024

export async function openReplication(address: ServerAddress): Promise<ReplicationConnection> {
  const { transport, frames } = await logIn(address, '', { replication: 'true', application_name: 'plinth' })
  const { socket } = transport
  let rows: Row[] = []
  let queue: Buffer[] = []
  let queuedBytes = 0
  let isDone = true
  let hasBegun = false
  let commandError: Error | undefined
  let lost: Error | undefined
  let wake: (() => void) | undefined

  const changed = () => {
    wake?.()
    wake = undefined
  }
  const lose = (cause?: Error) => {
    lost ??= new ConnectionLost(false, cause)
    changed()
  }
  const onFrame: OnFrame = (type, bytes, start, end, isOwn) => {
    switch (type) {
      case 0x64: // CopyData
        queue.push(isOwn ? bytes.subarray(start, end) : Buffer.from(bytes.subarray(start, end)))
        queuedBytes += end - start
        if (queuedBytes > maxQueuedBytes) socket.pause()
        return changed()
      case 0x48: // CopyOutResponse
      case 0x57: // CopyBothResponse
        hasBegun = true
        return changed()
      case 0x44: // DataRow
        rows.push(cellsOf(bytes, start, end, isOwn).map(cell => cell?.toString() ?? null))
        break
      case 0x45: // ErrorResponse; ReadyForQuery or the end of the connection follows
        commandError ??= errorFrom(bytes, start, end)
        break
      case 0x5a: // ReadyForQuery
        isDone = true
        return changed()
      default: // descriptions, notices, the end of the stream
        break
    }
  }
  transport.receive(bytes => frames.push(bytes, onFrame))
  socket.on('error', lose)
  socket.on('close', () => lose())
  socket.resume()

  async function* stream(command: string): AsyncGenerator<readonly Buffer[], Row[]> {
    if (!isDone) throw new Error('another command is running on this connection')
    rows = []
    commandError = undefined
    isDone = false
    if (!lost) socket.write(message('Q', command))
    for (;;) {
      if (queue.length > 0 || hasBegun) {
        const taken = queue
        hasBegun = false
        queue = []
        queuedBytes = 0
        socket.resume()
        yield taken
      } else if (isDone && !commandError) return rows
      else if (isDone || lost) throw commandError ?? lost
      else
        await new Promise<void>(resolve => {
          wake = resolve
        })
    }
  }

  return {
    async rows(command) {
      const running = stream(command)
      for (;;) {
        const { done, value } = await running.next()
        if (done) return value
      }
    },
    stream,
    send(body) {
      if (!lost) socket.write(message('d', body))
    },
    endStream() {
      if (!lost) socket.write(message('c'))
    },
    close() {
      socket.end(message('X'))
      socket.destroy()
      lose()
    },
  }
}
