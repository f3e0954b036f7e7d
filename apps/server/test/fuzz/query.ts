// The tree of a read, which the generator creates and which is written as a request and as SQL for the oracle.
import type { Who } from './markers.ts'
import type { Column, Kind, Relation, Table } from './schema.ts'

export interface Hop {
  arrow: '->' | '->>'
  key: string
}
export interface Field {
  column: Column
  path: readonly Hop[]
}

export type Comparison = 'eq' | 'neq' | 'gt' | 'gte' | 'lt' | 'lte'
export type Pattern = 'like' | 'ilike' | 'match' | 'imatch'
export type Containment = 'cs' | 'cd' | 'ov' | 'sl' | 'sr' | 'nxr' | 'nxl' | 'adj'
export type Search = 'fts' | 'plfts' | 'phfts' | 'wfts'
export type Operator = Comparison | Pattern | Containment | Search | 'in' | 'is' | 'isdistinct'

export interface Test {
  is: 'test'
  field: Field
  isNot: boolean
  operator: Operator
  quantifier?: 'any' | 'all'
  /** The language of a full-text search. */
  language?: string
  /** A list for `in`, an array literal for a quantifier. */
  value: string | readonly string[]
}
export interface Group {
  is: 'group'
  isNot: boolean
  joiner: 'and' | 'or'
  of: readonly Condition[]
}
/** Whether an embed of the same level has rows. */
export interface Presence {
  is: 'presence'
  embed: Embed
  isNull: boolean
}
export type Condition = Test | Group | Presence

export interface Order {
  field: Field
  /** The to-one embed that has the column. */
  through?: Embed
  direction?: 'asc' | 'desc'
  nulls?: 'first' | 'last'
}

export type Aggregate = 'count' | 'sum' | 'avg' | 'min' | 'max'
export interface Embed {
  is: 'embed'
  relation: Relation
  spelling: string
  alias?: string
  join?: 'inner' | 'left'
  isSpread: boolean
  /** Written `rel()`: it filters and returns no columns. */
  isSilent: boolean
  query: Query
}
export type Item =
  | { is: 'all' }
  | { is: 'field'; field: Field; alias?: string; cast?: string }
  | { is: 'aggregate'; with: Aggregate; field?: Field; alias?: string }
  | Embed

export interface Query {
  table: Table
  /** If empty, no `select` is sent. */
  select: readonly Item[]
  where: readonly Condition[]
  order: readonly Order[]
  limit?: number
  offset?: number
}

export interface Read {
  who: Who
  /** POST is only for calls, with the arguments as body. */
  method: 'GET' | 'HEAD' | 'POST'
  /** A function that returns rows of the table, with its arguments. */
  call?: { name: string; args: Readonly<Record<string, string>> }
  query: Query
  count?: 'exact' | 'planned' | 'estimated'
  shape: 'array' | 'object' | 'stripped'
  /** A Range header. A limit of the query takes precedence. */
  range?: readonly [number, number]
}

export const fieldKind = ({ column, path }: Field): Kind =>
  path.length === 0 ? column.kind : path.at(-1)!.arrow === '->' ? 'jsonb' : 'text'

/** The key of a value in the answer. */
export const keyOf = (item: Exclude<Item, { is: 'all' }>): string => {
  if (item.alias !== undefined) return item.alias
  if (item.is === 'aggregate') return item.with
  if (item.is === 'field') return item.field.path.at(-1)?.key ?? item.field.column.name
  return item.spelling.startsWith('"') ? item.relation.target : item.spelling.split('!')[0]!
}

export const embedsOf = (query: Query): Embed[] => query.select.filter(item => item.is === 'embed')

export const hasAggregates = (query: Query): boolean => query.select.some(item => item.is === 'aggregate')

export const depthOf = (query: Query): number =>
  Math.max(0, ...embedsOf(query).map(embed => 1 + depthOf(embed.query)))
