// The errors of both clients, `pg` and the pipelined wire. Each ErrorResponse of the server becomes a DatabaseError.
import { sanitizeErrorText } from './error-text.ts'

/** The fields of an ErrorResponse that the platform uses, by their names in the documentation of Postgres. */
export interface ErrorFields {
  code: string
  message: string
  /** ERROR by default. */
  severity?: string | undefined
  detail?: string | undefined
  hint?: string | undefined
  /** In characters of the statement, from 1. */
  position?: number | undefined
  /** The context: the functions in which it happened, innermost first. */
  where?: string | undefined
  schema?: string | undefined
  table?: string | undefined
  column?: string | undefined
  constraint?: string | undefined
  /** The function in the source code of Postgres. */
  routine?: string | undefined
}

/** An ErrorResponse of the server. Its texts may quote values of tenants, so they are never logged. */
export class DatabaseError extends Error {
  readonly code: string
  readonly severity: string
  readonly detail: string | undefined
  readonly hint: string | undefined
  readonly position: number | undefined
  readonly where: string | undefined
  readonly schema: string | undefined
  readonly table: string | undefined
  readonly column: string | undefined
  readonly constraint: string | undefined
  readonly routine: string | undefined
  /** The statement had begun to run. Before, while it was parsed and planned, it had no effects. */
  isWhileRunning = false
  /** Another statement of the request had run in the same transaction. */
  isAfterOthers = false
  constructor(fields: ErrorFields) {
    const { code, routine } = fields
    const sanitize = <T extends string | undefined>(text: T) => sanitizeErrorText(text, code, routine)
    super(sanitize(fields.message))
    this.name = 'DatabaseError'
    this.code = code
    this.severity = fields.severity ?? 'ERROR'
    this.detail = sanitize(fields.detail)
    this.hint = sanitize(fields.hint)
    this.position = fields.position
    this.where = sanitize(fields.where)
    this.schema = fields.schema
    this.table = fields.table
    this.column = fields.column
    this.constraint = fields.constraint
    this.routine = routine
  }
}

/** The SQLSTATE of an error from the server. Undefined for any other error. */
export const sqlState = (error: unknown): string | undefined =>
  error instanceof DatabaseError ? error.code : undefined

/**
 * The server did not end a statement at its timeout, because it runs code that it cannot interrupt. The caller gets a
 * statement timeout. The statement is never sent again, because it may still complete.
 */
export class AbandonedStatement extends DatabaseError {
  constructor() {
    super({
      code: '57014',
      message: 'canceling statement due to statement timeout',
      detail:
        'The server cannot interrupt the statement. Its session is being ended; whether its changes are kept is not known.',
    })
    this.name = 'AbandonedStatement'
  }
}

/** The connection was lost. An `unsent` unit did not reach the server and may be sent on another connection. */
export class ConnectionLost extends Error {
  readonly unsent: boolean
  constructor(unsent: boolean, cause?: unknown) {
    super('the database connection was lost', { cause })
    this.name = 'ConnectionLost'
    this.unsent = unsent
  }

  /** The connection was closed because an earlier unit on it was abandoned. */
  get isBehindAbandoned(): boolean {
    return this.cause instanceof AbandonedStatement
  }
}
