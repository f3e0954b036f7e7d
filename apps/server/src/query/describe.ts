// Builds the description of a schema: relations with their columns, foreign keys between all relations that show their
// columns, and computed fields.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import * as queries from './describe-queries.ts'
import {
  type Column,
  type Description,
  inputs,
  outputs,
  type Relation,
  type Relationship,
} from './description.ts'
import { type ViewColumn, viewColumns } from './view-columns.ts'

type Facts = Awaited<ReturnType<typeof collect>>

/** Describes the schemas asked for, or those of the default that exist. Needs a transaction with one snapshot. */
export async function describeSchemas(
  session: Session,
  asked: readonly string[],
  byDefault: readonly string[],
): Promise<Description> {
  await queries.fixSearchPath(session)
  const names = [...new Set(asked.length > 0 ? asked : byDefault)]
  const there = await queries.findSchemas(session, names)
  const missing = asked.find(name => !there.includes(name))
  if (missing !== undefined)
    throw new Refusal('schema_not_found', `The project has no schema ${JSON.stringify(missing)}`)
  return describe(
    session,
    names.filter(name => there.includes(name)),
  )
}

async function describe(session: Session, schemas: readonly string[]): Promise<Description> {
  const facts = await collect(session, schemas)
  const origins = originsOf(facts.rules)
  const relations = facts.relations.map(each => relationOf(each, facts, origins))
  const byOid = new Map(relations.map(relation => [relation.oid, relation]))
  for (const [place, relationships] of relationshipsOf(facts, origins, byOid))
    byOid.get(place)!.relationships = relationships
  const types = new Map(facts.types.map(({ oid, ...type }) => [oid, type]))
  addComputed(relations, facts, types)
  const { functions, enums, composites } = facts
  return { schemas: [...schemas], relations, functions, enums, composites, types }
}

async function collect(session: Session, schemas: readonly string[]) {
  const relations = await queries.findRelations(session, schemas)
  const foreignKeys = await queries.findForeignKeys(session)
  const rules = (await queries.findViewRules(session)).map(({ view, rule }) => ({
    view,
    columns: viewColumns(rule),
  }))
  // The columns of a view may come from tables of other schemas.
  const wanted = new Set([
    ...relations.map(({ oid }) => oid),
    ...foreignKeys.flatMap(({ relation, target }) => [relation, target]),
    ...rules.flatMap(({ columns }) => columns.flatMap(({ table }) => table ?? [])),
  ])
  const columns = await queries.findColumns(session, [...wanted])
  return {
    relations,
    foreignKeys,
    rules,
    columns: Map.groupBy(columns, ({ relation }) => relation),
    keys: await queries.findKeys(session),
    functions: await queries.findRoutines(session, schemas),
    types: await queries.findTypes(session),
    enums: await queries.findEnums(session, schemas),
    composites: await queries.findComposites(session, schemas),
  }
}

type Origins = ReadonlyMap<number, readonly ViewColumn[]>

/** The table columns that each view shows, directly or through other views. */
function originsOf(rules: Facts['rules']): Origins {
  const direct = new Map(rules.map(({ view, columns }) => [view, columns]))
  const resolve = (column: ViewColumn, depth: number): ViewColumn => {
    const below = column.table === undefined ? undefined : direct.get(column.table)
    if (!below || depth > 50) return column
    const origin = below[column.column! - 1]
    if (!origin) return { name: column.name, isNullable: true }
    const base = resolve(origin, depth + 1)
    return { ...base, name: column.name, isNullable: column.isNullable || base.isNullable }
  }
  return new Map(rules.map(({ view, columns }) => [view, columns.map(column => resolve(column, 0))]))
}

const kinds = { r: 'table', p: 'table', f: 'table', v: 'view', m: 'materialized view' } as const
const insertable = 8
const updatable = 4
const deletable = 16

function relationOf(fact: queries.RelationFacts, facts: Facts, origins: Origins): Relation {
  const { oid, schema, name, comment, anonMayDelete, anonMayUse } = fact
  const own = facts.columns.get(oid) ?? []
  const keys = facts.keys
    .filter(({ relation }) => relation === oid)
    .map(key => ({ isPrimary: key.isPrimary, name: key.name, columns: namesOf(own, key.columns) ?? [] }))
  const shown = origins.get(oid)
  const isNotNull = ({ isNotNull, name }: queries.ColumnFacts) =>
    shown
      ? isNeverNull(
          shown.find(column => column.name === name),
          facts,
        )
      : isNotNull
  return {
    oid,
    schema,
    name,
    kind: kinds[fact.kind],
    comment,
    columns: own.map(column => columnOf(column, !isNotNull(column))),
    isInsertable: (fact.updatable & insertable) > 0,
    isUpdatable: (fact.updatable & updatable) > 0,
    isDeletable: (fact.updatable & deletable) > 0,
    primaryKey: keys.find(({ isPrimary }) => isPrimary) ?? null,
    uniques: keys.filter(({ isPrimary }) => !isPrimary),
    relationships: [],
    computed: [],
    anonMayDelete,
    anonMayUse,
  }
}

const columnOf = (fact: queries.ColumnFacts, isNullable: boolean): Column => {
  const { relation, number, isNotNull, identity, ...rest } = fact
  return {
    ...rest,
    isNullable,
    identity: identity === 'a' ? 'always' : identity === 'd' ? 'by default' : null,
  }
}

function isNeverNull(origin: ViewColumn | undefined, { columns }: Facts): boolean {
  if (origin?.table === undefined || origin.isNullable) return false
  return columns.get(origin.table)?.find(({ number }) => number === origin.column)?.isNotNull ?? false
}

function namesOf(columns: readonly queries.ColumnFacts[], numbers: readonly number[]): string[] | undefined {
  const names = numbers.map(number => columns.find(column => column.number === number)?.name)
  return names.every(name => name !== undefined) ? names : undefined
}

/** Relationships for every foreign key, between its tables and all views that show its columns. */
function relationshipsOf(
  facts: Facts,
  origins: Origins,
  relations: ReadonlyMap<number, Relation>,
): Map<number, Relationship[]> {
  const viewsOf = Map.groupBy(
    [...origins].flatMap(([view, columns]) =>
      [...new Set(columns.map(({ table }) => table))].map(table => ({ view, table })),
    ),
    ({ table }) => table,
  )
  const showing = (table: number, numbers: readonly number[]) => {
    const places = [table, ...(viewsOf.get(table) ?? []).map(({ view }) => view)]
    return places.flatMap(oid => {
      const relation = relations.get(oid)
      if (!relation) return []
      const names =
        oid === table
          ? namesOf(facts.columns.get(table) ?? [], numbers)
          : numbers.map(number => origins.get(oid)!.find(o => o.table === table && o.column === number)?.name)
      return names?.every(name => name !== undefined) ? [{ relation, names, isDirect: oid === table }] : []
    })
  }
  const isUnique = (table: number, numbers: readonly number[]) =>
    facts.keys.some(({ relation, columns }) => relation === table && columns.every(n => numbers.includes(n)))

  const found = new Map<number, Relationship[]>()
  for (const key of facts.foreignKeys) {
    const isOneToOne = isUnique(key.relation, key.columns)
    for (const child of showing(key.relation, key.columns))
      for (const parent of showing(key.target, key.targetColumns)) {
        const list = found.get(child.relation.oid) ?? []
        found.set(child.relation.oid, list)
        list.push({
          name: key.name,
          columns: child.names,
          isOneToOne,
          referencedSchema: parent.relation.schema,
          referencedRelation: parent.relation.name,
          referencedColumns: parent.names,
          isDirect: child.isDirect && parent.isDirect,
          onUpdate: key.onUpdate,
          onDelete: key.onDelete,
        })
      }
  }
  for (const list of found.values()) list.sort(byNameAndTarget)
  return found
}

const byNameAndTarget = (a: Relationship, b: Relationship) =>
  compare(a.name, b.name) ||
  compare(a.referencedSchema, b.referencedSchema) ||
  compare(a.referencedRelation, b.referencedRelation)

export const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** A function of one row that returns a value is a computed field of that row. */
function addComputed(relations: Relation[], { functions }: Facts, types: Description['types']): void {
  const byOid = new Map(relations.map(relation => [relation.oid, relation]))
  for (const routine of functions) {
    const [only, ...others] = inputs(routine)
    if (!only || others.length > 0 || routine.returnsSet || outputs(routine).length > 0) continue
    const owner = byOid.get(types.get(only.type)?.relation ?? 0)
    const returned = types.get(routine.returnType)
    if (!owner || owner.schema !== routine.schema || returned?.kind === 'composite') continue
    if (owner.columns.some(({ name }) => name === routine.name)) continue
    owner.computed.push({ name: routine.name, type: routine.returnType })
  }
}
