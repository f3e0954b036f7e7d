// What the compiler needs to know about a field of the schema. It is attached to the field itself.
import type { GraphQLField } from 'graphql'
import type { Aggregate } from '#src/query/items.ts'
import type { ColumnField, ComputedField, Entity, FunctionField, LinkField } from './model.ts'

/** Fields of Query and Mutation. */
export type RootMeaning =
  | { readonly kind: 'collection' | 'by key' | 'insert' | 'update' | 'delete'; readonly entity: Entity }
  | { readonly kind: 'node' }
  | { readonly kind: 'function'; readonly field: FunctionField }

/** Fields of a row. */
export type RowMeaning =
  | { readonly kind: 'column'; readonly field: ColumnField }
  | { readonly kind: 'computed'; readonly field: ComputedField }
  | { readonly kind: 'link'; readonly field: LinkField }
  | { readonly kind: 'node id' }

export type AggregateMeaning =
  | { readonly kind: 'aggregate count' }
  | { readonly kind: 'aggregates'; readonly call: Aggregate }
  | { readonly kind: 'aggregated column'; readonly field: ColumnField }

export type Meaning = RootMeaning | RowMeaning | AggregateMeaning

const key = Symbol('meaning')

export const withMeaning = (meaning: Meaning): { [key]: Meaning } => ({ [key]: meaning })

export const meaningOf = ({ extensions }: GraphQLField<unknown, unknown>): Meaning | undefined =>
  (extensions as { [key]?: Meaning })[key]
