// From a plan to SQL text. The only place where a request turns into SQL: values become parameters, names go
// through `identifier`, and everything else is text of our own.
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import { castType } from './cast-type.ts'
import type { Column, Relationship } from './catalog.ts'
import type { Operator } from './filter.ts'
import type { Embed, Level, Order, Output, Value, Where } from './plan.ts'

/** What becomes of a value on its way to a parameter. */
export type Binding = 'text' | 'pattern' | 'list'
export interface Parameter {
  /** Place among the request's values, or what else it is. */
  readonly slot: number | 'body'
  readonly binding: Binding
}

/** Collects parameters while text is written; the same value is the same parameter wherever it appears. */
export class Writer {
  readonly parameters: Parameter[] = []
  readonly #numbers = new Map<string, number>()
  readonly #vectorSchema: string | undefined
  /** Where the whole row of an alias is found when `alias.*` is not a row of the relation. */
  readonly rows = new Map<string, string>()
  #aliases = 0

  constructor(vectorSchema: string | undefined) {
    this.#vectorSchema = vectorSchema
  }

  parameter(slot: number | 'body', binding: Binding = 'text'): string {
    const key = `${slot} ${binding}`
    const known = this.#numbers.get(key)
    if (known !== undefined) return `$${known}`
    const number = this.parameters.push({ slot, binding })
    this.#numbers.set(key, number)
    return `$${number}`
  }

  alias(prefix = 't'): string {
    return `${prefix}${this.#aliases++}`
  }

  wholeRow(alias: string): string {
    return this.rows.get(alias) ?? `${alias}.*`
  }

  vector(slot: number): string {
    return `${this.parameter(slot)}::${identifier(this.#vectorSchema!)}."vector"`
  }

  distance(metric: 'l2' | 'cosine' | 'ip'): string {
    return `operator(${identifier(this.#vectorSchema!)}.${{ l2: '<->', cosine: '<=>', ip: '<#>' }[metric]})`
  }
}

export const qualified = ({ schema, name }: { schema: string; name: string }): string =>
  `${identifier(schema)}.${identifier(name)}`

const json = 114
const jsonb = 3802
const tsvector = 3614

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
  const laterals: string[] = []
  const columns = level.outputs.flatMap(output => columnsOf(writer, output, alias, laterals, isGrouped))
  const groups = columns.flatMap(({ isAggregate }, index) => (isAggregate ? [] : [index + 1]))
  const conditions = [...joined, ...conditionsOf(writer, level, alias)]
  return [
    `select ${columns.map(({ sql, name }) => `${sql} as ${identifier(name)}`).join(', ')}`,
    `from ${[from, ...laterals].join(' ')}`,
    conditions.length > 0 ? `where ${conditions.join(' and ')}` : '',
    isGrouped && groups.length > 0 ? `group by ${groups.join(', ')}` : '',
    orderSql(writer, level.order, alias),
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

/** The conditions rows of this level must meet, those of inner embeds among them. */
export function conditionsOf(writer: Writer, level: Level, alias: string): string[] {
  return [
    ...level.where.map(where => whereSql(writer, where, alias)),
    ...level.embeds.filter(({ isInner }) => isInner).map(embed => existsSql(writer, embed, alias)),
  ]
}

/** Names of the columns a level gives, in order. */
export const outputNames = (level: Level): string[] =>
  level.outputs.flatMap(output =>
    output.kind === 'spread' ? outputNames(output.embed.level) : [output.name],
  )

/** Aggregates of a spread to-one relation are the level's own. */
export const isAggregated = (level: Level): boolean =>
  level.outputs.some(
    output => output.kind === 'aggregate' || (output.kind === 'spread' && isAggregated(output.embed.level)),
  )

interface ColumnSql {
  name: string
  sql: string
  isAggregate: boolean
}

function columnsOf(
  writer: Writer,
  output: Output,
  alias: string,
  laterals: string[],
  isGrouped: boolean,
): ColumnSql[] {
  switch (output.kind) {
    case 'value': {
      const sql = casted(valueSql(writer, output.value, alias), output.cast)
      const isJson = isGrouped && output.cast === undefined && isPlainJson(output.value)
      return [{ name: output.name, sql: isJson ? `(${sql})::jsonb` : sql, isAggregate: false }]
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
      return spreadColumns(writer, output.embed, alias, laterals, isGrouped)
  }
}

const aggregateSql = (output: Output & { kind: 'aggregate' }, argument: string): string =>
  casted(`pg_catalog.${output.call}(${argument})`, output.resultCast)

const casted = (sql: string, cast: string | undefined): string =>
  cast === undefined ? sql : `cast(${sql} as ${castType(cast)})`

/** Columns of a spread relation are lifted beside the level's own: as they are, or as arrays side by side. */
function spreadColumns(
  writer: Writer,
  embed: Embed,
  alias: string,
  laterals: string[],
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
  const calls = flatOutputs(embed.level)
  return names.map((name, index) => {
    const output = calls[index]!
    const sql = `${own}.${identifier(name)}`
    return output.kind === 'aggregate'
      ? { name, sql: aggregateSql(output, output.value ? sql : '*'), isAggregate: true }
      : { name, sql, isAggregate: false }
  })
}

const flatOutputs = (level: Level): Exclude<Output, { kind: 'spread' }>[] =>
  level.outputs.flatMap(output => (output.kind === 'spread' ? flatOutputs(output.embed.level) : [output]))

/** The values that are aggregated one level up, as they are. */
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
const oneColumn: Column = { name: '', type: 'integer', base: 23, isArray: false, byDefault: null }

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
  // A view may show a row twice, and a value can hold only one.
  const page = link.isToOne ? { ...level, limit: 1 } : level
  return levelSql(writer, page, from, own, joined)
}

function linkSql(
  writer: Writer,
  link: Embed['link'],
  alias: string,
  own: string,
): { from: string; joined: string[] } {
  if (link.kind === 'function')
    return { from: `${qualified(link.routine)}(${writer.wholeRow(alias)}) ${own}`, joined: [] }
  const { target, junction } = link.relationship
  if (!junction) {
    const { columns } = link.relationship
    return { from: `${qualified(target)} ${own}`, joined: equalities(columns, alias, own) }
  }
  const through = writer.alias('j')
  const on = equalities(junction.columns, through, own)
  return {
    from: `${qualified(junction)} ${through} join ${qualified(target)} ${own} on ${on.join(' and ')}`,
    joined: equalities(link.relationship.columns, alias, through),
  }
}

const equalities = (columns: Relationship['columns'], left: string, right: string): string[] =>
  columns.map(([own, theirs]) => `${right}.${identifier(theirs)} = ${left}.${identifier(own)}`)

function existsSql(writer: Writer, { link, level }: Embed, alias: string): string {
  const own = writer.alias()
  const { from, joined } = linkSql(writer, link, alias, own)
  const conditions = [...joined, ...conditionsOf(writer, level, own)]
  return `exists (select from ${from}${conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''})`
}

export function valueSql(writer: Writer, { column, computed, path }: Value, alias: string): string {
  if (column === oneColumn) return '1'
  const base = computed
    ? `${qualified(computed)}(${writer.wholeRow(alias)})`
    : `${alias}.${identifier(column!.name)}`
  if (path.length === 0) return base
  const isJson = column?.base === json || column?.base === jsonb
  const steps = path.map(
    ({ isText, key, isIndex }) => `${isText ? '->>' : '->'} ${isIndex ? key : literal(key)}`,
  )
  return `(${isJson ? base : `pg_catalog.to_jsonb(${base})`} ${steps.join(' ')})`
}

/** `json` itself can neither be compared nor grouped. */
const isPlainJson = ({ column, path }: Value): boolean => column?.base === json && !path.at(-1)?.isText

const comparable = (writer: Writer, value: Value, alias: string): string =>
  isPlainJson(value) ? `(${valueSql(writer, value, alias)})::jsonb` : valueSql(writer, value, alias)

function whereSql(writer: Writer, where: Where, alias: string): string {
  switch (where.kind) {
    case 'group': {
      const inner = where.conditions.map(each => whereSql(writer, each, alias)).join(` ${where.joiner} `)
      return where.isNegated ? `not (${inner})` : `(${inner})`
    }
    case 'exists': {
      const exists = existsSql(writer, where.embed, alias)
      return where.isNegated ? `not ${exists}` : exists
    }
    case 'test': {
      const sql = testSql(writer, where, alias)
      return where.test.isNegated ? `not (${sql})` : sql
    }
  }
}

const symbols: Partial<Record<Operator, string>> = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: 'like',
  ilike: 'ilike',
  match: '~',
  imatch: '~*',
  isdistinct: 'is distinct from',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  sl: '<<',
  sr: '>>',
  nxr: '&<',
  nxl: '&>',
  adj: '-|-',
}
const queries: Partial<Record<Operator, string>> = {
  fts: 'pg_catalog.to_tsquery',
  plfts: 'pg_catalog.plainto_tsquery',
  phfts: 'pg_catalog.phraseto_tsquery',
  wfts: 'pg_catalog.websearch_to_tsquery',
}

function testSql(writer: Writer, { value, test }: Where & { kind: 'test' }, alias: string): string {
  const { operator, quantifier, slot } = test
  const left = comparable(writer, value, alias)
  switch (operator) {
    case 'is':
      return `${left} is ${test.truth}`
    case 'in': {
      const list = writer.parameter(slot, 'list')
      // There are no arrays of arrays; these are compared as they are written.
      return value.column?.isArray && value.path.length === 0
        ? `${left}::text = any(${list}::text[])`
        : `${left} = any(${list})`
    }
    case 'fts':
    case 'plfts':
    case 'phfts':
    case 'wfts':
      return textSearchSql(writer, value, test, alias)
    case 'l2':
    case 'cosine':
    case 'ip':
      return `(${left} is not null and (${left} ${writer.distance(operator)} ${writer.vector(slot)}) is not null)`
    default: {
      const isPattern = operator === 'like' || operator === 'ilike'
      const right = writer.parameter(slot, isPattern ? 'pattern' : 'text')
      return `${left} ${symbols[operator]} ${quantifier ? `${quantifier}(${right})` : right}`
    }
  }
}

const searchable = new Set([25, 1043, json, jsonb])

function textSearchSql(
  writer: Writer,
  value: Value,
  { operator, config, slot }: (Where & { kind: 'test' })['test'],
  alias: string,
): string {
  const base = value.path.length > 0 ? (value.path.at(-1)!.isText ? 25 : jsonb) : (value.column?.base ?? 0)
  const configuration = config === undefined ? '' : `${writer.parameter(config)}::regconfig, `
  const text = valueSql(writer, value, alias)
  const document =
    base === tsvector
      ? text
      : `pg_catalog.to_tsvector(${configuration}${searchable.has(base) ? text : `${text}::text`})`
  return `${document} @@ ${queries[operator]}(${configuration}${writer.parameter(slot)})`
}

export function orderSql(writer: Writer, order: readonly Order[], alias: string): string {
  if (order.length === 0) return ''
  return `order by ${order.map(term => termSql(writer, term, alias)).join(', ')}`
}

function termSql(
  writer: Writer,
  { value, embed, metric, slot, isDescending, nulls }: Order,
  alias: string,
): string {
  let sql: string
  if (embed) {
    const own = writer.alias()
    const { from, joined } = linkSql(writer, embed.link, alias, own)
    const where = joined.length > 0 ? ` where ${joined.join(' and ')}` : ''
    sql = `(select ${comparable(writer, value, own)} from ${from}${where} limit 1)`
  } else sql = comparable(writer, value, alias)
  if (metric) sql = `${sql} ${writer.distance(metric)} ${writer.vector(slot!)}`
  return `${sql}${isDescending ? ' desc' : ''}${nulls ? ` nulls ${nulls}` : ''}`
}
