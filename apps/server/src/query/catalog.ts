// What the row API knows of a project's schema: relations, their columns and relationships, and functions.
// Read from Postgres as one JSON text, immutable afterwards, and good for one version of the schema.
import { relate } from './relate.ts'

export interface Column {
  readonly name: string
  /** As written in SQL. */
  readonly type: string
  /** Oid of the type, or of what a domain is made of. */
  readonly base: number
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
  readonly primaryKey: readonly string[]
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
  readonly schema: string
  readonly name: string
  /** Column of the junction and the target's column which it equals. */
  readonly columns: readonly (readonly [own: string, theirs: string])[]
  readonly constraints: readonly [toOwn: string, toTarget: string]
  /** Its key is made of both references, so it stands for the relationship and nothing else. */
  readonly isInferred: boolean
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

/** The answer of `catalogQuery`. */
export interface CatalogFacts {
  version: number
  relations: { oid: number; schema: string; name: string; kind: string; type: number }[]
  columns: [
    relation: number,
    position: number,
    name: string,
    type: string,
    base: number,
    byDefault: string | null,
  ][]
  keys: [relation: number, isPrimary: boolean, columns: number[]][]
  foreignKeys: [name: string, relation: number, columns: number[], target: number, targetColumns: number[]][]
  views: [oid: number, evAction: string][]
  functions: RoutineFacts[]
  extensions: Record<string, string>
}

interface RoutineFacts {
  schema: string
  name: string
  argNames: string[] | null
  argModes: string[] | null
  argTypes: string[] | null
  argOids: number[] | null
  defaults: number
  isVariadic: boolean
  returns: string
  returnKind: string
  returnRelation: number
  isSet: boolean
  isOneRow: boolean
  volatility: string
}

export function catalogFrom(facts: CatalogFacts, schemas: readonly string[]): Catalog {
  const columns = columnsByRelation(facts)
  const relations = new Map<number, Relation>()
  const rowTypes = new Map<number, Relation>()
  const byName = new Map<string, Relation>()
  const primaryKeys = new Map(
    facts.keys.filter(([, isPrimary]) => isPrimary).map(([relation, , key]) => [relation, key]),
  )
  for (const { oid, schema, name, kind, type } of facts.relations) {
    const own = columns.get(oid) ?? new Map<number, Column>()
    const relation: Relation = {
      oid,
      schema,
      name,
      isView: kind === 'v' || kind === 'm',
      columns: named(own),
      primaryKey: (primaryKeys.get(oid) ?? []).map(position => own.get(position)!.name),
      relationships: [],
      computed: new Map(),
    }
    relations.set(oid, relation)
    rowTypes.set(type, relation)
    byName.set(`${schema}\0${name}`, relation)
  }
  relate(facts, relations, columns)

  const functions = new Map<string, Routine[]>()
  for (const each of facts.functions) {
    const routine = routineFrom(each, relations, columns)
    const key = `${routine.schema}\0${routine.name}`
    const overloads = functions.get(key)
    if (overloads) overloads.push(routine)
    else functions.set(key, [routine])
    const [only] = routine.parameters
    const ofRow = routine.parameters.length === 1 && rowTypes.get(only!.typeOid)
    if (ofRow && !ofRow.computed.has(routine.name)) ofRow.computed.set(routine.name, routine)
  }

  const namesIn = (map: ReadonlyMap<string, unknown>, schema: string) =>
    [...map.keys()].filter(key => key.startsWith(`${schema}\0`)).map(key => key.slice(schema.length + 1))
  return {
    version: facts.version,
    schemas,
    relation: (schema, name) => byName.get(`${schema}\0${name}`),
    functions: (schema, name) => functions.get(`${schema}\0${name}`) ?? [],
    relationNames: schema => namesIn(byName, schema),
    functionNames: schema => namesIn(functions, schema),
    extension: name => facts.extensions[name],
  }
}

const named = (columns: ReadonlyMap<number, Column>): Map<string, Column> =>
  new Map([...columns.values()].map(column => [column.name, column]))

function columnsByRelation({ columns }: CatalogFacts): Map<number, Map<number, Column>> {
  const found = new Map<number, Map<number, Column>>()
  for (const [relation, position, name, type, base, byDefault] of columns) {
    const own = found.get(relation) ?? new Map<number, Column>()
    own.set(position, { name, type, base, byDefault })
    found.set(relation, own)
  }
  return found
}

const isInput = (mode: string) => mode === 'i' || mode === 'b' || mode === 'v'
const isOutput = (mode: string) => mode === 'o' || mode === 'b' || mode === 't'

function routineFrom(
  facts: RoutineFacts,
  relations: ReadonlyMap<number, Relation>,
  columns: ReadonlyMap<number, ReadonlyMap<number, Column>>,
): Routine {
  const names = facts.argNames ?? []
  const types = facts.argTypes ?? []
  const all = types.map((type, index) => ({
    name: names[index] ?? '',
    type,
    typeOid: facts.argOids?.[index] ?? 0,
    mode: facts.argModes?.[index] ?? 'i',
  }))
  const inputs = all.filter(({ mode }) => isInput(mode))
  const outputs = all.filter(({ mode }) => isOutput(mode))
  const relation = relations.get(facts.returnRelation)
  const outColumns = outputs.map(
    ({ name, type, typeOid }, index): Column => ({
      // Postgres names what was left without a name.
      name: name || `column${index + 1}`,
      type,
      base: typeOid,
      byDefault: null,
    }),
  )
  const returnedColumns =
    outColumns.length > 0
      ? new Map(outColumns.map(column => [column.name, column]))
      : named(columns.get(facts.returnRelation) ?? new Map())
  return {
    schema: facts.schema,
    name: facts.name,
    parameters: inputs.map(({ name, type, typeOid }, index) => ({
      name,
      type,
      typeOid,
      hasDefault: index >= inputs.length - facts.defaults,
      isVariadic: facts.isVariadic && index === inputs.length - 1,
    })),
    returns:
      facts.returns === 'void'
        ? 'void'
        : outColumns.length > 0 || facts.returnKind === 'c' || facts.returns === 'record'
          ? 'row'
          : 'scalar',
    type: facts.returns,
    columns: relation?.columns ?? returnedColumns,
    ...(relation && { relation }),
    isSet: facts.isSet,
    isOneRow: facts.isOneRow,
    isVolatile: facts.volatility === 'v',
  }
}
