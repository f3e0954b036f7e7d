// A read or a change as plain SQL with literal values. It uses no SQL generation of the server.
import type { Change } from './changes.ts'
import {
  type Condition,
  type Embed,
  type Field,
  fieldKind,
  hasAggregates,
  type Item,
  keyOf,
  type Operator,
  type Order,
  type Query,
  type Read,
  type Test,
} from './query.ts'

/** The rows as one JSON text, and the total without paging. */
export function readSql({ query, call, shape, range }: Read): string {
  const isWindow = range && query.limit === undefined
  const paged = isWindow ? { ...query, offset: range[0], limit: range[1] - range[0] + 1 } : query
  const args = Object.entries(call?.args ?? {}).map(([name, value]) => `${name} => ${literal(value)}`)
  const from = call ? `public.${call.name}(${args.join(', ')})` : tableName(query)
  const rows = selectSql(paged, `${from} b`, 'true', 'b')
  const row = shape === 'stripped' ? 'json_strip_nulls(row_to_json(r))' : 'row_to_json(r)'
  const total = hasAggregates(query)
    ? `select count(*) from (${rows}) x`
    : `select count(*) from ${from} b where ${whereSql(query, 'b')}`
  return `select (select coalesce(json_agg(${row}), '[]') from (${rows}) r)::text as body, (${total}) as total`
}

export function changeSql(change: Change): string {
  const columns = change.select.map(column => `w.${name(column)}`).join(', ')
  return `with w as (${changingSql(change)})
    select (select coalesce(json_agg(row_to_json(r)), '[]') from (select ${columns} from w) r)::text as body,
           (select count(*) from w) as total`
}

function changingSql(change: Change): string {
  const { method, table, columns, rows, onConflict, where } = change
  const into = `public.${name(table.name)} b`
  const matching = whereSql({ table, select: [], where, order: [] }, 'b')
  const absent = change.missing ?? 'null'
  const value = (text: string | null | undefined) =>
    text === undefined ? absent : text === null ? 'null' : literal(text)
  if (method === 'DELETE') return `delete from ${into} where ${matching} returning b.*`
  if (method === 'PATCH') {
    const set = columns.map(column => `${name(column)} = ${value(rows[0]![column])}`)
    return `update ${into} set ${set.join(', ')} where ${matching} returning b.*`
  }
  const lines = rows.map(row => `(${columns.map(column => value(row[column])).join(', ')})`)
  const excluded = columns.map(column => `${name(column)} = excluded.${name(column)}`)
  const action = onConflict === 'merge' ? `do update set ${excluded.join(', ')}` : 'do nothing'
  const target = change.onConflictOf ?? table.key
  const conflict = onConflict ? `on conflict (${target.map(name).join(', ')}) ${action}` : ''
  const values = `(${columns.map(name).join(', ')}) values ${lines.join(', ')}`
  return `insert into ${into.replace(/ b$/, ' as b')} ${values} ${conflict} returning b.*`
}

const tableName = ({ table }: Query) => `public.${name(table.name)}`
const name = (text: string) => `"${text.replaceAll('"', '""')}"`
const literal = (text: string) => `'${text.replaceAll("'", "''")}'`

/** The rows of a query whose table has the alias `as`. Each level of embedding adds a letter. */
function selectSql(query: Query, from: string, on: string, as: string): string {
  const { order, limit, offset } = query
  const select = query.select.length === 0 ? [{ is: 'all' } as const] : query.select
  const by = hasAggregates(query) ? groupBy(query, as) : ''
  return [
    `select ${select.flatMap(item => itemSql(item, as)).join(', ')}`,
    `from ${from} where ${on} and ${whereSql(query, as)}${by}`,
    order.length > 0 ? `order by ${order.map(each => orderSql(each, as)).join(', ')}` : '',
    limit === undefined ? '' : `limit ${limit}`,
    offset === undefined ? '' : `offset ${offset}`,
  ].join('\n')
}

function groupBy({ select }: Query, as: string): string {
  const free = select.filter(item => item.is === 'field').map(item => shownSql(item, as))
  return free.length > 0 ? ` group by ${free.join(', ')}` : ''
}

const shownSql = ({ field, cast }: Extract<Item, { is: 'field' }>, as: string) =>
  `(${fieldSql(field, as)})${cast ? `::${cast}` : ''}`

function itemSql(item: Item, as: string): string[] {
  if (item.is === 'all') return [`${as}.*`]
  if (item.is === 'embed' && item.isSilent) return []
  const key = name(keyOf(item))
  if (item.is === 'field') return [`${shownSql(item, as)} as ${key}`]
  if (item.is === 'aggregate')
    return [`${item.with}(${item.field ? fieldSql(item.field, as) : '*'}) as ${key}`]
  return item.isSpread ? spreadSql(item, as) : [`${embedSql(item, as)} as ${key}`]
}

function fieldSql({ column, path }: Field, as: string): string {
  const base = column.isComputed ? `public.${name(column.name)}(${as})` : `${as}.${name(column.name)}`
  const json = path.length > 0 && column.kind !== 'jsonb' ? `to_jsonb(${base})` : base
  return path.reduce(
    (sql, { arrow, key }) => `(${sql} ${arrow} ${/^\d+$/.test(key) ? key : literal(key)})`,
    json,
  )
}

/** Replaces the aliases `b` and `t` of a relation by those of this query. */
const sides = (text: string, as: string) =>
  text.replace(/\b([bt])\b(?=\.|\)|$)/g, side => (side === 'b' ? as : `${as}e`))

const relatedRows = (embed: Embed, as: string, query = embed.query) =>
  selectSql(query, sides(embed.relation.from, as), sides(embed.relation.on, as), `${as}e`)

function embedSql(embed: Embed, as: string): string {
  const rows = relatedRows(embed, as)
  return embed.relation.isMany
    ? `(select coalesce(json_agg(row_to_json(r)), '[]') from (${rows}) r)`
    : `(select row_to_json(r) from (${rows}) r)`
}

/** The columns of the related row, or arrays of the columns of several rows. */
const spreadSql = (embed: Embed, as: string): string[] =>
  embed.query.select
    .filter(item => item.is === 'field')
    .map(item => {
      const rows = relatedRows(embed, as, { ...embed.query, select: [item] })
      const array = `select coalesce(json_agg(r.${name(keyOf(item))}), '[]') from (${rows}) r`
      return `(${embed.relation.isMany ? array : rows}) as ${name(keyOf(item))}`
    })

function existsSql(embed: Embed, as: string): string {
  const { from, on } = embed.relation
  return `exists (select from ${sides(from, as)} where ${sides(on, as)} and ${whereSql(embed.query, `${as}e`)})`
}

/** The filters, and the condition that every inner embed has rows. */
function whereSql({ where, select }: Query, as: string): string {
  const inner = select.filter(item => item.is === 'embed' && item.join === 'inner') as Embed[]
  const all = [...where.map(each => conditionSql(each, as)), ...inner.map(embed => existsSql(embed, as))]
  return all.length > 0 ? all.join(' and ') : 'true'
}

function conditionSql(condition: Condition, as: string): string {
  if (condition.is === 'presence') return `${condition.isNull ? 'not ' : ''}${existsSql(condition.embed, as)}`
  if (condition.is === 'test') return `${condition.isNot ? 'not ' : ''}(${testSql(condition, as)})`
  const parts = condition.of.map(each => conditionSql(each, as))
  return `${condition.isNot ? 'not ' : ''}(${parts.join(` ${condition.joiner} `)})`
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
const searchFunctions: Partial<Record<Operator, string>> = {
  fts: 'to_tsquery',
  plfts: 'plainto_tsquery',
  phfts: 'phraseto_tsquery',
  wfts: 'websearch_to_tsquery',
}

function testSql({ field, operator, quantifier, language, value }: Test, as: string): string {
  const left = fieldSql(field, as)
  const symbol = symbols[operator]
  if (typeof value !== 'string')
    return value.length === 0
      ? `(${left} is null and false)`
      : `${left} in (${value.map(literal).join(', ')})`
  if (operator === 'is') return `${left} is ${value}`
  const search = searchFunctions[operator]
  if (search) {
    const config = language ? `${literal(language)}, ` : ''
    const vector = fieldKind(field) === 'tsvector' ? left : `to_tsvector(${config}${left})`
    return `${vector} @@ ${search}(${config}${literal(value)})`
  }
  const right = literal(operator === 'like' || operator === 'ilike' ? value.replaceAll('*', '%') : value)
  return `${left} ${symbol} ${quantifier ? `${quantifier}(${right})` : right}`
}

function orderSql({ field, through, direction, nulls }: Order, as: string): string {
  const key = through
    ? `(select ${fieldSql(field, `${as}e`)} from ${sides(through.relation.from, as)} where ${sides(through.relation.on, as)})`
    : fieldSql(field, as)
  return `${key}${direction ? ` ${direction}` : ''}${nulls ? ` nulls ${nulls}` : ''}`
}
