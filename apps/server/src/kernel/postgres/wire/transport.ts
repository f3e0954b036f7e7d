// A socket to a database server, and the receiver of its bytes.
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { ServerAddress } from '../server-address.ts'
import { message } from './encoder.ts'

/** The memory of the bytes is reused after the call. */
type Receiver = (bytes: Buffer) => void

export interface Transport {
  readonly socket: Socket
  /** Replaces the receiver. */
  receive(receiver: Receiver): void
}

const tlsRequest = 80877103

/**
 * The read buffer of all sockets without TLS. A new buffer per read would be most of the memory that the process
 * allocates. Node reads and calls back synchronously, so two sockets never use it at the same time.
 */
const shared = Buffer.allocUnsafeSlow(64 * 1024)

/** When the signal aborts, the socket is destroyed, even before it is connected. */
export async function openTransport(
  { host, port, tls }: ServerAddress,
  signal?: AbortSignal,
): Promise<Transport> {
  // `connect` would ignore that the signal has already destroyed the socket.
  signal?.throwIfAborted()
  let receiver: Receiver = () => {}
  const callback = (length: number) => {
    receiver(shared.subarray(0, length))
    return true
  }
  const socket = connect({
    ...(host.startsWith('/')
      ? { path: `${host}/.s.PGSQL.${port}` }
      : { host, port, noDelay: true, keepAlive: true }),
    // A TLS socket reads from an ordinary socket, and emits decrypted bytes in its own memory.
    ...(!tls && { onread: { buffer: shared, callback } }),
    ...(signal && { signal }),
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve()
    })
  })
  socket.on('error', ignore)
  return {
    socket,
    receive(next) {
      receiver = next
    },
  }
}

/**
 * A server that is killed can answer a login with an error and leave a write of ours unfinished. The login has ended by then,
 * so nobody else listens, and an error without a listener ends the process. The socket closes after every error.
 */
const ignore = () => {}

/** Upgrades the connection to TLS. */
export function withTls({ socket }: Transport, { tls, host }: ServerAddress): Promise<Transport> {
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the database closed the connection before TLS')))
    socket.once('data', reply => {
      // Exactly one byte: any further bytes were injected before the encryption (CVE-2021-23222).
      if (reply.length !== 1 || reply[0] !== 0x53) return reject(new Error('the database does not speak TLS'))
      const secure = connectTls({ socket, host, ...tls }, () => {
        secure.off('error', reject)
        secure.on('error', ignore)
        resolve({ socket: secure, receive: receiverOf(secure) })
      })
      secure.once('error', reject)
      // Otherwise the TLS socket stays open when the socket below it is destroyed.
      socket.once('close', () => secure.destroy())
    })
    socket.write(message('', tlsRequest))
  })
}

function receiverOf(socket: Socket): Transport['receive'] {
  let receiver: Receiver | undefined
  return next => {
    if (receiver) socket.off('data', receiver)
    receiver = next
    socket.on('data', next)
  }
}
