// The catalogue of a project's exposed schemas: relations with their columns and relationships, and functions. It is
// immutable and valid for one version of the schema.

export interface Column {
  readonly name: string
  /** The type as SQL. */
  readonly type: string
  /** Oid of the type, or of a domain's base type. */
  readonly base: number
  readonly isArray: boolean
  /** The default as an SQL expression. */
  readonly byDefault: string | null
  /** Of a domain with casts to or from json or text. */
  readonly representation?: Representation
}

/** The functions that show values of a domain, and those that read them. */
export interface Representation {
  toJson?: FunctionName
  toText?: FunctionName
  fromJson?: FunctionName
  fromText?: FunctionName
}

export interface FunctionName {
  readonly schema: string
  readonly name: string
}

/** An aggregate that turns rows into one value of a media type. */
export interface Handler extends FunctionName {
  /** Returns bytes, not text. */
  readonly isBinary: boolean
}

export interface Relation {
  readonly oid: number
  readonly schema: string
  readonly name: string
  readonly isView: boolean
  readonly columns: ReadonlyMap<string, Column>
  /** Names of the primary key's columns. A view has the key of the table it shows. */
  readonly primaryKey: string[]
  /** Names of the columns of every unique key. */
  readonly keys: string[][]
  readonly relationships: Relationship[]
  /** Functions of a row of this relation, by name. They return computed fields, or rows of other relations. */
  readonly computed: Map<string, Routine>
  /** By media type. */
  readonly handlers: Map<string, Handler>
}

export type Cardinality = 'many-to-one' | 'one-to-many' | 'one-to-one' | 'many-to-many'

export interface Relationship {
  readonly cardinality: Cardinality
  readonly target: Relation
  /** The name of the foreign key, or of both foreign keys of a junction. */
  readonly constraint: string
  /** Pairs of equal columns: of this relation, and of the target or junction. */
  readonly columns: readonly (readonly [own: string, theirs: string])[]
  readonly isSelf: boolean
  readonly junction?: Junction
}

export interface Junction {
  readonly relation: Relation
  /** Pairs of equal columns: of the junction, and of the target. */
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
  readonly oid: number
  readonly schema: string
  readonly name: string
  readonly parameters: readonly Parameter[]
  /** The columns of a `record` are known only when it runs. */
  readonly returns: 'void' | 'scalar' | 'record' | 'row'
  readonly type: string
  /** Columns of the returned rows: of a relation or composite type, of OUT parameters, or of RETURNS TABLE. */
  readonly columns: ReadonlyMap<string, Column>
  /** The relation whose rows the function returns. */
  readonly relation?: Relation
  readonly isSet: boolean
  /** Returns a set, but declares ROWS 1. */
  readonly isOneRow: boolean
  readonly isVolatile: boolean
  /** The media type that the function returns, and whether as bytes. */
  readonly media?: { readonly type: string; readonly isBinary: boolean }
}

export interface Catalog {
  readonly version: number
  readonly schemas: readonly string[]
  relation(schema: string, name: string): Relation | undefined
  functions(schema: string, name: string): readonly Routine[]
  relationNames(schema: string): string[]
  functionNames(schema: string): string[]
  /** The schema of an extension, if it is installed. */
  extension(name: 'vector' | 'postgis'): string | undefined
  /** For rows of any type, by media type. */
  readonly handlers: ReadonlyMap<string, Handler>
}
