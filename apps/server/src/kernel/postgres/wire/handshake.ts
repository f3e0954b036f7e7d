// Logs in on a new socket: TLS if configured, startup settings, SCRAM, BackendKeyData. Also sends cancel requests.
import { scramExchange } from '#src/kernel/crypto/scram.ts'
import type { ServerAddress } from '../server-address.ts'
import { message } from './encoder.ts'
import { errorFrom } from './error-response.ts'
import { Frames } from './frames.ts'
import { openTransport, type Transport, withTls } from './transport.ts'

export interface LoggedIn {
  transport: Transport
  processId: number
  secretKey: Buffer
  /** May contain the first bytes of the next message. */
  frames: Frames
}

interface LoginOptions {
  frames?: Frames
  /** Ends the login and later the connection. */
  signal?: AbortSignal | undefined
}

const protocolVersion = 196608
const cancelRequest = 80877102
const timeoutMs = 10_000

export async function logIn(
  address: ServerAddress,
  database: string,
  settings: Record<string, string>,
  { frames = new Frames(), signal }: LoginOptions = {},
): Promise<LoggedIn> {
  const plain = await openTransport(address, signal)
  const timer = setTimeout(
    () => plain.socket.destroy(new Error('the database did not answer in time')),
    timeoutMs,
  )
  try {
    const transport = address.tls ? await withTls(plain, address) : plain
    const startup = Object.entries({ user: address.user, database, ...settings }).flat()
    transport.socket.write(message('', protocolVersion, ...startup, Buffer.from([0])))
    return { transport, ...(await authenticate(transport, address.password, frames)) }
  } catch (error) {
    plain.socket.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Asks the server to cancel the statement of this backend. Resolves when the server has processed the request. */
export async function requestCancel(
  address: ServerAddress,
  backend: Pick<LoggedIn, 'processId' | 'secretKey'>,
) {
  const plain = await openTransport(address)
  const { socket } = address.tls ? await withTls(plain, address) : plain
  await new Promise<void>(resolve => {
    socket.once('close', () => resolve())
    socket.on('error', () => resolve())
    socket.setTimeout(timeoutMs, () => socket.destroy())
    socket.resume()
    socket.end(message('', cancelRequest, backend.processId, backend.secretKey))
  })
}

function authenticate(
  transport: Transport,
  password: string,
  frames: Frames,
): Promise<Omit<LoggedIn, 'transport'>> {
  const { socket } = transport
  return new Promise((resolve, reject) => {
    const exchange = scramExchange(password)
    let processId = 0
    let secretKey: Buffer = Buffer.alloc(0)
    let isProven = false
    const fail = (error: Error) => {
      detach()
      reject(error)
    }
    const onClose = () => fail(new Error('the database closed the connection during login'))
    const detach = () => {
      transport.receive(() => {})
      socket.off('error', fail)
      socket.off('close', onClose)
    }

    function onFrame(type: number, bytes: Buffer, start: number, end: number): void {
      if (type === 0x52)
        void onAuthentication(bytes.readInt32BE(start), bytes.toString('utf8', start + 4, end)).catch(fail)
      else if (type === 0x45) fail(errorFrom(bytes, start, end))
      else if (type === 0x4b) {
        processId = bytes.readInt32BE(start)
        secretKey = Buffer.from(bytes.subarray(start + 4, end))
      } else if (type === 0x5a) {
        detach()
        socket.pause()
        resolve({ processId, secretKey, frames })
      }
    }

    async function onAuthentication(method: number, body: string): Promise<void> {
      if (method === 10) {
        if (!body.includes('SCRAM-SHA-256\0')) throw new Error('the database does not offer SCRAM-SHA-256')
        const first = Buffer.from(exchange.first)
        socket.write(message('p', 'SCRAM-SHA-256', first.length, first))
      } else if (method === 11) socket.write(message('p', Buffer.from(await exchange.respond(body))))
      else if (method === 12) {
        isProven = exchange.isGenuine(body)
        if (!isProven) throw new Error('the database could not prove who it is')
      } else if (method !== 0 || !isProven)
        throw new Error('the database asks for a login method other than SCRAM-SHA-256')
    }

    transport.receive(bytes => frames.push(bytes, onFrame))
    socket.on('error', fail)
    socket.on('close', onClose)
  })
}
