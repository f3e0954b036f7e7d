/** An ErrorResponse of the server. Its text may quote tenants' values: for the caller, never for the log. */
export class DatabaseError extends Error {
  readonly code: string
  readonly severity: string
  readonly detail: string | undefined
  readonly hint: string | undefined
  readonly routine: string | undefined
  readonly schema: string | undefined
  readonly table: string | undefined
  readonly column: string | undefined
  readonly constraint: string | undefined
  constructor(fields: Record<string, string>) {
    super(fields['M'] ?? 'database error')
    this.name = 'DatabaseError'
    this.code = fields['C'] ?? 'XX000'
    this.severity = fields['V'] ?? 'ERROR'
    this.detail = fields['D']
    this.hint = fields['H']
    this.routine = fields['R']
    this.schema = fields['s']
    this.table = fields['t']
    this.column = fields['c']
    this.constraint = fields['n']
  }
}

/** The other driver's error, if it is one of the server. */
export function fromDriver(error: unknown): DatabaseError | undefined {
  const { code, severity, message, detail, hint } = error as DriverError
  if (!(error instanceof Error) || typeof severity !== 'string' || typeof code !== 'string') return
  const told = { C: code, V: severity, M: message, ...(detail && { D: detail }), ...(hint && { H: hint }) }
  return new DatabaseError(told)
}

interface DriverError extends Error {
  code?: string
  severity?: string
  detail?: string
  hint?: string
}

/** From a body that may have been cut, in the middle of its last field. */
export function errorFrom(bytes: Buffer, start: number, end: number): DatabaseError {
  const fields: Record<string, string> = {}
  const last = Math.min(end, bytes.length)
  let at = start
  while (at < last && bytes[at] !== 0) {
    const found = bytes.indexOf(0, at + 1)
    const stop = found < 0 || found > last ? last : found
    fields[String.fromCharCode(bytes[at]!)] = bytes.toString('utf8', at + 1, stop)
    at = stop + 1
  }
  return new DatabaseError(fields)
}

/** The connection went away. `unsent` units had not reached the server and may be sent elsewhere. */
export class ConnectionLost extends Error {
  readonly unsent: boolean
  constructor(unsent: boolean, cause?: unknown) {
    super('the database connection was lost', { cause })
    this.name = 'ConnectionLost'
    this.unsent = unsent
  }
}
