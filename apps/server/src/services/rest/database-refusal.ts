// What an error of Postgres means to a caller of the row API: an HTTP status, and Postgres' own words.
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import { DatabaseError } from '#src/kernel/postgres/wire/database-error.ts'
import { refusals } from '#src/query/answer-sql.ts'

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

/** Anything else thrown goes up as it is. */
export function toldError(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) return error
  const { code, message } = error
  // With a number: our own, not one that a tenant's function has raised.
  const isOurs = /^\d+$/.test(message)
  if (isOurs && code === refusals.notOneRow) return notOneRow(message)
  if (isOurs && code === refusals.tooManyRows)
    return new Refusal('PGRST124', 'Query result exceeds max-affected preference constraint', {
      details: `The query affects ${message} rows`,
    })
  if (code === refusals.catalogMoved && message === '')
    return retryLater(
      'schema_changing',
      'The schema changes faster than requests can be planned; try again in a second',
      1,
    )
  if (code === 'PGRST') return raisedInFull(error)
  const chosen = /^PT(\d{3})$/.exec(code)?.[1]
  const status = chosen && Number(chosen) >= 200 && Number(chosen) < 600 ? Number(chosen) : statusOf(code)
  return new Refusal({ code, status }, message, {
    details: error.detail ?? '',
    hint: error.hint ?? '',
    // The text may quote a tenant's values, which are not for the log.
    cause: new Error(`the statement failed with SQLSTATE ${code}`),
  })
}

export const notOneRow = (count: number | string) =>
  new Refusal('PGRST116', 'Cannot coerce the result to a single JSON object', {
    details: `The result contains ${count} rows`,
  })

interface RaisedMessage {
  code?: string
  message?: string
  details?: string | null
  hint?: string | null
}
interface RaisedDetail {
  status?: number
  headers?: Record<string, string>
}

/** `raise sqlstate 'PGRST'`: the message is the body, the detail status and headers, both as JSON. */
function raisedInFull({ message, detail }: DatabaseError): Refusal {
  try {
    const body = JSON.parse(message) as RaisedMessage
    const { status, headers } = JSON.parse(detail ?? '') as RaisedDetail
    if (typeof body.code !== 'string' || typeof body.message !== 'string')
      throw new Error('no code, no message')
    if (!Number.isInteger(status) || status! < 200 || status! > 599) throw new Error('no status')
    return new Refusal({ code: body.code, status: status! }, body.message, {
      details: body.details ?? '',
      hint: body.hint ?? '',
      headers: textHeaders(headers ?? {}),
      cause: new Error('a function raised it'),
    })
  } catch {
    return new Refusal('PGRST121', 'Could not parse JSON in the "RAISE SQLSTATE \'PGRST\'" error', {
      details: 'MESSAGE must be a JSON object with code and message, DETAIL one with status and headers.',
    })
  }
}

const textHeaders = (headers: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers)
      .filter(([name, value]) => isHeader(name, String(value)))
      .map(([name, value]) => [name.toLowerCase(), String(value)]),
  )

/** How an answer is framed on the wire is no business of a function. */
const framing = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** What can be sent, and may be. */
export const isHeader = (name: string, value: string): boolean =>
  !framing.has(name.toLowerCase()) &&
  /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) &&
  !/[^\t\x20-\x7e\x80-\xff]/.test(value)
