// What the row API knows of a project's schema: relations, their columns and relationships, and functions.
// Immutable once made, and good for one version of the schema.

export interface Column {
  readonly name: string
  /** As written in SQL. */
  readonly type: string
  /** Oid of the type, or of what a domain is made of. */
  readonly base: number
  readonly isArray: boolean
  /** An expression, when leaving the column out would use one. */
  readonly byDefault: string | null
}

export interface Relation {
  readonly oid: number
  readonly schema: string
  readonly name: string
  readonly isView: boolean
  readonly columns: ReadonlyMap<string, Column>
  /** Names of the primary key's columns; of a view, those of the table it shows. */
  readonly primaryKey: string[]
  /** Names of the columns of every unique key. */
  readonly keys: string[][]
  readonly relationships: Relationship[]
  /** Functions that take a row of this relation, by name: fields, or rows of other relations. */
  readonly computed: Map<string, Routine>
}

export type Cardinality = 'many-to-one' | 'one-to-many' | 'one-to-one' | 'many-to-many'

export interface Relationship {
  readonly cardinality: Cardinality
  readonly target: Relation
  /** The foreign key's name; of a junction, both. */
  readonly constraint: string
  /** Own column and the target's, or the junction's, which it equals. */
  readonly columns: readonly (readonly [own: string, theirs: string])[]
  readonly isSelf: boolean
  readonly junction?: Junction
}

export interface Junction {
  readonly relation: Relation
  /** Column of the junction and the target's column which it equals. */
  readonly columns: readonly (readonly [own: string, theirs: string])[]
  readonly constraints: readonly [toOwn: string, toTarget: string]
}

export interface Parameter {
  readonly name: string
  readonly type: string
  readonly typeOid: number
  readonly hasDefault: boolean
  readonly isVariadic: boolean
}

export interface Routine {
  readonly schema: string
  readonly name: string
  readonly parameters: readonly Parameter[]
  readonly returns: 'void' | 'scalar' | 'row'
  readonly type: string
  /** Columns of a row that is no relation's: OUT parameters, RETURNS TABLE, a composite type. */
  readonly columns: ReadonlyMap<string, Column>
  /** The relation whose rows it returns. */
  readonly relation?: Relation
  readonly isSet: boolean
  /** A set declared to hold one row: ROWS 1. */
  readonly isOneRow: boolean
  readonly isVolatile: boolean
}

export interface Catalog {
  readonly version: number
  readonly schemas: readonly string[]
  relation(schema: string, name: string): Relation | undefined
  functions(schema: string, name: string): readonly Routine[]
  relationNames(schema: string): string[]
  functionNames(schema: string): string[]
  /** The schema an extension lives in, if it is there. */
  extension(name: 'vector' | 'postgis'): string | undefined
}
