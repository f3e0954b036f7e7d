// What a caller asks of the log of a project, from the query to a function that selects entries.
import type { LogEntry, LogsQuery } from '@plinth/contract/logs.ts'
import { Refusal } from '#src/kernel/errors.ts'

export interface EntryFilter {
  readonly hasAccess: boolean
  readonly hasFunctions: boolean
  /** In milliseconds since 1970. */
  readonly from: number | undefined
  readonly to: number | undefined
  matches(entry: LogEntry): boolean
}

type Condition = (entry: LogEntry) => boolean

export function filterOf(query: LogsQuery): EntryFilter {
  const { source = 'all', status, route, request_id: requestId, text } = query
  const from = query.from === undefined ? undefined : Date.parse(query.from)
  const to = query.to === undefined ? undefined : Date.parse(query.to)
  if (from !== undefined && to !== undefined && from >= to)
    throw new Refusal('invalid_request', '"from" must be earlier than "to"')
  const conditions: Condition[] = []
  if (status !== undefined) conditions.push(hasStatus(status))
  if (route !== undefined) conditions.push(entry => entry.route?.includes(route) === true)
  if (requestId !== undefined) conditions.push(entry => entry.request_id === requestId)
  if (from !== undefined) conditions.push(({ timestamp }) => Date.parse(timestamp) >= from)
  if (to !== undefined) conditions.push(({ timestamp }) => Date.parse(timestamp) < to)
  if (text !== undefined) conditions.push(contains(text))
  return {
    hasAccess: source !== 'function',
    // Lines of functions have no route.
    hasFunctions: source !== 'access' && route === undefined,
    from,
    to,
    matches: entry => conditions.every(condition => condition(entry)),
  }
}

/** `404`, or a class like `4xx`. */
function hasStatus(wanted: string): Condition {
  if (!wanted.endsWith('xx')) return ({ status }) => status === Number(wanted)
  const first = Number(wanted[0])
  return ({ status }) => status !== null && Math.floor(status / 100) === first
}

function contains(text: string): Condition {
  const wanted = text.toLowerCase()
  return entry =>
    [entry.message, entry.route, entry.function].some(value => value?.toLowerCase().includes(wanted) === true)
}
