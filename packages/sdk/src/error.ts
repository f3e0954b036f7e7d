import type { ErrorCode } from './wire.ts'

/**
 * The error code: one of the platform, or one of the client if there was no answer.
 * - `network_error`: the platform cannot be reached, or the connection broke before the answer was complete.
 * - `request_aborted`: the `signal` of the call aborted it.
 * - `unexpected_answer`: the answer does not come from Plinth; check for a proxy in between.
 * - `invalid_argument`: an argument is invalid; nothing was sent.
 */
export type PlinthErrorCode =
  | ErrorCode
  | 'network_error'
  | 'request_aborted'
  | 'unexpected_answer'
  | 'invalid_argument'
  // A newer platform may have more codes. This form keeps the completion of known codes.
  | (string & {})

interface ErrorFields {
  code: PlinthErrorCode
  status?: number
  hint?: string
  details?: string
  requestId?: string | null
  cause?: unknown
}

/** The error of a call of `cache`, `queues` or `cron`. It is returned as `error` with `data: null` and is not thrown. */
export class PlinthError extends Error {
  /** The code to branch on. */
  readonly code: PlinthErrorCode
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number
  /** The next step, if known; else empty. */
  readonly hint: string
  /** More details; may be empty. */
  readonly details: string
  /** Identifies the request in the platform's log; null if there was no answer. */
  readonly requestId: string | null

  constructor(
    message: string,
    { code, status = 0, hint = '', details = '', requestId = null, cause }: ErrorFields,
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
