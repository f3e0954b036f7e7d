// What an error of Postgres means to a caller of the data plane: an HTTP status, and Postgres' own words.
import { Refusal } from '#src/kernel/errors.ts'
import { endsSession } from '#src/kernel/postgres/error-text.ts'
import { unavailable } from '#src/kernel/postgres/unavailable.ts'
import type { DatabaseError } from '#src/kernel/postgres/wire/database-error.ts'

type Statuses = readonly (readonly [prefix: string, status: number])[]

/** Longest first: a whole code, or the class it belongs to. Everything else that a tenant's SQL can raise is 400. */
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

/** What the row API documents besides, for callers of a tenant's tables and functions. */
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

/** To a caller of the row API. */
export const refusalFromSql = (
  error: DatabaseError,
  status = statusIn(callerStatuses, error.code),
): Refusal => refusal(error, status)

/**
 * To whoever runs a project's own SQL: always a 4xx, since nothing is wrong with the platform, unless the server has
 * ended the session.
 */
export function refusalFromOwnSql(error: DatabaseError): Refusal {
  if (endsSession(error)) return unavailable(error)
  const chosen = /^PT(4\d\d)$/.exec(error.code)?.[1]
  return refusal(error, chosen ? Number(chosen) : statusIn(ownStatuses, error.code))
}

/**
 * To a caller whose request runs a trigger, check or policy that the project has put on a table of the platform: a 4xx,
 * too. Without a context, it is the server that lacks space, memory or connections.
 */
export const refusalFromTenantCode = (error: DatabaseError): Refusal =>
  error.code.startsWith('53') && !error.where ? refusalFromSql(error) : refusalFromOwnSql(error)

const refusal = ({ code, message, detail, hint }: DatabaseError, status: number): Refusal =>
  new Refusal({ code, status }, message, {
    details: detail ?? '',
    hint: hint ?? '',
    // The text may quote a tenant's values, which are not for the log.
    cause: new Error(`the statement failed with SQLSTATE ${code}`),
  })
