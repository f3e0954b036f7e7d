// The statement of a read.
import { answerSql, type Form, isCurrentSql, nullIfCurrentSql, textSql } from './answer-sql.ts'
import type { Catalog } from './catalog.ts'
import type { Level } from './level.ts'
import { isAggregated, levelSql, orderSql, outputNames, pageSql } from './level-sql.ts'
import { conditionsOf } from './where-sql.ts'
import { qualified, Writer } from './writer.ts'

/** Whether the statement counts the rows before paging. `when capped`: only if the page is as long as its limit. */
export type Total = 'always' | 'never' | 'when capped'

export function readSql(
  catalog: Catalog,
  level: Level,
  form: Form,
  total: Total,
  settings: readonly string[] = [],
): { sql: string; writer: Writer } {
  const writer = new Writer(catalog.extension('vector'))
  const alias = writer.alias()
  const from = `${qualified(level.source.relation!)} ${alias}`
  const isCurrent = isCurrentSql(catalog)
  const counted = `(select pg_catalog.count(*) from ${countedSql(writer, level, from, alias)})`
  if (form.kind === 'none') {
    // Selects no rows, but fails for a caller who lacks the privileges to read them.
    const count = `(select pg_catalog.count(*) from (${levelSql(writer, { ...level, limit: 0 }, from, alias)}) r)`
    return { sql: `select ${answerSql({ text: 'null', count, total: counted })} where ${isCurrent}`, writer }
  }
  const takesRow = form.kind === 'handled' && form.takesRow
  const rows = takesRow ? wholeRows(writer, level, from, alias) : levelSql(writer, level, from, alias)
  const count = 'pg_catalog.count(*)'
  // A function of the project that makes the answer may have effects.
  const isLate = form.kind !== 'handled'
  const check = isLate ? nullIfCurrentSql(catalog) : undefined
  const totals = {
    always: counted,
    never: check ?? 'null',
    'when capped': `case when ${count} = ${level.limit} then ${counted} end`,
  }
  const text = textSql(form, 'r', outputNames(level), catalog, takesRow ? 'r.v' : undefined)
  const answer = answerSql({
    text,
    count,
    total: totals[total],
    settings,
    check: total === 'never' ? undefined : check,
  })
  const condition = isLate ? '' : ` where ${isCurrent}`
  return { sql: `select ${answer} from (${rows}) r${condition}`, writer }
}

/** Each row of the relation as one value `v`. */
export function wholeRows(writer: Writer, level: Level, from: string, alias: string, isPaged = true): string {
  const conditions = conditionsOf(writer, level, alias)
  return [
    // The cast makes one value of the row, also if it has a column named like the alias.
    `select (${alias}.*)::${qualified(level.source.relation!)} as v from ${from}`,
    conditions.length > 0 ? `where ${conditions.join(' and ')}` : '',
    orderSql(writer, level.order, alias),
    isPaged ? pageSql(writer, level) : '',
  ]
    .filter(clause => clause !== '')
    .join(' ')
}

/** The rows before paging, without their outputs. */
function countedSql(writer: Writer, level: Level, from: string, alias: string): string {
  if (isAggregated(level)) return `(${levelSql(writer, { ...level, order: [] }, from, alias, [], false)}) c`
  const conditions = conditionsOf(writer, level, alias)
  return `${from}${conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''}`
}
