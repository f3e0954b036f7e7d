import { type ErrorCode, errorCodes } from '@plinth/contract/errors.ts'

interface RefusalExtras {
  hint?: string
  details?: string
  headers?: Record<string, string>
  /** Further fields of the error, for the management API. */
  fields?: Readonly<Record<string, unknown>>
  /** For the log, never for the answer. */
  cause?: unknown
  /** The failure is that of a project's own code, so the log of the platform does not have it, whatever its status. */
  isOfProject?: boolean
}

/** A code that is not in the contract, with its HTTP status: an SQLSTATE, or a code that a tenant's SQL raised. */
export interface PassedOn {
  code: string
  status: number
}

/** An error for the client. The plane formats its body. Every other error becomes a 500. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string
  readonly details: string
  readonly headers: Record<string, string>
  readonly fields: Readonly<Record<string, unknown>>
  readonly isOfProject: boolean
  constructor(code: ErrorCode | PassedOn, message: string, extras: RefusalExtras = {}) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause })
    this.name = 'Refusal'
    const known = typeof code === 'string' ? { code, status: errorCodes[code].status } : code
    this.code = known.code
    this.status = known.status
    this.hint = extras.hint ?? ''
    this.details = extras.details ?? ''
    this.headers = extras.headers ?? {}
    this.fields = extras.fields ?? {}
    this.isOfProject = extras.isOfProject ?? false
  }
}

export const unauthorized = (message: string) =>
  new Refusal('unauthorized', message, {
    headers: { 'www-authenticate': 'Bearer' },
  })

export const retryLater = (code: ErrorCode, message: string, seconds: number, hint = '') =>
  new Refusal(code, message, { hint, headers: { 'retry-after': String(seconds) } })
