// Why a mail was not sent: in detail for the operator's log, and as one of a few kinds for the project that named the
// server, who could otherwise scan ports with it.
import { OutboundError } from './connect.ts'

const told = {
  unreachable: 'the mail server could not be reached. Check host, port and encryption.',
  tls: 'TLS failed. Check the encryption and the certificate of the mail server.',
  login: 'the mail server refused the login. Check user name and password.',
  message: 'the mail server refused the message. Check the sender and the recipient.',
  stopped: 'the platform is stopping. Try again.',
} as const

export interface SmtpFailure {
  kind: keyof typeof told
  /** For the log. Without the words of the server, which may repeat an address or a password. */
  reason: string
  /** The server has refused the message or its recipient for good. */
  isFinal: boolean
}

/** For the project: the same for every server that does not speak SMTP. */
export const shownFailure = ({ kind }: SmtpFailure): string => told[kind]

/** Of nodemailer or TLS, of our own, or an OutboundError. */
export type SendError = Error & {
  code?: string
  originalCode?: string
  responseCode?: number
  command?: string
}

export const sendError = (code: string, message: string): SendError =>
  Object.assign(new Error(message), { code })

const meanings: Readonly<Record<string, string>> = {
  EAUTH: 'the server refuses the user name or password',
  EENVELOPE: 'the server refuses the sender or the recipient',
  EMESSAGE: 'the server refuses the message',
  ETLS: 'an encrypted connection could not be made',
  ETIMEDOUT: 'the server does not answer in time',
  ETOOLARGE: 'the server sends too much',
  EPROTOCOL: 'the server does not speak SMTP',
  ECONNREFUSED: 'nothing listens at this host and port',
  ESTOPPED: 'the platform is stopping',
}

const aboutCertificate = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS/

export function failureFrom(error: SendError): SmtpFailure {
  const { code = '', originalCode, responseCode, command } = error
  const cause = originalCode ?? (code || codeOf(error.cause))
  const hasBadCertificate = aboutCertificate.test(cause)
  // The message of an OutboundError holds no word of the server.
  const ownWords = error instanceof OutboundError ? error.message : undefined
  const meaning =
    ownWords ??
    (hasBadCertificate ? 'the certificate of the server cannot be trusted' : undefined) ??
    meanings[code] ??
    meanings[cause] ??
    'the connection failed'
  const codes = [cause, command, responseCode].filter(Boolean).join(' ')
  return {
    kind: kindOf(code, hasBadCertificate),
    reason: `${meaning}${codes && ` (${codes})`}`,
    isFinal:
      responseCode !== undefined && responseCode >= 500 && (command === 'RCPT TO' || command === 'DATA'),
  }
}

/** TLS failures come only from servers that have greeted as SMTP does; see smtp.ts. */
function kindOf(code: string, hasBadCertificate: boolean): SmtpFailure['kind'] {
  if (code === 'EAUTH') return 'login'
  if (code === 'EENVELOPE' || code === 'EMESSAGE') return 'message'
  if (code === 'ESTOPPED') return 'stopped'
  return code === 'ETLS' || hasBadCertificate ? 'tls' : 'unreachable'
}

/** Of the error behind an error; of several attempts to connect, the first one's. */
function codeOf(cause: unknown): string {
  const { code, errors } = (cause ?? {}) as { code?: unknown; errors?: { code?: unknown }[] }
  return String(code ?? errors?.[0]?.code ?? '')
}
