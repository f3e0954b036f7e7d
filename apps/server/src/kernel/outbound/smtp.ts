// One message to one SMTP server, on a connection of our own making: whatever the server does, it is over in time.
// Certificates are always verified.
import { connect, type Socket } from 'node:net'
import { domainToASCII } from 'node:url'
import type { SmtpServer } from './smtp-server.ts'

export interface OutgoingMail {
  /** The same at each attempt, so that a mail sent twice can be known as one. */
  id: string
  to: string
  subject: string
  html: string
  text: string
}

export interface SmtpFailure {
  /** For the log: no word of the server's, which may quote the address. */
  reason: string
  /** For whoever asked for this mail, with the server's answer. */
  told: string
  /** The server has refused the message or its recipient for good. */
  isFinal: boolean
}

/** In milliseconds; no message takes longer than the whole. */
export const sendLimits = { connect: 10_000, greeting: 10_000, silence: 20_000, whole: 60_000 }
type Limits = typeof sendLimits

/** Undefined when the server has taken the message. */
export async function sendMail(
  server: SmtpServer,
  mail: OutgoingMail,
  stop?: AbortSignal,
  limits: Limits = sendLimits,
): Promise<SmtpFailure | undefined> {
  const deadline = AbortSignal.timeout(limits.whole)
  const signal = stop ? AbortSignal.any([stop, deadline]) : deadline
  let socket: Socket | undefined
  const cut = () => socket?.destroy()
  signal.addEventListener('abort', cut, { once: true })
  try {
    signal.throwIfAborted()
    socket = await connected(server, signal, limits)
    await untilAborted(deliver(server, mail, socket, limits), signal)
    return undefined
  } catch (error) {
    const cause = stop?.aborted ? stopped : deadline.aborted ? tooSlow : (error as SendError)
    return failureFrom(cause, server.login)
  } finally {
    signal.removeEventListener('abort', cut)
    cut()
  }
}

function connected({ host, port }: SmtpServer, signal: AbortSignal, limits: Limits): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, signal })
    const timer = setTimeout(
      () => socket.destroy(sendError('ETIMEDOUT', 'the server does not answer')),
      limits.connect,
    )
    socket.once('close', () => clearTimeout(timer))
    socket.once('connect', () => {
      clearTimeout(timer)
      socket.off('error', reject)
      socket.on('error', () => {}) // the transport listens too, but lets go of it before it is gone
      resolve(socket)
    })
    socket.once('error', reject)
  })
}

async function deliver(
  server: SmtpServer,
  mail: OutgoingMail,
  socket: Socket,
  limits: Limits,
): Promise<void> {
  const { host, port, encryption, login, from } = server
  // When it is needed: it takes 130 ms of CPU and 20 MB, which a platform without SMTP never pays.
  const { createTransport } = await import('nodemailer')
  const transport = createTransport({
    host,
    port,
    secure: encryption === 'tls',
    requireTLS: encryption === 'starttls',
    ignoreTLS: encryption === 'none',
    tls: { rejectUnauthorized: true },
    greetingTimeout: limits.greeting,
    connectionTimeout: limits.connect,
    socketTimeout: limits.silence,
    getSocket: (_options, give) => give(null, { connection: socket }),
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

function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    work.then(resolve, reject)
  })
}

type SendError = Error & {
  code?: string
  originalCode?: string
  responseCode?: number
  response?: string
  command?: string
}

const sendError = (code: string, message: string): SendError => Object.assign(new Error(message), { code })
const stopped = sendError('ESTOPPED', 'the platform is stopping')
const tooSlow = sendError('ETIMEDOUT', 'it takes too long')

const meanings: Readonly<Record<string, string>> = {
  EAUTH: 'the server refuses the user name or password',
  EDNS: 'the host cannot be found',
  ENOTFOUND: 'the host cannot be found',
  EAI_AGAIN: 'the host cannot be found',
  EENVELOPE: 'the server refuses the sender or the recipient',
  EMESSAGE: 'the server refuses the message',
  ETLS: 'an encrypted connection could not be made',
  ETIMEDOUT: 'the server does not answer in time',
  ECONNREFUSED: 'nothing listens at this host and port',
  ESTOPPED: 'the platform is stopping',
}

const aboutCertificate = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS/

function failureFrom(error: SendError, login: SmtpServer['login']): SmtpFailure {
  const { code = '', originalCode, responseCode, response, command } = error
  const cause = originalCode ?? code
  const meaning =
    meanings[code] ??
    meanings[cause] ??
    (aboutCertificate.test(cause)
      ? 'the certificate of the server cannot be trusted'
      : 'the connection failed')
  const codes = [cause, command, responseCode].filter(Boolean).join(' ')
  const reason = `${meaning}${codes && ` (${codes})`}`
  const answer = response && /^\d{3}[ -]/.test(response) ? quoted(response, login) : ''
  const isFinal =
    responseCode !== undefined && responseCode >= 500 && (command === 'RCPT TO' || command === 'DATA')
  return { reason, told: answer ? `${reason}: ${answer}` : reason, isFinal }
}

/** Some servers repeat what they were sent: the password does not come back that way. */
function quoted(response: string, login: SmtpServer['login']): string {
  const { user = '', password = '' } = login ?? {}
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const secrets = password === '' ? [] : [password, base64(password), base64(`\0${user}\0${password}`)]
  return secrets
    .reduce((text, secret) => text.replaceAll(secret, '[redacted]'), response)
    .replace(/\s+/g, ' ')
    .slice(0, 300)
}
