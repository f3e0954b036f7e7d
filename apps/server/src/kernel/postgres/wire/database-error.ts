import { passableText } from '#src/kernel/postgres/error-text.ts'

/** An ErrorResponse of the server. Its text may quote tenants' values: for the caller, never for the log. */
export class DatabaseError extends Error {
  readonly code: string
  readonly severity: string
  readonly detail: string | undefined
  readonly hint: string | undefined
  /** Where a function was when it happened. */
  readonly where: string | undefined
  readonly routine: string | undefined
  readonly schema: string | undefined
  readonly table: string | undefined
  readonly column: string | undefined
  readonly constraint: string | undefined
  constructor(fields: Record<string, string>) {
    const { C: code = 'XX000', R: routine } = fields
    const passable = <T extends string | undefined>(text: T) => passableText(text, code, routine)
    super(passable(fields['M'] ?? 'database error'))
    this.name = 'DatabaseError'
    this.code = code
    this.severity = fields['V'] ?? 'ERROR'
    this.detail = passable(fields['D'])
    this.hint = passable(fields['H'])
    this.where = passable(fields['W'])
    this.routine = routine
    this.schema = fields['s']
    this.table = fields['t']
    this.column = fields['c']
    this.constraint = fields['n']
  }
}

/** The other driver's error, if it is one of the server. */
export function fromDriver(error: unknown): DatabaseError | undefined {
  const { code, severity, message, detail, hint, where, routine } = error as DriverError
  if (!(error instanceof Error) || typeof severity !== 'string' || typeof code !== 'string') return
  return new DatabaseError({
    C: code,
    V: severity,
    M: message,
    ...(detail && { D: detail }),
    ...(hint && { H: hint }),
    ...(where && { W: where }),
    ...(routine && { R: routine }),
  })
}

interface DriverError extends Error {
  code?: string
  severity?: string
  detail?: string
  hint?: string
  where?: string
  routine?: string
}

/** Bytes of a field that are decoded: more than is passed on of it. */
const maxField = 512 * 1024

/** From a body that may have been cut, in the middle of its last field. */
export function errorFrom(bytes: Buffer, start: number, end: number): DatabaseError {
  const fields: Record<string, string> = {}
  const last = Math.min(end, bytes.length)
  let at = start
  while (at < last && bytes[at] !== 0) {
    const found = bytes.indexOf(0, at + 1)
    const stop = found < 0 || found > last ? last : found
    fields[String.fromCharCode(bytes[at]!)] = bytes.toString('utf8', at + 1, Math.min(stop, at + maxField))
    at = stop + 1
  }
  return new DatabaseError(fields)
}

/**
 * The server did not end a statement at its timeout, because it runs code that it cannot interrupt. To the caller this is
 * a statement timeout, but the statement is never sent again: it may still be carried out.
 */
export class GivenUp extends DatabaseError {
  constructor() {
    super({
      C: '57014',
      M: 'canceling statement due to statement timeout',
      D: 'The server cannot interrupt the statement. Its session is being ended; whether its changes are kept is not known.',
    })
    this.name = 'GivenUp'
  }
}

/** The connection went away. `unsent` units had not reached the server and may be sent elsewhere. */
export class ConnectionLost extends Error {
  readonly unsent: boolean
  constructor(unsent: boolean, cause?: unknown) {
    super('the database connection was lost', { cause })
    this.name = 'ConnectionLost'
    this.unsent = unsent
  }

  /** Another unit on the same connection was given up, and this one had not been answered. */
  get isBehindGivenUp(): boolean {
    return this.cause instanceof GivenUp
  }
}
