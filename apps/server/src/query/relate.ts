// Relationships between relations, from foreign keys: in both directions, through junction tables, and for
// views that show the columns a foreign key is made of.
import type { Column, Junction, Relation, Relationship } from './catalog.ts'
import type { CatalogFacts } from './catalog-query.ts'
import { type ViewColumn, viewColumns } from './view-columns.ts'

type Positions = readonly number[]
type Pairs = readonly (readonly [string, string])[]

interface ForeignKey {
  name: string
  from: number
  columns: Positions
  to: number
  targetColumns: Positions
}

/** A relation that shows certain columns of a table, under its own names for them. */
interface Showing {
  relation: Relation
  names: readonly string[]
}

export function relate(
  facts: CatalogFacts,
  relations: ReadonlyMap<number, Relation>,
  columns: ReadonlyMap<number, ReadonlyMap<number, Column>>,
): void {
  const origins = originsOfViews(facts)
  const viewsOf = viewsByTable(origins, relations)
  const foreignKeys = facts.foreignKeys.map(
    ([name, from, own, to, targetColumns]): ForeignKey => ({ name, from, columns: own, to, targetColumns }),
  )
  const keys = Map.groupBy(facts.keys, ([relation]) => relation)

  const isUnique = (table: number, positions: Positions) =>
    (keys.get(table) ?? []).some(([, , key]) => key.every(position => positions.includes(position)))
  const isKeyPart = (table: number, positions: Positions) =>
    (keys.get(table) ?? []).some(([, , key]) => positions.every(position => key.includes(position)))

  function showing(table: number, positions: Positions): Showing[] {
    const found: Showing[] = []
    const itself = relations.get(table)
    if (itself) {
      const own = columns.get(table)!
      found.push({ relation: itself, names: positions.map(position => own.get(position)!.name) })
    }
    for (const view of viewsOf.get(table) ?? []) {
      const shown = origins.get(view.oid)!
      const names = positions.map(
        position => shown.find(origin => origin.table === table && origin.column === position)?.name,
      )
      if (names.every(name => name !== undefined)) found.push({ relation: view, names })
    }
    return found
  }

  for (const key of foreignKeys) {
    const parents = showing(key.to, key.targetColumns)
    if (parents.length === 0) continue
    const isOne = isUnique(key.from, key.columns)
    for (const child of showing(key.from, key.columns))
      for (const parent of parents) link(child, parent, key, isOne)
  }
  for (const [table, own] of Map.groupBy(foreignKeys, ({ from }) => from))
    if (own.length > 1) joinThrough(table, own)
  for (const relation of relations.values()) inheritPrimaryKey(relation, facts, origins)

  /** Every pair of references a table holds makes it a junction; the ones that are nothing else are inferred. */
  function joinThrough(table: number, own: readonly ForeignKey[]): void {
    for (const left of own)
      for (const right of own) {
        if (left === right) continue
        const both = [...left.columns, ...right.columns]
        const junction = showing(table, both)[0]
        if (!junction) continue
        const leftNames = junction.names.slice(0, left.columns.length)
        const rightNames = junction.names.slice(left.columns.length)
        const isInferred = isKeyPart(table, both)
        for (const one of showing(left.to, left.targetColumns))
          for (const other of showing(right.to, right.targetColumns))
            one.relation.relationships.push({
              cardinality: 'many-to-many',
              target: other.relation,
              constraint: `${left.name}, ${right.name}`,
              columns: pairs(one.names, leftNames),
              isSelf: one.relation === other.relation,
              junction: {
                schema: junction.relation.schema,
                name: junction.relation.name,
                columns: pairs(rightNames, other.names),
                constraints: [left.name, right.name],
                isInferred,
              } satisfies Junction,
            })
      }
  }
}

function link(child: Showing, parent: Showing, { name }: ForeignKey, isOne: boolean): void {
  const common = { constraint: name, isSelf: child.relation === parent.relation }
  child.relation.relationships.push({
    ...common,
    cardinality: 'many-to-one',
    target: parent.relation,
    columns: pairs(child.names, parent.names),
  } satisfies Relationship)
  parent.relation.relationships.push({
    ...common,
    cardinality: isOne ? 'one-to-one' : 'one-to-many',
    target: child.relation,
    columns: pairs(parent.names, child.names),
  } satisfies Relationship)
}

const pairs = (own: readonly string[], theirs: readonly string[]): Pairs =>
  own.map((name, index) => [name, theirs[index]!] as const)

/** Per view, the table columns it shows, with views it stands on resolved to their tables. */
function originsOfViews({ views }: CatalogFacts): Map<number, readonly ViewColumn[]> {
  const direct = new Map(views.map(([oid, evAction]) => [oid, viewColumns(evAction)]))
  const resolve = (column: ViewColumn, depth = 0): ViewColumn => {
    const below = column.table === undefined ? undefined : direct.get(column.table)
    if (!below || depth > 50) return column
    const origin = below[column.column! - 1]
    if (!origin) return { name: column.name, isNullable: true }
    const base = resolve(origin, depth + 1)
    return { ...base, name: column.name, isNullable: column.isNullable || base.isNullable }
  }
  return new Map([...direct].map(([oid, columns]) => [oid, columns.map(column => resolve(column))]))
}

function viewsByTable(
  origins: ReadonlyMap<number, readonly ViewColumn[]>,
  relations: ReadonlyMap<number, Relation>,
): Map<number, Relation[]> {
  const found = new Map<number, Relation[]>()
  for (const [oid, columns] of origins) {
    const view = relations.get(oid)
    if (!view) continue
    for (const table of new Set(columns.map(column => column.table))) {
      if (table === undefined) continue
      const views = found.get(table)
      if (views) views.push(view)
      else found.set(table, [view])
    }
  }
  return found
}

/** A view that shows all of a table's primary key has that key, too. */
function inheritPrimaryKey(
  relation: Relation,
  { keys }: CatalogFacts,
  origins: ReadonlyMap<number, readonly ViewColumn[]>,
): void {
  const shown = origins.get(relation.oid)
  if (!shown) return
  for (const [table, isPrimary, key] of keys) {
    if (!isPrimary) continue
    const names = key.map(
      position => shown.find(origin => origin.table === table && origin.column === position)?.name,
    )
    if (!names.every(name => name !== undefined)) continue
    ;(relation as { primaryKey: readonly string[] }).primaryKey = names
    return
  }
}
