// Translates Postgres errors for data-plane callers: an HTTP status and the message of Postgres.
import { Refusal } from '#src/kernel/errors.ts'
import type { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { endsSession } from '#src/kernel/postgres/error-origin.ts'
import { unavailable } from '#src/kernel/postgres/unavailable.ts'

type Statuses = readonly (readonly [prefix: string, status: number])[]

/** SQLSTATE codes first, then classes. Any other error of a tenant's SQL is 400. */
const ownStatuses: Statuses = [
  ['23503', 409],
  ['23505', 409],
  ['25006', 405],
  ['42883', 404],
  ['42P01', 404],
  ['42501', 403],
  ['55P03', 409],
  ['55006', 409],
  ['0L', 403],
  ['0P', 403],
  ['28', 403],
  ['40', 409],
]

/** Additional statuses that the row API documents. */
const callerStatuses: Statuses = [
  ['57014', 500],
  ['57P01', 503],
  ['53400', 400],
  ['08', 503],
  ['53', 503],
  ['40', 500],
  ['54', 500],
  ...ownStatuses,
]

const statusIn = (statuses: Statuses, code: string): number =>
  statuses.find(([prefix]) => code.startsWith(prefix))?.[1] ?? 400

/** For callers of the row API. */
export const refusalFromSql = (
  error: DatabaseError,
  status = statusIn(callerStatuses, error.code),
): Refusal => refusal(error, status)

/**
 * For callers that run a project's own SQL. Always a 4xx, because the platform is not at fault, unless the server ended the
 * session.
 */
export function refusalFromOwnSql(error: DatabaseError): Refusal {
  if (endsSession(error)) return unavailable(error)
  const chosen = /^PT(4\d\d)$/.exec(error.code)?.[1]
  return refusal(error, chosen ? Number(chosen) : statusIn(ownStatuses, error.code))
}

/**
 * For requests that run a trigger, check or policy of the project on a platform table. Also a 4xx. Without a Postgres
 * context, the server itself lacks space, memory or connections.
 */
export const refusalFromTenantCode = (error: DatabaseError): Refusal =>
  error.code.startsWith('53') && !error.where ? refusalFromSql(error) : refusalFromOwnSql(error)

const refusal = ({ code, message, detail, hint }: DatabaseError, status: number): Refusal =>
  new Refusal({ code, status }, message, {
    details: detail ?? '',
    hint: hint ?? '',
    // The message may contain tenant data, which must not be logged.
    cause: new Error(`the statement failed with SQLSTATE ${code}`),
  })
