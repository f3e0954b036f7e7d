// What an error of Postgres means to a caller of the row API, where functions may choose status and words themselves.
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import { DatabaseError } from '#src/kernel/postgres/wire/database-error.ts'
import { refusalFromSql } from '#src/planes/data/database-refusal.ts'
import { refusals } from '#src/query/answer-sql.ts'

/** Anything else thrown goes up as it is. */
export function toldError(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) return error
  const { code, message } = error
  // With a number: our own, not one that a tenant's function has raised.
  const isOurs = /^\d{1,20}$/.test(message)
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
  return chosen && Number(chosen) >= 200 && Number(chosen) < 600
    ? refusalFromSql(error, Number(chosen))
    : refusalFromSql(error)
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

const longestRaised = 100_000

/** `raise sqlstate 'PGRST'`: the message is the body, the detail status and headers, both as JSON. */
function raisedInFull({ message, detail }: DatabaseError): Refusal {
  try {
    if (message.length + (detail ?? '').length > longestRaised) throw new Error('too long')
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
