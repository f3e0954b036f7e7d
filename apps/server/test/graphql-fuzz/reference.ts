// Answers documents from the rows that the caller sees over REST, without SQL.
import {
  base64,
  cursorOf,
  type Filter,
  type OrderTerm,
  type PageQuery,
  type RowQuery,
  type Scalar,
} from './document.ts'
import type { ColumnType, FuzzRow } from './world.ts'

export type VisibleRows = ReadonlyMap<string, readonly FuzzRow[]>

const maxRows = 30

export function pageAnswer(all: VisibleRows, page: PageQuery, within: (row: FuzzRow) => boolean): object {
  const matching = all
    .get(page.table)!
    .filter(row => within(row) && (!page.filter || holds(all, page.filter, row) === true))
    .toSorted((a, b) => compareRows(cursorOf(a, page.order), cursorOf(b, page.order), page.order))
  const place = (row: FuzzRow, cursor: readonly Scalar[]) =>
    compareRows(cursorOf(row, page.order), cursor, page.order)
  const candidates = matching
    .filter(row => !page.after || place(row, page.after) > 0)
    .filter(row => !page.before || place(row, page.before) < 0)
    .slice(page.offset ?? 0)
  const isBackward = page.last !== undefined || page.before !== undefined
  const limit = Math.min(page.first ?? page.last ?? maxRows, maxRows)
  const rows = isBackward
    ? candidates.slice(Math.max(0, candidates.length - limit))
    : candidates.slice(0, limit)
  const isCut = candidates.length > limit
  const others = matching.length - candidates.length > 0
  const cursor = (row: FuzzRow | undefined) => (row ? base64(cursorOf(row, page.order)) : null)
  const info: Record<string, boolean | string | null> = {
    hasNextPage: isBackward ? others : isCut,
    hasPreviousPage: isBackward ? isCut : others,
    startCursor: cursor(rows[0]),
    endCursor: cursor(rows.at(-1)),
  }
  return {
    ...(page.hasTypename && { __typename: `${page.table}Connection` }),
    ...(page.hasEdges && {
      edges: rows.map(row => ({
        ...(page.hasCursors && { cursor: cursor(row) }),
        node: rowAnswer(all, page.node, row),
      })),
    }),
    ...(page.hasTotal && { totalCount: matching.length }),
    ...(page.info.length > 0 && { pageInfo: Object.fromEntries(page.info.map(name => [name, info[name]])) }),
  }
}

function rowAnswer(all: VisibleRows, query: RowQuery, row: FuzzRow): object {
  const answer: Record<string, unknown> = {}
  for (const column of query.columns) answer[column] = row[column]
  for (const { link, row: inner } of query.ones) {
    const target = all
      .get(link.target)!
      .find(each => row[link.own] !== null && each[link.theirs] === row[link.own])
    answer[link.field] = target ? rowAnswer(all, inner, target) : null
  }
  for (const { link, page } of query.manies)
    answer[link.field] = pageAnswer(all, page, each => each[link.theirs] === row[link.own])
  return answer
}

/** Nulls where the order puts them, values by their type. */
function compareRows(a: readonly Scalar[], b: readonly Scalar[], order: readonly OrderTerm[]): number {
  for (const [index, left] of a.entries()) {
    const { isDescending = false, areNullsFirst = false } = order[index] ?? {}
    const right = b[index]!
    if (left === right) continue
    if (left === null) return areNullsFirst ? -1 : 1
    if (right === null) return areNullsFirst ? 1 : -1
    const difference = compareValues(left, right)
    if (difference !== 0) return isDescending ? -difference : difference
  }
  return 0
}

const isNumeric = (value: Scalar): boolean =>
  typeof value === 'number' || /^-?\d+(\.\d+)?$/.test(String(value))

function compareValues(a: Scalar, b: Scalar): number {
  const [left, right] = isNumeric(a) && isNumeric(b) ? [Number(a), Number(b)] : [a!, b!]
  return left < right ? -1 : left > right ? 1 : 0
}

/** True, false, or null for unknown, as in SQL. */
function holds(all: VisibleRows, filter: Filter, row: FuzzRow): boolean | null {
  switch (filter.kind) {
    case 'test':
      return tests(filter.operator, filter.type, row[filter.column]!, filter.value)
    case 'and':
      return both(filter.parts.map(part => holds(all, part, row)))
    case 'or':
      return negated(both(filter.parts.map(part => negated(holds(all, part, row)))))
    case 'not':
      return negated(holds(all, filter.part, row))
    case 'one':
    case 'many': {
      const { link, part } = filter
      const linked = all
        .get(link.target)!
        .filter(each => row[link.own] !== null && each[link.theirs] === row[link.own])
      if (filter.kind === 'one') return linked.some(each => holds(all, part, each) === true)
      if (filter.how === 'every') return !linked.some(each => holds(all, part, each) === false)
      return linked.some(each => holds(all, part, each) === true) === (filter.how === 'some')
    }
  }
}

const negated = (value: boolean | null): boolean | null => (value === null ? null : !value)
const both = (values: readonly (boolean | null)[]): boolean | null =>
  values.includes(false) ? false : values.includes(null) ? null : true

function tests(
  operator: string,
  type: ColumnType,
  value: Scalar,
  given: Scalar | readonly Scalar[],
): boolean | null {
  if (operator === 'is') return (value === null) === (given === 'NULL')
  if (operator === 'in' && (given as readonly Scalar[]).length === 0) return false
  if (value === null) return null
  const difference = (other: Scalar) =>
    type === 'text' ? (value < other! ? -1 : value > other! ? 1 : 0) : compareValues(value, other)
  switch (operator) {
    case 'in':
      return (given as readonly Scalar[]).some(each => difference(each) === 0)
    case 'startsWith':
      return String(value).startsWith(String(given))
  }
  const found = difference(given as Scalar)
  return {
    eq: found === 0,
    neq: found !== 0,
    lt: found < 0,
    lte: found <= 0,
    gt: found > 0,
    gte: found >= 0,
  }[operator]!
}
