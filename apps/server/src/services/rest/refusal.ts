// The errors of Postgres as answers of the row API. Functions may choose the status and the body of theirs.
import { Refusal } from '#src/kernel/errors.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { refusalFromSql } from '#src/planes/data/database-refusal.ts'
import { QueryError } from '#src/query/problem.ts'
import { refusalFromProblem } from './problem-refusal.ts'

/** Throws the refusal that an error of `run` means to a client. Other errors are thrown as they are. */
export function throwRefusal(error: unknown): never {
  if (error instanceof QueryError) throw refusalFromProblem(error.problem)
  throw error instanceof DatabaseError ? refusalFromDatabase(error) : error
}

function refusalFromDatabase(error: DatabaseError): Refusal {
  const { code } = error
  if (code === 'PGRST') return raisedInFull(error)
  const chosen = /^PT(\d{3})$/.exec(code)?.[1]
  return chosen && Number(chosen) >= 200 && Number(chosen) < 600
    ? refusalFromSql(error, Number(chosen))
    : refusalFromSql(error)
}

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

/** For `raise sqlstate 'PGRST'`, where the message is the body, and the detail the status and headers, as JSON. */
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

/** Headers that frame an answer on the wire. A function must not set them. */
const framing = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Whether a function may set the header, and its characters can be sent. */
export const isHeader = (name: string, value: string): boolean =>
  !framing.has(name.toLowerCase()) &&
  /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) &&
  !/[^\t\x20-\x7e\x80-\xff]/.test(value)
