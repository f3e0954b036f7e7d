// Reads from the grammar of the contract. The oracle can compute the answer of each.
import { anyColumn, anyField, conditions, type Sources } from './conditions.ts'
import { everyone, nameMark, type Who } from './markers.ts'
import type { Aggregate, Embed, Item, Order, Query, Read } from './query.ts'
import { fieldKind, hasAggregates, keyOf } from './query.ts'
import { columnOf, type Kind, type Relation, readableTables, type Table, tableNamed } from './schema.ts'

const favourites = ['people', 'people', 'people', 'tasks', 'tasks', 'teams'].map(tableNamed)
const sortable: readonly Kind[] = [
  'int',
  'bigint',
  'numeric',
  'float',
  'text',
  'bool',
  'timestamptz',
  'date',
  'uuid',
  'mood',
]
const summable: readonly Kind[] = ['int', 'bigint', 'numeric', 'float']
/** Casts that succeed for every value of the type. */
const casts: Partial<Record<Kind, readonly string[]>> = {
  int: ['text', 'bigint', 'numeric', 'double precision'],
  numeric: ['text', 'int', 'real'],
  bool: ['text', 'int'],
  date: ['text', 'timestamp', 'timestamptz'],
  timestamptz: ['text', 'date', 'timestamp without time zone'],
  text: ['varchar', 'character varying', 'bpchar'],
}
/** One more than the server allows. */
const maxDepth = 6

export function anyRead(from: Sources, who?: Who): Read {
  const { random } = from
  const table = random.chance(0.5) ? random.pick(favourites) : random.pick(readableTables)
  const call = table.name === 'people' && random.chance(0.1) ? callOf(from) : undefined
  const query = random.chance(0.07) ? grouped(from, table) : anyQuery(from, table, deepest(from), true)
  const method =
    call && random.chance(0.4) ? 'POST' : random.chance(0.08) && !hasAggregates(query) ? 'HEAD' : 'GET'
  return {
    who: who ?? random.pick(everyone),
    method,
    ...(call && { call }),
    query,
    ...(random.chance(0.3) && { count: random.pick(['exact', 'exact', 'planned', 'estimated']) }),
    shape: random.pick(['array', 'array', 'array', 'array', 'array', 'array', 'stripped', 'object']),
    ...(method === 'GET' && random.chance(0.1) && windowOf(from, query)),
  }
}

/** A Range header, for ordered rows. A limit takes precedence. */
function windowOf({ random }: Sources, { limit, offset, order }: Query): Pick<Read, 'range'> {
  if ((limit === undefined && offset !== undefined) || order.length === 0) return {}
  const start = random.int(0, 20)
  return { range: [start, start + random.int(0, 9)] }
}

const deepest = ({ random }: Sources) =>
  random.chance(0.03) ? random.int(maxDepth - 2, maxDepth) : random.pick([0, 0, 1, 1, 1, 2])

const callOf = ({ random, data }: Sources) => ({
  name: 'people_of',
  args: { team: random.pick(data['teams']!)['id']! },
})

/** With at most `deep` levels of embeds, and a page only for totally ordered rows. */
function anyQuery(from: Sources, table: Table, deep: number, isMany: boolean): Query {
  const { random } = from
  const select = items(from, table, deep)
  const where = conditions(from, table, select)
  const order = isMany && random.chance(0.8) ? orders(from, table, select) : []
  const isPaged = order.length > 0 && table.key.length > 0
  return {
    table,
    select,
    where,
    order,
    ...(isPaged && random.chance(0.35) && { limit: random.int(0, 12) }),
    ...(isPaged && random.chance(0.15) && { offset: random.int(0, 8) }),
  }
}

function items(from: Sources, table: Table, deep: number): Item[] {
  const { random } = from
  const plain = random.chance(0.25) ? [] : fields(from, table)
  const star: Item[] = random.chance(0.2) && isReadableWhole(table) ? [{ is: 'all' }] : []
  const named = star.length > 0 ? plain.map(item => ({ ...item, alias: nameMark(random) })) : plain
  const count = deep === 0 ? 0 : deep > 3 ? 1 : random.int(1, 2)
  const embeds = Array.from({ length: count }, () => embed(from, table, deep))
  const all = unique([...star, ...named, ...embeds.filter(each => each !== undefined)])
  // A select with only embeds is valid but rare.
  return all.length > 0 && all.every(({ is }) => is === 'embed') && random.chance(0.7)
    ? [{ is: 'field', field: { column: table.columns[0]!, path: [] } }, ...all]
    : all
}

const isReadableWhole = (table: Table) => table.columns.every(({ isSecret }) => !isSecret)

function fields(from: Sources, table: Table): Extract<Item, { is: 'field' }>[] {
  const { random } = from
  return Array.from({ length: random.int(1, 4) }, () => {
    const field = anyField(from, table)
    const last = field.path.at(-1)?.key
    const needsAlias = last !== undefined && /^[ad]$|^\d/.test(last)
    return {
      is: 'field',
      field,
      ...((needsAlias || random.chance(0.2)) && { alias: nameMark(random) }),
      ...(random.chance(0.1) && { cast: random.pick(casts[fieldKind(field)] ?? ['text']) }),
    }
  })
}

/** Two values with the same key would overwrite each other. */
function unique(all: Item[]): Item[] {
  const seen = new Set<string>()
  return all.filter(item => {
    const keys = item.is === 'all' ? [] : [keyOf(item), ...spreadKeys(item)]
    const isNew = keys.every(key => !seen.has(key))
    for (const key of keys) seen.add(key)
    return isNew
  })
}

const spreadKeys = (item: Item) =>
  item.is === 'embed' && item.isSpread
    ? item.query.select.map(each => (each.is === 'all' ? '' : keyOf(each)))
    : []

function embed(from: Sources, table: Table, deep: number): Embed | undefined {
  const { random } = from
  if (table.relations.length === 0) return
  const relation = random.pick(table.relations)
  const spelling = random.pick(relation.spellings)
  const isSpread = random.chance(relation.isMany ? 0.05 : 0.12)
  const isColumn = table.columns.some(({ name }) => name === spelling)
  // With the name of a column it would be ambiguous.
  if (isColumn && isSpread) return
  const query = isSpread ? lifted(from, relation) : embedded(from, relation, deep - 1)
  // For aggregated or paged rows it is not specified whether an inner embed has rows.
  const isWhole = !hasAggregates(query) && query.limit === undefined && query.offset === undefined
  return {
    is: 'embed',
    relation,
    spelling,
    ...((isColumn || random.chance(0.35)) && !isSpread && { alias: nameMark(random) }),
    ...(isWhole && random.chance(0.25) && { join: random.pick(['inner', 'inner', 'left']) }),
    isSpread,
    isSilent: isWhole && !isSpread && deep === 1 && random.chance(0.08),
    query,
  }
}

function embedded(from: Sources, relation: Relation, deep: number): Query {
  const table = tableNamed(relation.target)
  if (relation.isMany && from.random.chance(0.1)) return rowCount(table)
  if (relation.isMany && from.random.chance(0.05)) return grouped(from, table)
  const query = anyQuery(from, table, deep, relation.isMany)
  return query.select.length > 0 ? query : { ...query, select: [{ is: 'all' }] }
}

const rowCount = (table: Table): Query => ({
  table,
  select: [{ is: 'aggregate', with: 'count' }],
  where: [],
  order: [],
})

/** The columns of a spread are merged into the parent row, so each has a unique alias. */
function lifted(from: Sources, relation: Relation): Query {
  const table = tableNamed(relation.target)
  const select = fields(from, table).map(item => ({ ...item, alias: nameMark(from.random) }))
  const order = relation.isMany ? orders(from, table, select) : []
  return { table, select, where: conditions(from, table, []), order }
}

/** Ends with the key, so that the order is total. */
function orders(from: Sources, table: Table, select: readonly Item[]): Order[] {
  const { random } = from
  const keys = table.key.map(name => ({ field: { column: columnOf(table, name), path: [] } }))
  const free = Array.from({ length: random.pick([0, 0, 1, 1, 2]) }, () => anyOrder(from, table, select))
  return [...free, ...keys].map(order => ({
    ...order,
    ...(random.chance(0.5) && { direction: random.pick(['asc', 'desc']) }),
    ...(random.chance(0.2) && { nulls: random.pick(['first', 'last']) }),
  }))
}

function anyOrder(from: Sources, table: Table, select: readonly Item[]): Order {
  const { random } = from
  const parents = select.filter(
    (item): item is Embed =>
      item.is === 'embed' && !item.relation.isMany && !item.isSpread && item.query.where.length === 0,
  )
  const through = parents.length > 0 && random.chance(0.3) ? random.pick(parents) : undefined
  const column = anyColumn(from, through ? through.query.table : table)
  const isSortable = sortable.includes(column.kind)
  const path = column.kind === 'jsonb' ? [{ arrow: '->>', key: 'b' } as const] : []
  if (!isSortable && path.length === 0)
    return {
      field: { column: (through?.query.table ?? table).columns[0]!, path: [] },
      ...(through && { through }),
    }
  return { field: { column, path }, ...(through && { through }) }
}

/** Aggregates, grouped by the other fields. */
function grouped(from: Sources, table: Table): Query {
  const { random } = from
  const by = fields(from, table)
    .filter(({ field }) => sortable.includes(fieldKind(field)) && !field.column.isComputed)
    .slice(0, random.int(0, 2))
  const aggregates = Array.from({ length: random.int(1, 2) }, (): Item => {
    const alias = random.chance(0.5) ? { alias: nameMark(random) } : {}
    const column = anyColumn(from, table)
    if (!summable.includes(column.kind)) return { is: 'aggregate', with: 'count', ...alias }
    const all: Aggregate[] = ['count', 'sum', 'avg', 'min', 'max']
    return { is: 'aggregate', with: random.pick(all), field: { column, path: [] }, ...alias }
  })
  return { table, select: unique([...by, ...aggregates]), where: conditions(from, table, []), order: [] }
}
