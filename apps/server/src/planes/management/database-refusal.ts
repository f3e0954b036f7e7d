// Reports a Postgres error to the sender of the owner's SQL: its message, position, detail and hint, with a code and status
// of the platform. It may contain tenant data, so it is not logged.
import type { ErrorCode } from '@plinth/contract/errors.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { endsSession } from '#src/kernel/postgres/error-origin.ts'
import { unavailable } from '#src/kernel/postgres/unavailable.ts'

export interface SqlErrorDetails {
  sqlState: string
  message: string
  detail: string
  hint: string
  /** The Postgres context, for errors inside functions. */
  context: string
  /** The line of the statement, counted from 1, and its text. Absent if Postgres reports no position. */
  line: number | undefined
  lineText: string
}

/** Undefined if the error is not a Postgres error about a statement. */
export function sqlErrorDetails(error: unknown, statement = ''): SqlErrorDetails | undefined {
  if (!(error instanceof DatabaseError) || endsSession(error)) return
  return {
    sqlState: error.code,
    message: error.message,
    detail: error.detail ?? '',
    hint: error.hint ?? '',
    context: error.where ?? '',
    ...placeIn(statement, error.position ?? 0),
  }
}

/** Postgres counts code points, JavaScript counts UTF-16 units. */
function placeIn(statement: string, position: number): Pick<SqlErrorDetails, 'line' | 'lineText'> {
  if (statement === '' || !(position > 0)) return { line: undefined, lineText: '' }
  let line = 1
  let lineStart = 0
  for (let at = 0, left = position - 1; left > 0 && at < statement.length; at++, left--) {
    const code = statement.charCodeAt(at)
    if (code >= 0xd800 && code < 0xdc00) at++
    if (code !== 0x0a) continue
    line++
    lineStart = at + 1
  }
  const lineEnd = statement.indexOf('\n', lineStart)
  const text = statement.slice(lineStart, lineEnd < 0 ? undefined : lineEnd)
  return { line, lineText: text.trim() }
}

/** Always returns a Refusal. An error that is not about the statement becomes a 500 or 503. */
export function refusalFromOwnerSql(error: unknown, statement = ''): Refusal {
  if (error instanceof Refusal) return error
  if (!(error instanceof DatabaseError)) return unforeseen(error)
  const sqlError = sqlErrorDetails(error, statement)
  if (!sqlError) return unavailable(error)
  const code = codeOf(error)
  const hint = sqlError.hint || (ownHints[sqlError.sqlState] ?? '')
  return new Refusal(code, sentence(sqlError, hint), { hint, details: sqlError.detail })
}

const unforeseen = (cause: unknown) =>
  new Refusal(
    'internal_error',
    'Something went wrong on our side; the request id leads to its trace in the log',
    { cause },
  )

function sentence({ message, sqlState, line, lineText, detail }: SqlErrorDetails, hint: string): string {
  const place = line === undefined ? '' : `, at line ${line}: ${shortened(lineText)}`
  const more = [detail, hint].filter(Boolean).map(each => ` ${ended(each)}`)
  return `${message} (SQLSTATE ${sqlState})${place}${more.length > 0 ? `.${more.join('')}` : ''}`
}

const shortened = (text: string) => (text.length > 200 ? `${text.slice(0, 200)}…` : text)
const ended = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`)

const exact: Record<string, ErrorCode> = {
  '42P07': 'already_exists', // relation
  '42701': 'already_exists', // column
  '42710': 'already_exists', // policy, constraint, type, …
  '42723': 'already_exists', // function
  '42P06': 'already_exists', // schema
  '2BP01': 'has_dependants',
  '42501': 'sql_not_permitted',
  '55P03': 'object_busy',
  '55006': 'object_busy',
  '40P01': 'object_busy',
  '40001': 'object_busy',
  '57014': 'sql_timeout',
}

function codeOf({ code: sqlState, schema, message }: DatabaseError): ErrorCode {
  // Two sessions create the same object at once, and one gets a unique violation in the catalogue.
  if (sqlState === '23505' && schema === 'pg_catalog') return 'already_exists'
  // "tuple concurrently updated": two sessions changed one object at once.
  if (sqlState === 'XX000' && message.includes('concurrently')) return 'object_busy'
  return exact[sqlState] ?? (sqlState.startsWith('23') ? 'constraint_violated' : 'sql_error')
}

/** Used if Postgres sends no hint. */
const ownHints: Record<string, string> = {
  '23502': 'Rows that are there already have no value for it: give a default, or let it be null',
  '23514': 'Rows that are there already do not fulfil it',
  '42501': 'Statements run as the owner of the project, who is no superuser',
  '55P03': 'Another session holds it; try again in a moment',
  '57014': 'It took longer than this route allows; nothing was changed',
}
