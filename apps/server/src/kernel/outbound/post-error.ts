// Why a request of keep-alive.ts has no answer. The messages are for the owner of the target: they contain neither
// addresses of the network nor texts that the server has sent. The cause is for the log.
import { OutboundError } from './connect.ts'

export type PostReason =
  | 'bad_url'
  | 'blocked'
  | 'unresolved'
  | 'connect'
  | 'tls'
  | 'timeout'
  | 'answer_too_large'
  | 'closed'
  | 'protocol'
  | 'cancelled'

export class PostError extends Error {
  readonly reason: PostReason
  constructor(reason: PostReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'PostError'
    this.reason = reason
  }
}

export const timedOut = (timeoutMs: number) =>
  new PostError('timeout', `The request was not completed within ${timeoutMs} ms.`)

export const cancelled = () => new PostError('cancelled', 'The request was cancelled.')

export const answerTooLarge = (maxBytes: number) =>
  new PostError('answer_too_large', `The server sent more than ${maxBytes} bytes.`)

export const closedEarly = (cause?: unknown) =>
  new PostError('closed', 'The server closed the connection before its answer was complete.', cause)

export const notHttp = (cause: unknown) =>
  new PostError('protocol', 'The server did not send a valid HTTP/1.1 answer.', cause)

/** The code of OpenSSL or Node, such as CERT_HAS_EXPIRED, says what is wrong with the certificate. */
export function tlsFailed(cause: unknown): PostError {
  const code = codeOf(cause)
  return new PostError('tls', `The TLS handshake failed${code === '' ? '' : ` (${code})`}.`, cause)
}

/** For errors of the URL, the lookup and the connection attempt. Other errors are returned unchanged. */
export function fromOutbound(error: unknown): unknown {
  if (!(error instanceof OutboundError)) return error
  switch (error.reason) {
    case 'bad_url':
      return new PostError('bad_url', `${error.message}.`, error)
    case 'address_not_allowed':
      return new PostError(
        'blocked',
        'The host has an address that is not public. The operator can allow it with PLATFORM_OUTBOUND_ALLOW.',
        error,
      )
    case 'name_not_found':
      return new PostError('unresolved', 'The host name has no address.', error)
    default:
      return new PostError('connect', 'The server does not accept connections.', error)
  }
}

interface RequestState {
  maxBytes: number
  /** Whether the server has closed its side of the connection. */
  hasServerClosed: boolean
}

/** For errors of a connection while a request is running on it. */
export function fromConnection(error: unknown, { maxBytes, hasServerClosed }: RequestState): unknown {
  if (error instanceof PostError) return error
  const code = codeOf(error)
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return answerTooLarge(maxBytes)
  // A mistake of the caller, such as a line break in a header.
  if (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED') return error
  if (hasServerClosed || /^E[A-Z]+$/.test(code)) return closedEarly(error)
  // The client uses one code for a closed connection and for answers that it does not accept.
  if (code === 'UND_ERR_SOCKET' && !/^bad /.test((error as Error).message)) return closedEarly(error)
  return notHttp(error)
}

const codeOf = (error: unknown): string => {
  const code = error instanceof Error && 'code' in error ? error.code : ''
  return typeof code === 'string' ? code : ''
}
