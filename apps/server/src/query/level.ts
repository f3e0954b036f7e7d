// The output of planning: the items of a query with every name resolved in the catalogue.
import type { Column, FunctionName, Relation, Relationship, Routine } from './catalog.ts'
import type { Aggregate, JsonStep, Metric, Test } from './items.ts'

/** The source of rows: a relation, or the result of a function. */
export interface Source {
  readonly name: string
  readonly columns: ReadonlyMap<string, Column>
  readonly relation?: Relation | undefined
}

export const sourceOf = (relation: Relation): Source => ({
  name: relation.name,
  columns: relation.columns,
  relation,
})

export const sourceOfRoutine = ({ name, columns, relation }: Routine): Source => ({
  name: relation?.name ?? name,
  columns,
  relation,
})

/** How rows lead to rows of another relation: by a relationship, or by a function of the row. */
export type Link =
  | { readonly kind: 'key'; readonly relationship: Relationship; readonly isToOne: boolean }
  | { readonly kind: 'function'; readonly routine: Routine; readonly isToOne: boolean }

export interface Value {
  readonly column?: Column
  /** A function of the row instead of a column. */
  readonly computed?: Routine
  readonly path: readonly JsonStep[]
  /** Shows the value of a domain in the format of the answer. */
  readonly shownBy?: FunctionName | undefined
}

export type Output =
  | {
      readonly kind: 'value'
      readonly name: string
      readonly value: Value
      readonly cast?: string | undefined
    }
  | {
      readonly kind: 'aggregate'
      readonly name: string
      readonly call: Aggregate
      /** Without a value it counts rows. */
      readonly value?: Value | undefined
      readonly cast?: string | undefined
      readonly resultCast?: string | undefined
    }
  | { readonly kind: 'embed'; readonly name: string; readonly embed: Embed }
  | { readonly kind: 'spread'; readonly embed: Embed }

export interface Embed {
  readonly name: string
  readonly link: Link
  readonly isInner: boolean
  readonly isSpread: boolean
  readonly level: Level
}

export type Where =
  | { readonly kind: 'test'; readonly value: Value; readonly test: Test }
  | { readonly kind: 'exists'; readonly embed: Embed; readonly isNegated: boolean }
  | {
      readonly kind: 'group'
      readonly joiner: 'and' | 'or'
      readonly isNegated: boolean
      readonly conditions: readonly Where[]
    }

export interface Order {
  readonly value: Value
  /** The to-one relation that has the value. */
  readonly embed?: Embed | undefined
  readonly metric?: Metric | undefined
  readonly slot?: number | undefined
  readonly isDescending: boolean
  readonly nulls?: 'first' | 'last' | undefined
}

/** The rows of the query itself, or of one embedded relation. */
export interface Level {
  readonly source: Source
  readonly outputs: readonly Output[]
  readonly embeds: readonly Embed[]
  readonly where: readonly Where[]
  readonly order: readonly Order[]
  readonly limit?: number | undefined
  /** The index of the offset in the values. */
  readonly offset?: number | undefined
}
