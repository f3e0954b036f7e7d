// What generated types and documents need to know of a project's schema, with names instead of the numbers the
// catalogue keeps. Everything is in a fixed order, so that the same schema always reads the same.

export interface Description {
  /** The schemas described, in the order asked for. */
  schemas: string[]
  relations: Relation[]
  functions: Routine[]
  enums: EnumType[]
  composites: CompositeType[]
  types: ReadonlyMap<number, TypeInfo>
}

/** What the role of an unknown caller may do. */
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
  /** Functions that take one row of it and return a value: fields that can be asked for by name. */
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
  /** As written in SQL. */
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
  /** Between two tables, not read through a view. */
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
  /** A set declared to hold one row. */
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
  /** Of an array: its element; of a domain: what it is made of. */
  of: number
  /** Of a composite: the relation whose row it is, if it is one's. */
  relation: number
  labels: string[]
  /** It has a cast to json of its own, and is shown as that. */
  castsToJson: boolean
}

/** The parameters a caller gives. */
export const inputs = ({ parameters }: Routine): Parameter[] =>
  parameters.filter(({ mode }) => mode === 'in' || mode === 'inout' || mode === 'variadic')

/** The columns of a result that is declared with the function itself. */
export const outputs = ({ parameters }: Routine): Parameter[] =>
  parameters.filter(({ mode }) => mode === 'out' || mode === 'inout' || mode === 'table')

/** Through arrays stays; through domains goes. */
export function baseOf(type: number, types: Description['types']): TypeInfo | undefined {
  let info = types.get(type)
  for (let depth = 0; info?.kind === 'domain' && depth < 50; depth++) info = types.get(info.of)
  return info
}

/** Can be called over HTTP: every parameter has a name, or there is a single one without. */
export function isCallable(routine: Routine): boolean {
  const given = inputs(routine)
  return given.every(({ name }) => name !== '') || given.length === 1
}
