// The statement of a read: columns are body, rows returned, rows in all, guard.
import { bodySql, type Form, guardSql } from './answer-sql.ts'
import type { Catalog } from './catalog.ts'
import { isAggregated, levelSql, outputNames } from './level-sql.ts'
import type { Level } from './plan.ts'
import { conditionsOf } from './where-sql.ts'
import { qualified, Writer } from './writer.ts'

/** Whether the rows are counted beyond the page: always, never, or only when the cap cut the page short. */
export type Total = 'always' | 'never' | 'when capped'

export function readSql(
  catalog: Catalog,
  level: Level,
  form: Form,
  total: Total,
): { sql: string; writer: Writer } {
  const writer = new Writer(catalog.extension('vector'))
  const alias = writer.alias()
  const from = `${qualified(level.source.relation!)} ${alias}`
  const counted = `(select pg_catalog.count(*) from ${countedSql(writer, level, from, alias)})`
  if (form.kind === 'none') {
    // Nothing is shown, but whoever may not see it is refused as on a GET.
    const shown = `(select pg_catalog.count(*) from (${levelSql(writer, { ...level, limit: 0 }, from, alias)}) r)`
    return { sql: `select null, ${shown}, ${counted}, ${guardSql(catalog)}`, writer }
  }
  const rows = levelSql(writer, level, from, alias)
  const inAll = {
    always: counted,
    never: 'null',
    'when capped': `case when pg_catalog.count(*) = ${level.limit} then ${counted} end`,
  }[total]
  const body = bodySql(form, 'r', outputNames(level), catalog)
  return {
    sql: `select ${body}, pg_catalog.count(*), ${inAll}, ${guardSql(catalog)} from (${rows}) r`,
    writer,
  }
}

/** Rows before paging, without what would only be shown. */
function countedSql(writer: Writer, level: Level, from: string, alias: string): string {
  if (isAggregated(level)) return `(${levelSql(writer, { ...level, order: [] }, from, alias, [], false)}) c`
  const conditions = conditionsOf(writer, level, alias)
  return `${from}${conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''}`
}
