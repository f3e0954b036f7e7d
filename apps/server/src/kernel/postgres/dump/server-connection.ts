// A connection to the server, whose bytes pg_dump exchanges. The platform does TLS, because pg_dump as WebAssembly cannot.
import type { ServerAddress } from '../server-address.ts'
import { openTransport, type Transport, withTls } from '../wire/transport.ts'

const connectMs = 10_000
const headerBytes = 5
const maxFirstMessageBytes = 64 * 1024
const authenticationType = 'R'.charCodeAt(0)
const channelBindingName = 'SCRAM-SHA-256-PLUS\0'

/** When the signal aborts, the connection is closed, even if it is not open yet. */
export async function connectToServer(address: ServerAddress, signal: AbortSignal): Promise<Transport> {
  const timeout = new AbortController()
  const timer = setTimeout(() => timeout.abort(), connectMs)
  try {
    return await open(address, AbortSignal.any([signal, timeout.signal]))
  } catch (error) {
    const seconds = connectMs / 1000
    const reason = timeout.signal.aborted ? `no answer within ${seconds} seconds` : (error as Error).message
    throw new Error(`Cannot connect to the database server: ${reason}.`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
}

async function open(address: ServerAddress, signal: AbortSignal): Promise<Transport> {
  const plain = await openTransport(address, signal)
  plain.socket.on('error', () => {}) // `close` follows
  if (!address.tls) return plain
  try {
    const { socket, receive } = await withTls(plain, address)
    socket.on('error', () => {})
    return { socket, receive: receiver => receive(withoutChannelBinding(receiver)) }
  } catch (error) {
    plain.socket.destroy()
    throw error
  }
}

/**
 * Removes SCRAM-SHA-256-PLUS from the login methods that the server offers in its first message. It binds the login to the
 * TLS connection. libpq does not know of this connection and fails if the server offers the method.
 */
export function withoutChannelBinding(receiver: (bytes: Buffer) => void): (bytes: Buffer) => void {
  let first: Buffer | undefined = Buffer.alloc(0)
  return bytes => {
    if (!first) return receiver(bytes)
    first = Buffer.concat([first, bytes])
    const end = first.length < headerBytes ? Number.POSITIVE_INFINITY : 1 + first.readUInt32BE(1)
    if (first.length < Math.min(end, maxFirstMessageBytes)) return
    const received = first
    first = undefined
    const found = received[0] === authenticationType ? received.indexOf(channelBindingName) : -1
    if (found < 0 || found > end) return receiver(received)
    received.writeUInt32BE(end - 1 - channelBindingName.length, 1)
    receiver(
      Buffer.concat([received.subarray(0, found), received.subarray(found + channelBindingName.length)]),
    )
  }
}
