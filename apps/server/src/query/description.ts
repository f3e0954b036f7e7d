// The description of a project's schema from which types and documents are generated. Its order is fixed, so that the
// same schema always generates the same text.

export interface Description {
  /** In the order in which they were asked for. */
  schemas: string[]
  relations: Relation[]
  functions: Routine[]
  enums: EnumType[]
  composites: CompositeType[]
  types: ReadonlyMap<number, TypeInfo>
}

/** Privileges of the role `anon` on a column. */
export interface Rights {
  select: boolean
  insert: boolean
  update: boolean
}

export interface Relation {
  oid: number
  schema: string
  name: string
  kind: 'table' | 'view' | 'materialized view'
  comment: string | null
  columns: Column[]
  isInsertable: boolean
  isUpdatable: boolean
  isDeletable: boolean
  primaryKey: Key | null
  uniques: Key[]
  relationships: Relationship[]
  /** Functions that take one row and return a value. Clients select them like columns. */
  computed: ComputedField[]
  anonMayDelete: boolean
  anonMayUse: boolean
}

export interface Key {
  name: string
  columns: string[]
}

export interface Column {
  name: string
  /** Oid of its type. */
  type: number
  /** The type as SQL. */
  sqlType: string
  isNullable: boolean
  default: string | null
  identity: 'always' | 'by default' | null
  isGenerated: boolean
  isSerial: boolean
  isUpdatable: boolean
  comment: string | null
  anon: Rights
}

export interface Relationship {
  name: string
  columns: string[]
  isOneToOne: boolean
  referencedSchema: string
  referencedRelation: string
  referencedColumns: string[]
  /** Between two tables, not views. */
  isDirect: boolean
  onUpdate: string
  onDelete: string
}

export interface ComputedField {
  name: string
  type: number
}

export interface Parameter {
  name: string
  type: number
  mode: 'in' | 'out' | 'inout' | 'variadic' | 'table'
  hasDefault: boolean
}

export interface Routine {
  schema: string
  name: string
  parameters: Parameter[]
  returnType: number
  returnsSet: boolean
  /** Returns a set, but declares ROWS 1. */
  isOneRow: boolean
  isVolatile: boolean
  comment: string | null
  anonMayCall: boolean
}

export interface EnumType {
  schema: string
  name: string
  labels: string[]
}

export interface CompositeType {
  schema: string
  name: string
  attributes: { name: string; type: number }[]
}

export interface TypeInfo {
  schema: string
  name: string
  kind: 'base' | 'array' | 'enum' | 'domain' | 'composite' | 'range' | 'pseudo'
  /** The element type of an array, or the base type of a domain. */
  of: number
  /** The relation whose row type a composite is, or 0. */
  relation: number
  labels: string[]
  /** The type has its own cast to json, which Postgres uses for values in JSON. */
  castsToJson: boolean
}

/** The parameters that a caller passes. */
export const inputs = ({ parameters }: Routine): Parameter[] =>
  parameters.filter(({ mode }) => mode === 'in' || mode === 'inout' || mode === 'variadic')

/** The columns of a result that the function declares itself. */
export const outputs = ({ parameters }: Routine): Parameter[] =>
  parameters.filter(({ mode }) => mode === 'out' || mode === 'inout' || mode === 'table')

/** Resolves domains to their base type, but not arrays to their element type. */
export function baseOf(type: number, types: Description['types']): TypeInfo | undefined {
  let info = types.get(type)
  for (let depth = 0; info?.kind === 'domain' && depth < 50; depth++) info = types.get(info.of)
  return info
}

/** Can be called with named arguments, or has one unnamed parameter, which takes a whole request body. */
export function isCallable(routine: Routine): boolean {
  const given = inputs(routine)
  return given.every(({ name }) => name !== '') || given.length === 1
}
