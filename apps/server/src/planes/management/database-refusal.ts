// What Postgres says to a statement of a project's owner, told to whoever sent it: its own sentence, where in the
// statement it points, its detail and hint, under a code and status of ours. Nothing of it is for the log.
import type { ErrorCode } from '@plinth/contract/errors.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { endsSession, isServerError, type ServerError } from '#src/kernel/postgres/error-text.ts'
import { unavailable } from '#src/kernel/postgres/unavailable.ts'

export interface SqlComplaint {
  sqlState: string
  message: string
  detail: string
  hint: string
  /** Where a function was when it happened. */
  context: string
  /** Line of the statement, counted from 1, and its text; absent when Postgres points nowhere. */
  line: number | undefined
  lineText: string
}

/** Undefined when it is not Postgres that complains about a statement. */
export function sqlComplaint(error: unknown, statement = ''): SqlComplaint | undefined {
  if (!isServerError(error) || endsSession(error)) return
  return {
    sqlState: error.code,
    message: error.message,
    detail: error.detail ?? '',
    hint: error.hint ?? '',
    context: error.where ?? '',
    ...placeIn(statement, Number(error.position)),
  }
}

/** Postgres counts characters, JavaScript counts halves of some of them. */
function placeIn(statement: string, position: number): Pick<SqlComplaint, 'line' | 'lineText'> {
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

/** Always a Refusal: what was one already stays, and what is not Postgres' complaint becomes a 500 or 503. */
export function refusalFromOwnerSql(error: unknown, statement = ''): Refusal {
  if (error instanceof Refusal) return error
  const complaint = sqlComplaint(error, statement)
  if (!complaint) return isServerError(error) ? unavailable(error) : unforeseen(error)
  const code = codeOf(error as ServerError)
  const hint = complaint.hint || (ownHints[complaint.sqlState] ?? '')
  return new Refusal(code, sentence(complaint, hint), { hint, details: complaint.detail })
}

const unforeseen = (cause: unknown) =>
  new Refusal(
    'internal_error',
    'Something went wrong on our side; the request id leads to its trace in the log',
    { cause },
  )

function sentence({ message, sqlState, line, lineText, detail }: SqlComplaint, hint: string): string {
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

function codeOf({ code: sqlState, schema, message }: ServerError): ErrorCode {
  // Two sessions that create the same thing at once: one of them meets the other in the catalogue.
  if (sqlState === '23505' && schema === 'pg_catalog') return 'already_exists'
  // "tuple concurrently updated": two sessions changed one object at once.
  if (sqlState === 'XX000' && message.includes('concurrently')) return 'object_busy'
  return exact[sqlState] ?? (sqlState.startsWith('23') ? 'constraint_violated' : 'sql_error')
}

/** Where Postgres has no hint of its own. */
const ownHints: Record<string, string> = {
  '23502': 'Rows that are there already have no value for it: give a default, or let it be null',
  '23514': 'Rows that are there already do not fulfil it',
  '42501': 'Statements run as the owner of the project, who is no superuser',
  '55P03': 'Another session holds it; try again in a moment',
  '57014': 'It took longer than this route allows; nothing was changed',
}
