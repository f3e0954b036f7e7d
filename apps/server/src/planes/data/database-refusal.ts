// What an error of Postgres means to a caller of the data plane: an HTTP status, and Postgres' own words.
import { Refusal } from '#src/kernel/errors.ts'
import type { DatabaseError } from '#src/kernel/postgres/wire/database-error.ts'

/** Longest first: a whole code, or the class it belongs to. Whatever is not here is the caller's mistake. */
const statuses: readonly (readonly [prefix: string, status: number])[] = [
  ['23503', 409],
  ['23505', 409],
  ['25006', 405],
  ['25P01', 400],
  ['25P02', 400],
  ['42883', 404],
  ['42P01', 404],
  ['42501', 403],
  ['42P17', 500],
  ['53400', 500],
  ['P0001', 400],
  // A view that cannot be written to, a sequence not yet used: what was asked is not possible.
  ['55000', 400],
  ['57P01', 503],
  ['08', 503],
  ['53', 503],
  ['0L', 403],
  ['0P', 403],
  ['28', 403],
  ['09', 500],
  ['25', 500],
  ['2D', 500],
  ['38', 500],
  ['39', 500],
  ['3B', 500],
  ['40', 500],
  ['54', 500],
  ['55', 500],
  ['57', 500],
  ['58', 500],
  ['F0', 500],
  ['HV', 500],
  ['P0', 500],
  ['XX', 500],
]

const statusOf = (code: string): number => statuses.find(([prefix]) => code.startsWith(prefix))?.[1] ?? 400

export const refusalFromSql = (
  { code, message, detail, hint }: DatabaseError,
  status = statusOf(code),
): Refusal =>
  new Refusal({ code, status }, message, {
    details: detail ?? '',
    hint: hint ?? '',
    // The text may quote a tenant's values, which are not for the log.
    cause: new Error(`the statement failed with SQLSTATE ${code}`),
  })
