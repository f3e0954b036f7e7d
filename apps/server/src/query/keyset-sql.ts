// Conditions on rows that come after or before a given row in an order, and the cursor that keeps the values of a row.

import { orderValueSql } from './level-sql.ts'
import type { PageOrder } from './objects.ts'
import type { Writer } from './writer.ts'

/** Rows strictly after (or before) the row whose values are given, one for each term of the order. */
export function beyondSql(
  writer: Writer,
  order: readonly PageOrder[],
  slots: readonly number[],
  alias: string,
  side: 'after' | 'before',
): string {
  const terms = order.map((term, index) => termSql(writer, term, slots[index]!, alias, side))
  if (order.every(({ isNotNull, isDescending }) => isNotNull && isDescending === order[0]!.isDescending)) {
    // An index serves the comparison of whole rows.
    const symbol = symbolOf(order[0]!, side)
    const [left, right] = [terms.map(({ value }) => value), terms.map(({ given }) => given)]
    return `(${left.join(', ')}) ${symbol} (${right.join(', ')})`
  }
  return `(${terms
    .map(({ beyond }, index) => [...terms.slice(0, index).map(({ equal }) => equal), beyond].join(' and '))
    .map(each => `(${each})`)
    .join(' or ')})`
}

interface TermSql {
  value: string
  given: string
  beyond: string
  equal: string
}

const symbolOf = ({ isDescending }: PageOrder, side: 'after' | 'before'): '<' | '>' =>
  isDescending === (side === 'after') ? '<' : '>'

function termSql(
  writer: Writer,
  term: PageOrder,
  slot: number,
  alias: string,
  side: 'after' | 'before',
): TermSql {
  const value = orderValueSql(writer, term, alias)
  const given = `${writer.parameter(slot)}::${term.value.column!.type}`
  const compared = `${value} ${symbolOf(term, side)} ${given}`
  if (term.isNotNull) return { value, given, beyond: compared, equal: `${value} = ${given}` }
  const areNullsBeyond = (term.nulls === 'last') === (side === 'after')
  const beyond = areNullsBeyond
    ? `(${given} is not null and (${compared} or ${value} is null))`
    : `((${given} is null and ${value} is not null) or ${compared})`
  return { value, given, beyond, equal: `${value} is not distinct from ${given}` }
}

/** The order from the other end. */
export const reversed = (order: readonly PageOrder[]): PageOrder[] =>
  order.map(term => ({
    ...term,
    isDescending: !term.isDescending,
    ...(term.nulls && { nulls: term.nulls === 'first' ? ('last' as const) : ('first' as const) }),
  }))

/** The values of a row's order as a text that clients pass on unread. */
export const cursorSql = (writer: Writer, order: readonly PageOrder[], alias: string): string =>
  base64Sql(
    `pg_catalog.json_build_array(${order.map(term => orderValueSql(writer, term, alias)).join(', ')})`,
  )

/** Postgres breaks lines in base64. */
export const base64Sql = (json: string): string =>
  `pg_catalog.translate(pg_catalog.encode(pg_catalog.convert_to((${json})::text, 'UTF8'), 'base64'), E'\\n', '')`
