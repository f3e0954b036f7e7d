import { type ErrorCode, errorCodes } from '@plinth/contract/errors.ts'

interface RefusalExtras {
  hint?: string
  details?: string
  headers?: Record<string, string>
  /** For the log, never for the answer. */
  cause?: unknown
}

/** A code that is not ours, passed on with the status it has here: an SQLSTATE, or what a tenant's SQL raised. */
export interface PassedOn {
  code: string
  status: number
}

/** The only error thrown on purpose; the plane decides how its body reads. Anything else becomes a 500. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string
  readonly details: string
  readonly headers: Record<string, string>
  constructor(code: ErrorCode | PassedOn, message: string, extras: RefusalExtras = {}) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause })
    this.name = 'Refusal'
    const told = typeof code === 'string' ? { code, status: errorCodes[code].status } : code
    this.code = told.code
    this.status = told.status
    this.hint = extras.hint ?? ''
    this.details = extras.details ?? ''
    this.headers = extras.headers ?? {}
  }
}

export const unauthorized = () =>
  new Refusal('unauthorized', 'Missing or invalid credential', {
    headers: { 'www-authenticate': 'Bearer' },
  })

export const retryLater = (code: ErrorCode, message: string, seconds: number) =>
  new Refusal(code, message, { headers: { 'retry-after': String(seconds) } })
