// Sends one message to one SMTP server. Whatever the server does, the delivery ends in time, reads a limited number of
// bytes, and a failure has one of a few kinds. Certificates are always verified.
import { isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { domainToASCII } from 'node:url'
import { BoundedConnection } from './bounded-connection.ts'
import { type Connector, untilAborted } from './connect.ts'
import { failureFrom, type SendError, type SmtpFailure, sendError } from './smtp-failure.ts'
import type { SmtpServer } from './smtp-server.ts'

export interface OutgoingMail {
  /** The same in each attempt, so that a receiver can recognise a mail that was sent twice. */
  id: string
  to: string
  subject: string
  html: string
  text: string
}

/** In milliseconds. `reach` covers DNS, connection, TLS and greeting, `silence` the time between two packets. */
export const sendLimits = { reach: 10_000, silence: 20_000, whole: 60_000 }
type Limits = typeof sendLimits

/** Bytes that a server may send during one delivery, including TLS. An ordinary server sends less than 10 kB. */
const maxReceivedBytes = 128 * 1024

/** Returns undefined if the server has accepted the message. */
export async function sendMail(
  connector: Connector,
  server: SmtpServer,
  mail: OutgoingMail,
  stop?: AbortSignal,
  limits: Limits = sendLimits,
): Promise<SmtpFailure | undefined> {
  const deadline = AbortSignal.timeout(limits.whole)
  const signal = stop ? AbortSignal.any([stop, deadline]) : deadline
  const reachBy = performance.now() + limits.reach
  let connection: Duplex | undefined
  const disconnect = () => connection?.destroy()
  signal.addEventListener('abort', disconnect, { once: true })
  try {
    signal.throwIfAborted()
    connection = await connect(
      connector,
      server,
      AbortSignal.any([signal, AbortSignal.timeout(limits.reach)]),
    )
    const greetingMs = Math.max(1, Math.ceil(reachBy - performance.now()))
    await untilAborted(deliver(server, mail, connection, greetingMs, limits), signal)
    return undefined
  } catch (error) {
    const isSlow = deadline.aborted || (error as Error).name === 'TimeoutError'
    return failureFrom(stop?.aborted ? stopped : isSlow ? tooSlow : (error as SendError))
  } finally {
    signal.removeEventListener('abort', disconnect)
    disconnect()
  }
}

/** The connection for the greeting. With `tls` it is already encrypted. */
async function connect(connector: Connector, server: SmtpServer, signal: AbortSignal): Promise<Duplex> {
  const { host, port, encryption } = server
  const socket = await connector.connect({ host, port, signal })
  const bounded = new BoundedConnection(socket, maxReceivedBytes)
  // The reader gets the error too. Without a listener here, it would end the process.
  bounded.on('error', () => {})
  if (encryption !== 'tls') return bounded
  try {
    return await untilAborted(startTls(bounded, host), signal)
  } catch (error) {
    bounded.destroy()
    throw error
  }
}

/**
 * Rejects if the certificate is not trusted. Before that it reads the greeting: only an SMTP server gets an error about
 * its certificate. Any other TLS port counts as unreachable, so that tenants cannot scan for such ports.
 */
function startTls(bounded: Duplex, host: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const secured = connectTls({
      socket: bounded,
      host,
      ...(isIP(host) === 0 && { servername: host }),
      rejectUnauthorized: false,
    })
    secured.on('error', reject)
    secured.once('close', () => {
      bounded.destroy()
      reject(sendError('ECONNECTION', 'the connection was closed'))
    })
    secured.once('secureConnect', () => {
      if (secured.authorized) return resolve(secured)
      const untrusted = sendError('ETLS', 'the certificate is not trusted')
      untrusted.originalCode = String(secured.authorizationError)
      secured.once('data', chunk => {
        const isSmtp = chunk.toString('latin1', 0, 4).startsWith('220')
        secured.destroy()
        reject(isSmtp ? untrusted : sendError('EPROTOCOL', 'no greeting'))
      })
    })
  })
}

async function deliver(
  server: SmtpServer,
  mail: OutgoingMail,
  connection: Duplex,
  greetingMs: number,
  limits: Limits,
): Promise<void> {
  const { host, port, encryption, login, from } = server
  // Imported on first use, because it takes 130 ms of CPU time and 20 MB.
  const { createTransport } = await import('nodemailer')
  const transport = createTransport({
    host,
    port,
    secure: encryption === 'tls',
    requireTLS: encryption === 'starttls',
    ignoreTLS: encryption === 'none',
    tls: { rejectUnauthorized: true },
    greetingTimeout: greetingMs,
    connectionTimeout: limits.reach,
    socketTimeout: limits.silence,
    maxResponseSize: maxReceivedBytes,
    // nodemailer uses only methods that this connection has.
    getSocket: (_options, give) =>
      give(null, { connection: connection as Socket, secured: encryption === 'tls' }),
    // Templates and names are text only and must not attach files or URLs.
    disableFileAccess: true,
    disableUrlAccess: true,
    ...(login && { auth: { user: login.user, pass: login.password } }),
  })
  try {
    await transport.sendMail({
      from: { name: from.name, address: from.address },
      to: { name: '', address: mail.to },
      envelope: { from: from.address, to: [mail.to] },
      messageId: `<${mail.id}@${domainOf(from.address)}>`,
      subject: mail.subject,
      ...(mail.text !== '' && { text: mail.text }),
      ...(mail.html !== '' && { html: mail.html }),
      headers: { 'Auto-Submitted': 'auto-generated' },
    })
  } finally {
    transport.close()
  }
}

const domainOf = (address: string) => domainToASCII(address.slice(address.indexOf('@') + 1)) || 'localhost'

const stopped = sendError('ESTOPPED', 'the platform is stopping')
const tooSlow = sendError('ETIMEDOUT', 'it takes too long')
