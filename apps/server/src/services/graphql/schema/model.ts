// What one role sees of a schema, under the names of GraphQL.
import type { Column, Relation, Routine } from '#src/query/catalog.ts'
import type { Link } from '#src/query/level.ts'

export interface Model {
  readonly schema: string
  readonly entities: readonly Entity[]
  /** By the name of the table. */
  readonly byTable: ReadonlyMap<string, Entity>
  readonly enums: readonly EnumModel[]
  readonly functions: readonly FunctionField[]
}

/** A table or view with a key. */
export interface Entity {
  readonly relation: Relation
  /** The name of its type. */
  readonly name: string
  readonly description: string | undefined
  readonly key: readonly ColumnField[]
  readonly columns: readonly ColumnField[]
  /** Added when all entities are known. */
  readonly links: LinkField[]
  readonly computed: ComputedField[]
  readonly maxRows: number
  readonly hasAggregates: boolean
  readonly insertable: readonly ColumnField[]
  readonly updatable: readonly ColumnField[]
  readonly isDeletable: boolean
}

export interface ColumnField {
  readonly name: string
  readonly description: string | undefined
  readonly column: Column
  readonly type: ValueType
  readonly isNotNull: boolean
}

/** Leads to the rows of another entity. */
export interface LinkField {
  readonly name: string
  readonly link: Link
  readonly target: Entity
  /** Of a foreign key whose columns are all not null. */
  readonly isNotNull: boolean
}

/** A value that a function computes from the row. */
export interface ComputedField {
  readonly name: string
  readonly description: string | undefined
  readonly routine: Routine
  readonly type: ValueType
}

export interface FunctionField {
  readonly name: string
  readonly description: string | undefined
  readonly routine: Routine
  readonly arguments: readonly ArgumentModel[]
  readonly returns: ValueType | { readonly entity: Entity; readonly isSet: boolean }
}

export interface ArgumentModel {
  readonly name: string
  readonly parameter: string
  readonly sqlType: string
  readonly type: ValueType
  readonly hasDefault: boolean
}

export type ScalarName =
  | ('Int' | 'BigInt' | 'BigFloat' | 'Float' | 'String' | 'Boolean' | 'UUID')
  | ('Date' | 'Time' | 'Datetime' | 'JSON' | 'Opaque')

export interface ValueType {
  readonly of: ScalarName | EnumModel
  readonly isList: boolean
}

export interface EnumModel {
  readonly name: string
  readonly description: string | undefined
  /** GraphQL names by label. */
  readonly names: ReadonlyMap<string, string>
  readonly labels: ReadonlyMap<string, string>
}

export const isScalar = (type: ValueType, ...names: ScalarName[]): boolean =>
  !type.isList && typeof type.of === 'string' && names.includes(type.of)
