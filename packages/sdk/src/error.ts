import type { ErrorCode } from './wire.ts'

/**
 * What went wrong: a code of the platform, or one of the client's own for what never became an answer.
 * - `network_error`: the platform cannot be reached, or the connection broke before the answer was complete.
 * - `request_aborted`: the `signal` of the call ended it.
 * - `unexpected_answer`: the answer is not one of Plinth; look for a proxy in between.
 * - `invalid_argument`: the call cannot be put into a request; nothing was sent.
 */
export type PlinthErrorCode =
  | ErrorCode
  | 'network_error'
  | 'request_aborted'
  | 'unexpected_answer'
  | 'invalid_argument'
  // A newer platform may know more; known codes are still proposed.
  | (string & {})

interface Facts {
  code: PlinthErrorCode
  status?: number
  hint?: string
  details?: string
  requestId?: string | null
  cause?: unknown
}

/** Why a call of `cache`, `queues` or `cron` failed. It comes as `error` beside `data: null` and is not thrown. */
export class PlinthError extends Error {
  /** What to branch on. */
  readonly code: PlinthErrorCode
  /** The HTTP status; 0 when there was no answer. */
  readonly status: number
  /** What to do about it, when the platform knows; else empty. */
  readonly hint: string
  /** More about what was wrong; may be empty. */
  readonly details: string
  /** Leads to the request in the platform's log; null when there was no answer. */
  readonly requestId: string | null

  constructor(
    message: string,
    { code, status = 0, hint = '', details = '', requestId = null, cause }: Facts,
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'PlinthError'
    this.code = code
    this.status = status
    this.hint = hint
    this.details = details
    this.requestId = requestId
  }

  toJSON(): { name: string; message: string; code: string; status: number; hint: string; details: string } {
    const { name, message, code, status, hint, details } = this
    return { name, message, code, status, hint, details }
  }
}
