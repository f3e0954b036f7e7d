// The rows of a level with their embedded relations, as SQL.
import { identifier } from '#src/kernel/postgres/sql.ts'
import { castType } from './cast-type.ts'
import type { Embed, Level, Order, Output, Value } from './level.ts'
import { linkSql } from './link-sql.ts'
import { comparable, isPlainJson, oneColumn, valueSql } from './value-sql.ts'
import { conditionsOf } from './where-sql.ts'
import type { Writer } from './writer.ts'

/** Rows of one level: `select … from … where … order by … limit …`. */
export function levelSql(
  writer: Writer,
  level: Level,
  from: string,
  alias: string,
  joined: readonly string[] = [],
  isPaged = true,
): string {
  const isGrouped = isAggregated(level)
  const joins: Joins = { laterals: [], spreads: new Map() }
  const columns = level.outputs.flatMap(output => columnsOf(writer, output, alias, joins, isGrouped))
  const groups = columns.flatMap(({ isAggregate, groupedBy }, index) =>
    isAggregate ? [] : [groupedBy ?? index + 1],
  )
  const conditions = [...joined, ...conditionsOf(writer, level, alias)]
  return [
    `select ${columns.map(({ sql, name }) => `${sql} as ${identifier(name)}`).join(', ')}`,
    `from ${[from, ...joins.laterals].join(' ')}`,
    conditions.length > 0 ? `where ${conditions.join(' and ')}` : '',
    isGrouped && groups.length > 0 ? `group by ${groups.join(', ')}` : '',
    orderSql(writer, level.order, alias, isGrouped ? joins.spreads : undefined),
    isPaged ? pageSql(writer, level) : '',
  ]
    .filter(clause => clause !== '')
    .join(' ')
}

export const pageSql = (writer: Writer, { limit, offset }: Pick<Level, 'limit' | 'offset'>): string =>
  [
    limit === undefined ? '' : `limit ${limit}`,
    offset === undefined ? '' : `offset ${writer.parameter(offset)}::bigint`,
  ]
    .filter(clause => clause !== '')
    .join(' ')

/** The names of a level's columns, in order. */
export const outputNames = (level: Level): string[] =>
  level.outputs.flatMap(output =>
    output.kind === 'spread' ? outputNames(output.embed.level) : [output.name],
  )

/** Aggregates of a spread to-one relation count as the level's own. */
export const isAggregated = (level: Level): boolean =>
  level.outputs.some(
    output => output.kind === 'aggregate' || (output.kind === 'spread' && isAggregated(output.embed.level)),
  )

/** The rows of spread relations, which are joined to those of the level. */
interface Joins {
  readonly laterals: string[]
  /** The aliases of spread to-one relations. */
  readonly spreads: Map<Embed, string>
}

interface ColumnSql {
  name: string
  sql: string
  isAggregate: boolean
  /** If it is not the column itself. */
  groupedBy?: string
}

function columnsOf(
  writer: Writer,
  output: Output,
  alias: string,
  joins: Joins,
  isGrouped: boolean,
): ColumnSql[] {
  switch (output.kind) {
    case 'value': {
      const sql = casted(valueSql(writer, output.value, alias), output.cast)
      if (output.value.shownBy) {
        const groupedBy = valueSql(writer, { ...output.value, shownBy: undefined }, alias)
        return [{ name: output.name, sql, isAggregate: false, groupedBy }]
      }
      return [
        { name: output.name, sql: isGrouped && isJson(output) ? `(${sql})::jsonb` : sql, isAggregate: false },
      ]
    }
    case 'aggregate': {
      const argument = output.value ? casted(valueSql(writer, output.value, alias), output.cast) : '*'
      return [{ name: output.name, sql: aggregateSql(output, argument), isAggregate: true }]
    }
    case 'embed': {
      const sql = embedSql(writer, output.embed, alias)
      return [{ name: output.name, sql: isGrouped ? `${sql}::jsonb` : sql, isAggregate: false }]
    }
    case 'spread':
      return spreadColumns(writer, output.embed, alias, joins, isGrouped)
  }
}

/** Whether the output has the type `json`, which Postgres cannot group by. */
function isJson(output: Exclude<Output, { kind: 'spread' }>): boolean {
  if (output.kind === 'embed') return true
  return output.kind === 'value' && output.cast === undefined && isPlainJson(output.value)
}

const aggregateSql = (output: Output & { kind: 'aggregate' }, argument: string): string =>
  casted(`pg_catalog.${output.call}(${argument})`, output.resultCast)

const casted = (sql: string, cast: string | undefined): string =>
  cast === undefined ? sql : `cast(${sql} as ${castType(cast)})`

/** The columns of a spread relation beside the level's own. Those of a to-many relation are arrays. */
function spreadColumns(
  writer: Writer,
  embed: Embed,
  alias: string,
  { laterals, spreads }: Joins,
  isGrouped: boolean,
): ColumnSql[] {
  const own = writer.alias('s')
  const names = outputNames(embed.level)
  if (!embed.link.isToOne) {
    const rows = writer.alias('r')
    const arrays = names.map(
      name => `coalesce(pg_catalog.json_agg(${rows}.${identifier(name)}), '[]') as ${identifier(name)}`,
    )
    laterals.push(
      `left join lateral (select ${arrays.join(', ')} from (${linkedSql(writer, embed, alias)}) ${rows}) ${own} on true`,
    )
    const cast = isGrouped ? '::jsonb' : ''
    return names.map(name => ({ name, sql: `${own}.${identifier(name)}${cast}`, isAggregate: false }))
  }
  const flat = withoutAggregates(embed.level)
  laterals.push(`left join lateral (${linkedSql(writer, { ...embed, level: flat }, alias)}) ${own} on true`)
  spreads.set(embed, own)
  const outputs = flatOutputs(embed.level)
  return names.map((name, index) => {
    const output = outputs[index]!
    const sql = `${own}.${identifier(name)}`
    return output.kind === 'aggregate'
      ? { name, sql: aggregateSql(output, output.value ? sql : '*'), isAggregate: true }
      : { name, sql: isGrouped && isJson(output) ? `${sql}::jsonb` : sql, isAggregate: false }
  })
}

const flatOutputs = (level: Level): Exclude<Output, { kind: 'spread' }>[] =>
  level.outputs.flatMap(output => (output.kind === 'spread' ? flatOutputs(output.embed.level) : [output]))

/** Replaces aggregates by their arguments: the level above computes them. */
const withoutAggregates = (level: Level): Level => ({
  ...level,
  outputs: level.outputs.map(output => {
    if (output.kind === 'spread')
      return { ...output, embed: { ...output.embed, level: withoutAggregates(output.embed.level) } }
    if (output.kind !== 'aggregate') return output
    const value = output.value ?? { column: oneColumn, path: [] }
    return { kind: 'value', name: output.name, value, cast: output.cast }
  }),
})

/** An embedded relation as one JSON value. */
function embedSql(writer: Writer, embed: Embed, alias: string): string {
  const rows = writer.alias('r')
  const body = embed.link.isToOne
    ? `pg_catalog.row_to_json(${rows}.*)`
    : `coalesce(pg_catalog.json_agg(${rows}.*), '[]')`
  return `(select ${body} from (${linkedSql(writer, embed, alias)}) ${rows})`
}

/** The rows of an embedded relation that belong to the row `alias`. */
function linkedSql(writer: Writer, { link, level }: Embed, alias: string): string {
  const own = writer.alias()
  const { from, joined } = linkSql(writer, link, alias, own)
  // A view may show a row twice, and a scalar subquery must return one row.
  const page = link.isToOne ? { ...level, limit: 1 } : level
  return levelSql(writer, page, from, own, joined)
}

/** `spreads` are the aliases of spread relations by which rows are grouped. */
export function orderSql(
  writer: Writer,
  order: readonly Order[],
  alias: string,
  spreads?: ReadonlyMap<Embed, string>,
): string {
  if (order.length === 0) return ''
  return `order by ${order.map(term => termSql(writer, term, alias, spreads)).join(', ')}`
}

function termSql(
  writer: Writer,
  order: Order,
  alias: string,
  spreads: ReadonlyMap<Embed, string> | undefined,
): string {
  const { isDescending, nulls } = order
  const sql = orderValueSql(writer, order, alias, spreads)
  return `${sql}${isDescending ? ' desc' : ''}${nulls ? ` nulls ${nulls}` : ''}`
}

/** The value that rows are ordered by. */
export function orderValueSql(
  writer: Writer,
  { value, embed, metric, slot }: Order,
  alias: string,
  spreads?: ReadonlyMap<Embed, string>,
): string {
  let sql: string
  const spread = embed && spreads?.get(embed)
  const selected = spread === undefined ? undefined : selectedName(embed!, value)
  if (selected !== undefined) sql = `${spread}.${identifier(selected)}`
  else if (embed) {
    const own = writer.alias()
    const { from, joined } = linkSql(writer, embed.link, alias, own)
    const where = joined.length > 0 ? ` where ${joined.join(' and ')}` : ''
    sql = `(select ${comparable(writer, value, own)} from ${from}${where} limit 1)`
  } else sql = comparable(writer, value, alias)
  if (metric) sql = `${sql} ${writer.distance(metric)} ${writer.vector(slot!)}`
  return sql
}

/** The name under which an embedded relation selects the value. */
const selectedName = ({ level }: Embed, value: Value): string | undefined =>
  level.outputs
    .filter(output => output.kind === 'value')
    .find(output => output.cast === undefined && isSame(output.value, value))?.name

const isSame = (a: Value, b: Value): boolean =>
  a.column === b.column && a.computed === b.computed && JSON.stringify(a.path) === JSON.stringify(b.path)
