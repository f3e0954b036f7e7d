// Filters from the grammar: for every column type its operators, with existing and missing values, and sometimes a value of
// another type or an operator that the column does not support.
import type { Condition, Embed, Field, Group, Hop, Item, Operator, Pattern, Query, Test } from './query.ts'
import { embedsOf, fieldKind, hasAggregates } from './query.ts'
import type { Random } from './random.ts'
import type { Data } from './rows.ts'
import type { Column, Kind, Table } from './schema.ts'
import { arrayLiteral, rightValue, words, wrongValue } from './values.ts'

const comparisons = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'isdistinct', 'is'] as const
const patterns = ['like', 'ilike', 'match', 'imatch'] as const
const searches = ['fts', 'plfts', 'phfts', 'wfts'] as const
const overlaps = ['cs', 'cd', 'ov'] as const
const ranges = ['sl', 'sr', 'nxr', 'nxl', 'adj'] as const

const operators: Record<Kind, readonly Operator[]> = {
  int: comparisons,
  bigint: comparisons,
  numeric: comparisons,
  float: comparisons,
  text: [...comparisons, ...patterns, 'like', 'ilike', 'fts', 'plfts', 'wfts'],
  bool: ['eq', 'neq', 'is', 'is', 'isdistinct', 'in'],
  timestamptz: comparisons,
  date: comparisons,
  uuid: comparisons,
  jsonb: ['eq', 'neq', 'cs', 'cd', 'is', 'isdistinct'],
  'int[]': [...overlaps, 'eq', 'neq', 'is'],
  'text[]': [...overlaps, 'eq', 'neq', 'is'],
  int4range: [...overlaps, ...ranges, 'eq', 'is'],
  mood: comparisons,
  tsvector: [...searches, 'is'],
}
/** For columns of other types. Full-text search on numbers and lists of arrays are left out: their result is not specified. */
const foreignOperators = [...patterns, ...overlaps, ...ranges, 'gt', 'is', 'isdistinct'] as const
const quantified: readonly Operator[] = ['eq', 'gt', 'gte', 'lt', 'lte', ...patterns]
const paths: readonly (readonly Hop[])[] = [
  [{ arrow: '->', key: 'a' }],
  [{ arrow: '->>', key: 'a' }],
  [{ arrow: '->>', key: 'b' }],
  [
    { arrow: '->', key: 'c' },
    { arrow: '->>', key: 'e' },
  ],
  [
    { arrow: '->', key: 'c' },
    { arrow: '->', key: 'd' },
  ],
  [{ arrow: '->>', key: 'absent' }],
  [
    { arrow: '->', key: 'c' },
    { arrow: '->', key: 'd' },
    { arrow: '->', key: '0' },
  ],
]
const elements: readonly (readonly Hop[])[] = [[{ arrow: '->', key: '0' }], [{ arrow: '->>', key: '1' }]]
const expressions = ['^zq[0-9a-f]', 'qz$', '[0-9]{3}', "a|b|O'B", '(?i)zq', '\\mnull\\M', 'ü.+字']

export interface Sources {
  random: Random
  data: Data
}

export function condition(from: Sources, table: Table, embeds: readonly Embed[], depth = 0): Condition {
  const { random } = from
  if (depth < 3 && random.chance(0.2)) return group(from, table, embeds, depth)
  const present = embeds.filter(
    ({ isSpread, query }) => !isSpread && !hasAggregates(query) && !isPaged(query),
  )
  if (present.length > 0 && random.chance(0.15))
    return { is: 'presence', embed: random.pick(present), isNull: random.chance(0.5) }
  return test(from, table)
}

const isPaged = ({ limit, offset }: Query) => limit !== undefined || offset !== undefined

function group(from: Sources, table: Table, embeds: readonly Embed[], depth: number): Group {
  const { random } = from
  return {
    is: 'group',
    isNot: random.chance(0.2),
    joiner: random.pick(['and', 'or']),
    of: Array.from({ length: random.int(1, 3) }, () => condition(from, table, embeds, depth + 1)),
  }
}

export function conditions(from: Sources, table: Table, select: readonly Item[]): Condition[] {
  const embeds = embedsOf({ table, select, where: [], order: [] })
  const count = from.random.pick([0, 0, 1, 1, 1, 2, 3])
  return Array.from({ length: count }, () => condition(from, table, embeds))
}

/** Mostly a visible column, and sometimes a secret one, like an attacker. */
export function anyColumn({ random }: Pick<Sources, 'random'>, table: Table): Column {
  const mostly = table.columns.filter(({ isSecret }) => !isSecret)
  return random.pick(random.chance(0.04) ? table.columns : mostly)
}

export function anyField(from: Pick<Sources, 'random'>, table: Table): Field {
  const { random } = from
  const column = anyColumn(from, table)
  if (column.kind === 'jsonb' && random.chance(0.6)) return { column, path: random.pick(paths) }
  if (column.kind.endsWith('[]') && random.chance(0.2)) return { column, path: random.pick(elements) }
  return { column, path: [] }
}

export function test(from: Sources, table: Table): Test {
  const { random } = from
  const field = anyField(from, table)
  const kind = fieldKind(field)
  const operator = random.pick(random.chance(0.02) ? foreignOperators : operators[kind])
  const common = { is: 'test', field, isNot: random.chance(0.15), operator } as const
  if (operator === 'is') {
    const truths = kind === 'bool' ? ['true', 'false', 'unknown', 'null'] : ['null']
    return { ...common, value: random.pick(truths) }
  }
  const value = () => someValue(from, table, field)
  if (operator === 'in') return { ...common, value: Array.from({ length: random.int(0, 4) }, value) }
  if (isSearch(operator))
    return {
      ...common,
      ...(random.chance(0.5) && { language: random.pick(['english', 'simple']) }),
      value: searchValue(random, operator),
    }
  const written = isPattern(operator) ? () => pattern(random, operator, value()) : value
  if (quantified.includes(operator) && random.chance(0.15)) {
    const all = Array.from({ length: random.int(0, 3) }, written)
    return { ...common, quantifier: random.pick(['any', 'all']), value: arrayLiteral(all) }
  }
  return { ...common, value: written() }
}

const isSearch = (operator: Operator) => (searches as readonly Operator[]).includes(operator)
const isPattern = (operator: Operator): operator is Pattern =>
  (patterns as readonly Operator[]).includes(operator)

/** A value of some row in this column, including hidden rows, or a new value, or rarely one of another type. */
function someValue({ random, data }: Sources, table: Table, { column, path }: Field): string {
  const kind = column.kind
  const there = path.length > 0 ? undefined : random.pick(data[table.name] ?? [{}])[column.name]
  if (path.length > 0) return pathValue(random, path)
  if (random.chance(0.04)) return wrongValue(kind, random) ?? rightValue(kind, random)
  return there && random.chance(0.7) ? there : rightValue(kind, random)
}

function pathValue(random: Random, path: readonly Hop[]): string {
  const last = path.at(-1)!
  if (/^[a01]$/.test(last.key)) return rightValue('int', random)
  if (last.key === 'd') return `[${rightValue('int', random)}]`
  return last.key === 'e' ? rightValue('mood', random) : rightValue('text', random)
}

function pattern(random: Random, operator: Pattern, value: string): string {
  if (operator === 'match' || operator === 'imatch') return random.pick(expressions)
  const part = value.replace(/\\.*/s, '').slice(random.int(0, 3), random.int(4, 12))
  return random.pick([`*${part}*`, `${part}*`, `%${part}%`, `*${part.toUpperCase()}*`, `_${part}*`, '*'])
}

function searchValue(random: Random, operator: Operator): string {
  const [one, other] = random.sample([...words, rightValue('tsvector', random).slice(1, 11)], 2) as [
    string,
    string,
  ]
  if (operator === 'fts') return random.pick([one, `${one} & ${other}`, `${one} | !${other}`, `${one}:*`])
  return operator === 'wfts'
    ? random.pick([one, `${one} or ${other}`, `${one} -${other}`])
    : `${one} ${other}`
}
