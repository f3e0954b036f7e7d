// One message to one SMTP server. Whatever the server does, the delivery ends in time, reads a bounded number of bytes
// and fails with one of a few kinds. Certificates are always verified.
import { isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { domainToASCII } from 'node:url'
import { BoundedConnection } from './bounded-connection.ts'
import { type Connector, untilAborted } from './connect.ts'
import { failureFrom, type SendError, type SmtpFailure, sendError } from './smtp-failure.ts'
import type { SmtpServer } from './smtp-server.ts'

export interface OutgoingMail {
  /** The same at each attempt, so that a mail sent twice can be known as one. */
  id: string
  to: string
  subject: string
  html: string
  text: string
}

/** In milliseconds. `reach` covers the name, the connection, TLS and the greeting; `whole` the entire delivery. */
export const sendLimits = { reach: 10_000, silence: 20_000, whole: 60_000 }
type Limits = typeof sendLimits

/** What a server may send during one delivery, TLS included; an ordinary one sends less than 10 kB. */
const maxReceivedBytes = 128 * 1024

/** Undefined when the server has taken the message. */
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
  const cut = () => connection?.destroy()
  signal.addEventListener('abort', cut, { once: true })
  try {
    signal.throwIfAborted()
    connection = await reached(
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
    signal.removeEventListener('abort', cut)
    cut()
  }
}

/** The connection that the server greets on: with `tls`, already encrypted. */
async function reached(connector: Connector, server: SmtpServer, signal: AbortSignal): Promise<Duplex> {
  const { host, port, encryption } = server
  const socket = await connector.connect({ host, port, signal })
  const bounded = new BoundedConnection(socket, maxReceivedBytes)
  // The error reaches whoever reads; without a listener of its own it would end the process.
  bounded.on('error', () => {})
  if (encryption !== 'tls') return bounded
  try {
    return await untilAborted(encrypted(bounded, host), signal)
  } catch (error) {
    bounded.destroy()
    throw error
  }
}

/**
 * Without a certificate to trust, nothing is sent. The greeting is read all the same: only a server that greets as
 * SMTP does is told apart from one that cannot be reached, so that no other TLS port is found this way.
 */
function encrypted(bounded: Duplex, host: string): Promise<Duplex> {
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
  // Imported when it is needed: it takes 130 ms of CPU and 20 MB.
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
    // It asks for no more of a socket than this one has.
    getSocket: (_options, give) =>
      give(null, { connection: connection as Socket, secured: encryption === 'tls' }),
    // What a template or a name says is text, never the name of a file or URL to attach.
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
