// The output of planning for a front end that chooses the shape of its answer: JSON objects made of rows, in pages, with
// other objects inside. Names are resolved in the catalogue, and values are indexes in the list that `run` gets.
import type { Column, Relation, Routine } from './catalog.ts'
import type { Aggregate } from './items.ts'
import type { Link, Order, Value, Where } from './level.ts'

/** A member of a JSON object. */
export interface Member<C> {
  readonly name: string
  readonly content: C
}

/** The same text in every object. */
export interface Constant {
  readonly kind: 'constant'
  readonly text: string
}

/** What an object shows of its row. */
export type RowContent =
  | Constant
  | { readonly kind: 'value'; readonly value: Value; readonly show: Show }
  | { readonly kind: 'node id'; readonly relation: Relation; readonly key: readonly Column[] }
  | { readonly kind: 'row'; readonly link: Link; readonly members: readonly Member<RowContent>[] }
  | { readonly kind: 'page'; readonly link: Link; readonly page: Page }

/** How a value becomes JSON. */
export interface Show {
  /** As a string, because clients would round it or expect one. */
  readonly isText: boolean
  readonly isList: boolean
  /** Names of an enum's labels that differ from the labels. */
  readonly names?: ReadonlyMap<string, string>
}

/** Some of the rows in their order, with facts about the rest. */
export interface Page {
  readonly where: readonly Where[]
  /** Ends with a unique key. */
  readonly order: readonly PageOrder[]
  /** The order is that of the primary key. */
  readonly isInKeyOrder: boolean
  readonly limit: number
  /** The last rows instead of the first. */
  readonly isBackward: boolean
  /** The index of the offset in the values. */
  readonly offset?: number | undefined
  /** The values of the row after which, or before which, the page starts: an index for each term of the order. */
  readonly cursor?: readonly number[] | undefined
  readonly members: readonly Member<PageContent>[]
}

export interface PageOrder extends Order {
  readonly isNotNull: boolean
}

export type PageContent =
  | Constant
  | { readonly kind: 'edges'; readonly members: readonly Member<EdgeContent>[] }
  | { readonly kind: 'page info'; readonly members: readonly Member<PageFact>[] }
  | { readonly kind: 'total' }
  | { readonly kind: 'aggregate'; readonly members: readonly Member<AggregateContent>[] }

export type EdgeContent =
  | Constant
  | { readonly kind: 'cursor' }
  | { readonly kind: 'node'; readonly members: readonly Member<RowContent>[] }

export type PageFact =
  | Constant
  | { readonly kind: 'has next' | 'has previous' | 'start cursor' | 'end cursor' }

export type AggregateContent =
  | Constant
  | { readonly kind: 'count' }
  | {
      readonly kind: 'of columns'
      readonly call: Aggregate
      readonly members: readonly Member<Constant | AggregatedColumn>[]
    }

export interface AggregatedColumn {
  readonly kind: 'column'
  readonly column: Column
  readonly isText: boolean
  /** Postgres has no minimum and maximum of booleans. */
  readonly isBoolean: boolean
}

/** A function with the index of each argument in the values. */
export interface Call {
  readonly routine: Routine
  readonly arguments: readonly { readonly name: string; readonly type: string; readonly slot: number }[]
}

/** A field of the answer itself. */
export type RootContent =
  | Constant
  | { readonly kind: 'page'; readonly from: Relation | Call; readonly page: Page }
  | {
      readonly kind: 'row'
      readonly from: Relation | Call
      readonly where: readonly Where[]
      readonly members: readonly Member<RowContent>[]
    }
  | { readonly kind: 'value'; readonly from: Call; readonly show: Show }
  /** Always null. */
  | { readonly kind: 'nothing' }

/** What an object shows of a write. */
export type WrittenContent =
  | Constant
  | { readonly kind: 'count' }
  | { readonly kind: 'rows'; readonly members: readonly Member<RowContent>[] }
