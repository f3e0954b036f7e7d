// Checks of an answer: by itself, against the answer of the copy, and against the oracle.
import type { Case } from './cases.ts'
import { brokenGuard, type Change } from './changes.ts'
import { canariesNotFor } from './markers.ts'
import type { Refused, SqlResult } from './oracle.ts'
import { depthOf, embedsOf, hasAggregates, type Query, type Read } from './query.ts'
import type { Answer } from './send.ts'
import { describe, targetOf, type Wire } from './wire.ts'

/** SQL of the user can raise these codes. Every other 5xx is an error of the platform. */
const tolerated = /^(57014|40...|54...|PT5..)$/
const maxEmbedDepth = 5

interface ErrorBody {
  code: string
  message: string
}

/** Checks that apply to every answer. */
export function problemWith(wire: Wire, answer: Answer): string | undefined {
  const { status, text, headers } = answer
  const leaked = canariesNotFor(wire.who, text + JSON.stringify(headers), describe(wire))
  if (leaked.length > 0) return `shows ${wire.who} what it may not see: ${leaked[0]}`
  if (status >= 500 && !isTolerated(answer)) return 'an unexpected 5xx'
  if (status >= 300 && status < 400) return 'a redirect'
  if (status >= 400) return wire.method === 'HEAD' ? undefined : problemWithError(answer)
  if (headers['content-type']?.includes('json') && text !== '' && parsed(text) === undefined)
    return 'is called JSON and is none'
  return
}

/** Includes statement timeouts on a busy machine, after which rows cannot be compared. */
const isTolerated = (answer: Answer) => answer.status >= 500 && tolerated.test(errorIn(answer)?.code ?? '')

function problemWithError(answer: Answer): string | undefined {
  const body = errorIn(answer) as Record<string, unknown> | undefined
  if (!body) return `a ${answer.status} without a JSON body`
  for (const field of ['code', 'message', 'error', 'details', 'hint'])
    if (typeof body[field] !== 'string') return `an error whose ${field} is no text`
  if (body['code'] === '' || body['message'] === '') return 'an error with an empty code or message'
  if (body['statusCode'] !== answer.status) return 'an error whose statusCode is not its status'
  return
}

export function errorIn({ text }: Answer): Partial<ErrorBody> | undefined {
  if (!text.startsWith('{') || parsed(text) === undefined) return
  return JSON.parse(text)
}

/**
 * Two databases that differ only in data hidden from this caller must give byte-identical answers. Rows without a
 * requested order may differ in order, and a page of such rows may differ.
 */
export function differenceFromCopy(asked: Case, one: Answer, other: Answer): string | undefined {
  if (isTolerated(one) || isTolerated(other)) return
  const ranges = [one, other].map(({ headers }) => headers['content-range'])
  if (one.status !== other.status) return `depends on what is hidden: ${one.status} and ${other.status}`
  if (ranges[0] !== ranges[1]) return `Content-Range depends on what is hidden: ${ranges.join(' and ')}`
  if (one.text === other.text || mayDiffer(asked, one, other)) return
  return `the body depends on what is hidden: ${firstDifference(one.text, other.text)}`
}

function mayDiffer({ wire, read, isAttack }: Case, one: Answer, other: Answer): boolean {
  const isOrderOpen = read ? !isOrdered(read.query) : one.status < 300
  if (!isOrderOpen) return false
  return sorted(one) === sorted(other) || (!isAttack && isPaged(wire))
}

const isPaged = (wire: Wire) =>
  /limit|offset|range|object|csv/.test(JSON.stringify([targetOf(wire), wire.headers]))
const sorted = ({ text }: Answer) => canonical(parsed(text), false)

export function differenceFromSql(read: Read, answer: Answer, expected: SqlResult): string | undefined {
  if (isTolerated(answer)) return
  if (depthOf(read.query) > maxEmbedDepth) {
    const isRefused =
      answer.status === 400 && (read.method === 'HEAD' || errorIn(answer)?.code === 'PGRST204')
    return isRefused ? undefined : 'embeds deeper than 5 are not refused with PGRST204'
  }
  // A HEAD need not check that there is exactly one row.
  if (read.shape === 'object' && read.method === 'HEAD') return
  if ('code' in expected) return problemWithRefusal(read, answer, expected)
  const rows = JSON.parse(expected.body) as unknown[]
  if (read.shape === 'object' && rows.length !== 1) {
    if (answer.status === 406 && errorIn(answer)?.code === 'PGRST116') return
    return `${rows.length} rows for a single object and no 406 PGRST116`
  }
  if (answer.status !== 200 && answer.status !== 206) return `is refused; SQL answers ${rows.length} rows`
  return (
    problemWithRange(read, answer, rows.length, expected.total) ??
    problemWithRows(read, answer, expected.body)
  )
}

export function differenceOfChange(change: Change, answer: Answer, expected: SqlResult): string | undefined {
  // Concurrent changes of the same rows may conflict.
  if (isTolerated(answer)) return
  if ('code' in expected) return problemWithRefusal(change, answer, expected)
  const guard = brokenGuard(change, expected.total)
  if (guard) {
    const [status, code] = guard.is === 'single' ? [406, 'PGRST116'] : [400, 'PGRST124']
    const isRefused = answer.status === status && errorIn(answer)?.code === code
    return isRefused ? undefined : `changes ${expected.total} rows and is no ${status} ${code}`
  }
  if (answer.status !== 200 && answer.status !== 201) return `is refused; SQL changes ${expected.total} rows`
  const range = `*/${change.isCounted ? expected.total : '*'}`
  const given = answer.headers['content-range']
  if (given !== range) return `Content-Range is ${given}, not ${range}`
  const [one, other] = [parsed(answer.text), parsed(expected.body)].map(rows => canonical(rows, false))
  return one === other ? undefined : `the rows are others: ${firstDifference(one!, other!)}`
}

/** SQLSTATEs whose HTTP status clients rely on. */
const exactly: Readonly<Record<string, number>> = {
  '42501': 403,
  '23502': 400,
  '23503': 409,
  '23505': 409,
  '23514': 400,
}
const contended = /^(40|55P03)/

function problemWithRefusal({ method }: Pick<Read | Change, 'method'>, answer: Answer, expected: Refused) {
  if (contended.test(expected.code)) return
  // A HEAD does not return its embeds, so it needs no permission on them.
  if (answer.status < 400 && method === 'HEAD' && expected.code === '42501') return
  if (answer.status < 400) return `is answered; SQL refuses with ${expected.code}: ${expected.message}`
  const status = exactly[expected.code]
  if (status === undefined) return
  const isSame = answer.status === status && (method === 'HEAD' || errorIn(answer)?.code === expected.code)
  return isSame ? undefined : `is no ${status} with ${expected.code}: ${expected.message}`
}

function problemWithRange(read: Read, answer: Answer, rows: number, total: number): string | undefined {
  if (hasAggregates(read.query)) return
  const offset = read.query.offset ?? (read.query.limit === undefined ? read.range?.[0] : 0) ?? 0
  const isCounted = read.count !== undefined || read.method === 'HEAD'
  const expected = `${rows > 0 ? `${offset}-${offset + rows - 1}` : '*'}/${isCounted ? total : '*'}`
  const given = answer.headers['content-range']
  // For a HEAD only the total matters, not the range.
  const isRight = read.method === 'HEAD' ? given?.endsWith(`/${total}`) : given === expected
  return isRight ? undefined : `Content-Range is ${given}, not ${expected}`
}

function problemWithRows(read: Read, answer: Answer, body: string): string | undefined {
  if (read.method === 'HEAD') return answer.text === '' ? undefined : 'a HEAD with a body'
  const given = parsed(answer.text)
  if (given === undefined) return 'the body is no JSON'
  const expected = parsed(body)
  const keepsOrder = isOrdered(read.query)
  const one = canonical(given, keepsOrder)
  const other = canonical(read.shape === 'object' ? (expected as unknown[])[0] : expected, keepsOrder)
  return one === other ? undefined : `the rows are others: ${firstDifference(one, other)}`
}

/** Whether the order of all arrays in the answer is determined. */
const isOrdered = (query: Query): boolean =>
  query.order.length > 0 &&
  !hasAggregates(query) &&
  embedsOf(query).every(({ relation, query: inner }) =>
    relation.isMany ? isOrdered(inner) : ordersWithin(inner),
  )

const ordersWithin = (query: Query): boolean => isOrdered({ ...query, order: [{} as never] })

interface NumberSource {
  source?: string
}

/** Parses JSON and keeps numbers as text, because 64-bit integers do not fit into a JavaScript number. */
function parsed(text: string): unknown {
  try {
    const keepNumbers = (_key: string, value: unknown, context?: NumberSource) =>
      typeof value === 'number' ? { number: context?.source } : value
    return JSON.parse(text, keepNumbers as (key: string, value: unknown) => unknown)
  } catch {
    return
  }
}

function canonical(value: unknown, keepsOrder: boolean): string {
  if (Array.isArray(value)) {
    const all = value.map(each => canonical(each, keepsOrder))
    return `[${(keepsOrder ? all : all.sort()).join(',')}]`
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).map(
    ([key, each]) => `${JSON.stringify(key)}:${canonical(each, keepsOrder)}`,
  )
  return `{${entries.sort().join(',')}}`
}

function firstDifference(one: string, other: string): string {
  let at = 0
  while (at < one.length && one[at] === other[at]) at++
  const from = Math.max(0, at - 40)
  return `…${one.slice(from, at + 80)}… and not …${other.slice(from, at + 80)}…`
}
