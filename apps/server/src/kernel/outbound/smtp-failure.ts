// Why a mail was not sent. The log gets the details. The project gets one of a few kinds only, because it chose the server
// and could otherwise scan ports.
import { OutboundError } from './connect.ts'

const messages = {
  unreachable: 'the mail server could not be reached. Check host, port and encryption.',
  tls: 'TLS failed. Check the encryption and the certificate of the mail server.',
  login: 'the mail server refused the login. Check user name and password.',
  message: 'the mail server refused the message. Check the sender and the recipient.',
  stopped: 'the platform is stopping. Try again.',
} as const

export interface SmtpFailure {
  kind: keyof typeof messages
  /** For the log. Without the text of the server, which may repeat an address or a password. */
  reason: string
  /** The server has rejected the message or its recipient permanently. */
  isFinal: boolean
}

/** The message for the project. It is the same for every server that does not speak SMTP. */
export const shownFailure = ({ kind }: SmtpFailure): string => messages[kind]

/** An error of nodemailer or TLS, from `sendError`, or an OutboundError. */
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
  // The message of an OutboundError contains no text of the server.
  const ownMessage = error instanceof OutboundError ? error.message : undefined
  const meaning =
    ownMessage ??
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

/** TLS failures are reported only for servers that sent an SMTP greeting (smtp.ts). */
function kindOf(code: string, hasBadCertificate: boolean): SmtpFailure['kind'] {
  if (code === 'EAUTH') return 'login'
  if (code === 'EENVELOPE' || code === 'EMESSAGE') return 'message'
  if (code === 'ESTOPPED') return 'stopped'
  return code === 'ETLS' || hasBadCertificate ? 'tls' : 'unreachable'
}

/** The code of the cause. If several addresses were tried, that of the first. */
function codeOf(cause: unknown): string {
  const { code, errors } = (cause ?? {}) as { code?: unknown; errors?: { code?: unknown }[] }
  return String(code ?? errors?.[0]?.code ?? '')
}
