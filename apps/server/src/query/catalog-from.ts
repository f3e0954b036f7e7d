// Builds the catalogue from the facts that Postgres returned, in slices.
import type { Sliced } from '#src/kernel/slices.ts'
import type { Catalog, Column, Handler, Relation, Representation, Routine } from './catalog.ts'
import type { CatalogFacts, RoutineFacts } from './catalog-query.ts'
import { relate } from './relate.ts'

/** Relations or functions in one slice. A relation has at most 1600 columns, but most have a few. */
export const sliceSize = 200
/** Facts that cost one entry of a map each. */
const manyInSlice = 5000

/** Overloads of one name. Every call looks at all of them, so the others cannot be called. They may be computed fields. */
export const maxOverloads = 100

export function* catalogFrom(facts: CatalogFacts, schemas: readonly string[]): Sliced<Catalog> {
  const representations = yield* representationsFrom(facts)
  const columns = new Map<number, Map<number, Column>>()
  const relations = new Map<number, Relation>()
  const rowTypes = new Map<number, Relation>()
  const byName = new Map<string, Relation>()
  for (const { oid, schema, name, kind, type } of facts.relations) {
    const own = columnsOf(facts, oid, representations)
    columns.set(oid, own)
    const relation: Relation = {
      oid,
      schema,
      name,
      isView: kind === 'v' || kind === 'm',
      columns: named(own),
      primaryKey: [],
      keys: [],
      relationships: [],
      computed: new Map(),
      handlers: new Map(),
    }
    relations.set(oid, relation)
    rowTypes.set(type, relation)
    byName.set(`${schema}\0${name}`, relation)
    if (relations.size % sliceSize === 0) yield
  }
  yield* relate(facts, relations, columns)

  const functions = new Map<string, Routine[]>()
  for (const [index, each] of facts.functions.entries()) {
    if (index % sliceSize === sliceSize - 1) yield
    const routine = routineFrom(each, relations, facts, representations)
    const key = `${routine.schema}\0${routine.name}`
    const overloads = functions.get(key)
    if (!overloads) functions.set(key, [routine])
    else if (overloads.length < maxOverloads) overloads.push(routine)
    const [only] = routine.parameters
    const ofRow = routine.parameters.length === 1 && rowTypes.get(only!.typeOid)
    if (ofRow && !ofRow.computed.has(routine.name)) ofRow.computed.set(routine.name, routine)
  }

  const handlers = new Map<string, Handler>()
  for (const [index, { mediaType, relation, schema, name, isBinary }] of facts.handlers.entries()) {
    if (index % manyInSlice === manyInSlice - 1) yield
    const own = relation === 0 ? handlers : relations.get(relation)!.handlers
    if (!own.has(mediaType)) own.set(mediaType, { schema, name, isBinary })
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
    extension: name => facts.extensions.get(name),
    handlers,
  }
}

const named = (columns: ReadonlyMap<number, Column>): Map<string, Column> =>
  new Map([...columns.values()].map(column => [column.name, column]))

/** By the oid of the domain. */
type Representations = ReadonlyMap<number, Representation>

const castNames = {
  to: { json: 'toJson', text: 'toText' },
  from: { json: 'fromJson', text: 'fromText' },
} as const

function* representationsFrom({ representations }: CatalogFacts): Sliced<Representations> {
  const byDomain = new Map<number, Representation>()
  for (const [index, [domain, direction, format, schema, name]] of representations.entries()) {
    if (index % manyInSlice === manyInSlice - 1) yield
    const known = byDomain.get(domain) ?? {}
    byDomain.set(domain, known)
    known[castNames[direction][format]] = { schema, name }
  }
  return byDomain
}

function columnsOf(
  { columns }: CatalogFacts,
  relation: number,
  representations: Representations,
): Map<number, Column> {
  const found = new Map<number, Column>()
  for (const [, position, name, type, base, isArray, byDefault, typeOid] of columns.get(relation) ?? []) {
    const representation = representations.get(typeOid)
    const column = { name, type, base, isArray, byDefault }
    found.set(position, representation ? { ...column, representation } : column)
  }
  return found
}

const isInput = (mode: string) => mode === 'i' || mode === 'b' || mode === 'v'
const isOutput = (mode: string) => mode === 'o' || mode === 'b' || mode === 't'

function routineFrom(
  facts: RoutineFacts,
  relations: ReadonlyMap<number, Relation>,
  all: CatalogFacts,
  representations: Representations,
): Routine {
  const names = facts.argNames ?? []
  const types = facts.argTypes ?? []
  const parameters = types.map((type, index) => ({
    name: names[index] ?? '',
    type,
    typeOid: facts.argOids?.[index] ?? 0,
    mode: facts.argModes?.[index] ?? 'i',
  }))
  const inputs = parameters.filter(({ mode }) => isInput(mode))
  const outputs = parameters.filter(({ mode }) => isOutput(mode))
  const relation = relations.get(facts.returnRelation)
  const outColumns = outputs.map(({ name, type, typeOid }, index): Column => {
    const representation = representations.get(typeOid)
    return {
      // The name that Postgres gives to an unnamed column.
      name: name || `column${index + 1}`,
      type,
      base: typeOid,
      isArray: type.endsWith('[]'),
      byDefault: null,
      ...(representation && { representation }),
    }
  })
  const returnedColumns =
    outColumns.length > 0
      ? new Map(outColumns.map(column => [column.name, column]))
      : named(columnsOf(all, facts.returnRelation, representations))
  return {
    oid: facts.oid,
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
        : outColumns.length > 0 || facts.returnKind === 'c'
          ? 'row'
          : facts.returns === 'record'
            ? 'record'
            : 'scalar',
    type: facts.returns,
    columns: relation?.columns ?? returnedColumns,
    ...(relation && { relation }),
    isSet: facts.isSet,
    isOneRow: facts.isOneRow,
    isVolatile: facts.volatility === 'v',
    ...(facts.mediaType && { media: { type: facts.mediaType, isBinary: facts.isBinary } }),
  }
}
