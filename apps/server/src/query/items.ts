// The input of planning: a query over rows as parsed items. The row API builds them from a query string, and any other
// front end can do so too. Items contain no values, only the index of a value in the list that `run` gets, so that
// queries which differ only in values share one plan.

export interface JsonStep {
  /** `->>` returns text. */
  readonly isText: boolean
  /** A number is the index of an array's element. */
  readonly key: string | number
}

/** A column, or a path into a JSON column. */
export interface Field {
  readonly column: string
  readonly path: readonly JsonStep[]
}

/** The name of an unaliased field in the result. */
export const nameOf = ({ column, path }: Field): string => String(path.at(-1)?.key ?? column)

export type Aggregate = 'sum' | 'avg' | 'count' | 'max' | 'min'

export interface SelectField {
  readonly kind: 'field'
  readonly alias?: string
  readonly field: Field
  readonly cast?: string
  readonly aggregate?: Aggregate
  readonly aggregateCast?: string
  /** Counts rows where the source has no such column. */
  readonly isCountByDefault?: boolean
}
/** Counts rows. */
export interface SelectCount {
  readonly kind: 'count'
  readonly alias?: string
  readonly cast?: string
}
export interface SelectEmbed {
  readonly kind: 'embed'
  readonly alias?: string
  readonly relation: string
  /** Chooses among several relationships: a foreign key, a column or a junction. */
  readonly hint?: string
  readonly isInner: boolean
  readonly isSpread: boolean
  readonly query: RowsQuery
}
export type SelectItem = { readonly kind: 'star' } | SelectField | SelectCount | SelectEmbed

export type Operator =
  | ('eq' | 'neq' | 'gt' | 'gte' | 'lt' | 'lte' | 'like' | 'ilike' | 'match' | 'imatch' | 'startsWith')
  | ('in' | 'is' | 'isdistinct' | 'fts' | 'plfts' | 'phfts' | 'wfts')
  | ('cs' | 'cd' | 'ov' | 'sl' | 'sr' | 'nxr' | 'nxl' | 'adj' | Metric)

/** How far two vectors are apart. */
export type Metric = 'l2' | 'cosine' | 'ip'

export interface Test {
  readonly kind: 'test'
  readonly field: Field
  readonly isNegated: boolean
  readonly operator: Operator
  readonly quantifier?: 'any' | 'all'
  /** Of text search: the index of the configuration in the values. */
  readonly config?: number
  /** Of `is`. */
  readonly truth?: Truth
  /** The index of the value: text as Postgres reads it, an array literal for `in`. */
  readonly slot: number
}
export type Truth = 'null' | 'true' | 'false' | 'unknown'

export interface Group {
  readonly kind: 'group'
  readonly joiner: 'and' | 'or'
  readonly isNegated: boolean
  readonly conditions: readonly Condition[]
}
export type Condition = Test | Group

export interface OrderTerm {
  readonly field: Field
  /** The embedded to-one relation that has the field, by its alias or name. */
  readonly relation?: string
  /** Orders by the distance to a vector. */
  readonly metric?: Metric
  /** The index of that vector in the values. */
  readonly slot?: number
  readonly isDescending: boolean
  readonly nulls?: 'first' | 'last'
}

/** Rows of one source: what to show of them, which, in which order, and which page. */
export interface RowsQuery {
  readonly select: readonly SelectItem[]
  /** Rows meet all of these. */
  readonly where: readonly Condition[]
  readonly order: readonly OrderTerm[]
  readonly limit?: number
  /** The index of the offset in the values. */
  readonly offset?: number
}

/** The columns that a write sets, from a JSON text in the values: an object, or an array of objects. */
export interface PayloadColumns {
  readonly columns: readonly PayloadColumn[]
  readonly isArray: boolean
  /** Every value of the payload is a string, also those of JSON columns. */
  readonly isText: boolean
  /** The index of the JSON text in the values. */
  readonly slot: number
}
export interface PayloadColumn {
  readonly name: string
  /** Some object lacks the column, which then gets its default. */
  readonly isSparse: boolean
}

export type Change =
  | { readonly kind: 'insert'; readonly payload: PayloadColumns; readonly conflict?: Conflict | undefined }
  | { readonly kind: 'update'; readonly payload: PayloadColumns }
  | { readonly kind: 'delete' }
  /** Changes no row, because the payload has none. */
  | { readonly kind: 'nothing' }

/** What an insert does with rows that exist already. */
export interface Conflict {
  /** Updates the existing row instead of keeping it. */
  readonly merges: boolean
  /** Columns of a unique constraint; by default, the primary key. */
  readonly columns?: readonly string[] | undefined
}
