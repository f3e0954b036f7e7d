// A socket to a database server, and who gets what arrives on it.
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { ServerAddress } from '../server-address.ts'
import { message } from './encoder.ts'

/** Its bytes are lent: the memory holds something else as soon as the call returns. */
type Receiver = (bytes: Buffer) => void

export interface Line {
  readonly socket: Socket
  /** Says who gets what arrives from now on. */
  receive(receiver: Receiver): void
}

const tlsRequest = 80877103

/**
 * What all sockets without TLS are read into. Fresh memory for each piece would be most of what the process
 * allocates, and would stay with it. Node reads and hands over in one go, so no two of them need it at a time.
 */
const shared = Buffer.allocUnsafeSlow(64 * 1024)

export async function openLine({ host, port, tls }: ServerAddress): Promise<Line> {
  let receiver: Receiver = () => {}
  const callback = (length: number) => {
    receiver(shared.subarray(0, length))
    return true
  }
  const socket = connect({
    ...(host.startsWith('/')
      ? { path: `${host}/.s.PGSQL.${port}` }
      : { host, port, noDelay: true, keepAlive: true }),
    // TLS takes an ordinary socket over, and hands on what it has decrypted in memory of its own.
    ...(!tls && { onread: { buffer: shared, callback } }),
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve()
    })
  })
  return {
    socket,
    receive(next) {
      receiver = next
    },
  }
}

/** Goes on with TLS, as the server's address asks for. */
export function secured({ socket }: Line, { tls, host }: ServerAddress): Promise<Line> {
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the database closed the connection before TLS')))
    socket.once('data', reply => {
      // Exactly one byte: anything behind it was injected before encryption began.
      if (reply.length !== 1 || reply[0] !== 0x53) return reject(new Error('the database does not speak TLS'))
      const secure = connectTls({ socket, host, ...tls }, () => {
        secure.off('error', reject)
        resolve({ socket: secure, receive: receiverOf(secure) })
      })
      secure.once('error', reject)
    })
    socket.write(message('', tlsRequest))
  })
}

function receiverOf(socket: Socket): Line['receive'] {
  let receiver: Receiver | undefined
  return next => {
    if (receiver) socket.off('data', receiver)
    receiver = next
    socket.on('data', next)
  }
}
