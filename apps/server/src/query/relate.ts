// Adds relationships to the relations of a catalogue: for each foreign key in both directions, also between views that
// show its columns. `relationship.ts` finds junctions when a query names one.
import type { Sliced } from '#src/kernel/slices.ts'
import type { Column, Relation, Relationship } from './catalog.ts'
import type { CatalogFacts } from './catalog-query.ts'
import { type ViewColumn, viewColumns } from './view-columns.ts'

/** Beyond this number, views get no relationships. Each foreign key has one for every pair of views. */
const maxLinks = 50_000
/** Of one slice: keys or links; views, each with up to 1600 columns; characters of view definitions. */
const slice = { count: 1000, views: 20, characters: 100_000 }

type Positions = readonly number[]
type Pairs = readonly (readonly [string, string])[]

interface ForeignKey {
  name: string
  from: number
  columns: Positions
  to: number
  targetColumns: Positions
}

/** A relation that shows certain columns of a table, with its own names for them. */
interface Showing {
  relation: Relation
  names: readonly string[]
}

export function* relate(
  facts: CatalogFacts,
  relations: ReadonlyMap<number, Relation>,
  columns: ReadonlyMap<number, ReadonlyMap<number, Column>>,
): Sliced<void> {
  const origins = yield* originsOfViews(facts)
  const viewsOf = yield* viewsByTable(origins, relations)
  const foreignKeys = facts.foreignKeys.map(
    ([name, from, own, to, targetColumns]): ForeignKey => ({ name, from, columns: own, to, targetColumns }),
  )
  const keys = Map.groupBy(facts.keys, ([relation]) => relation)
  const shownBy = new Map<number, Map<string, string>>()
  let links = 0

  const isUnique = (table: number, positions: Positions) =>
    (keys.get(table) ?? []).some(([, , key]) => key.every(position => positions.includes(position)))

  /** The names of a view's columns by the table columns they show. */
  function shownIn(view: number): Map<string, string> {
    const known = shownBy.get(view) ?? namesByOrigin(origins.get(view) ?? [])
    shownBy.set(view, known)
    return known
  }

  /** The relation's names for these columns of a table, if it shows all of them. */
  function namesIn({ oid, isView }: Relation, table: number, positions: Positions): string[] | undefined {
    const own = columns.get(oid)
    const names = positions.map(position =>
      isView ? shownIn(oid).get(`${table}.${position}`) : own?.get(position)?.name,
    )
    return names.every(name => name !== undefined) ? names : undefined
  }

  function showing(table: number, positions: Positions): Showing[] {
    const itself = relations.get(table)
    return [...(itself ? [itself] : []), ...(viewsOf.get(table) ?? [])].flatMap(relation => {
      const names = namesIn(relation, table, positions)
      return names ? [{ relation, names }] : []
    })
  }

  /** A view that shows all columns of a table's key has that key, too. */
  function nameKeys(relation: Relation): void {
    const tables = relation.isView
      ? new Set(origins.get(relation.oid)?.flatMap(({ table }) => table ?? []))
      : [relation.oid]
    for (const table of tables)
      for (const [, isPrimary, key] of keys.get(table) ?? []) {
        const names = namesIn(relation, table, key)
        if (!names) continue
        relation.keys.push(names)
        if (isPrimary && relation.primaryKey.length === 0) relation.primaryKey.push(...names)
      }
  }

  let done = 0
  for (const key of foreignKeys) {
    if (++done % slice.count === 0) yield
    const parents = showing(key.to, key.targetColumns)
    if (parents.length === 0) continue
    const isOne = isUnique(key.from, key.columns)
    for (const child of showing(key.from, key.columns))
      for (const parent of parents) {
        if (links >= maxLinks && (child.relation.isView || parent.relation.isView)) continue
        link(child, parent, key, isOne)
        if (++links % slice.count === 0) yield
      }
  }
  for (const relation of relations.values()) {
    if (++done % slice.views === 0) yield
    nameKeys(relation)
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

/** The table columns that each view shows, directly or through other views. */
function* originsOfViews({ views }: CatalogFacts): Sliced<Map<number, readonly ViewColumn[]>> {
  const direct = new Map<number, ViewColumn[]>()
  let characters = 0
  for (const [oid, evAction] of views) {
    direct.set(oid, viewColumnsOrNone(evAction))
    characters += evAction.length
    if (characters < slice.characters) continue
    characters = 0
    yield
  }
  const resolve = (column: ViewColumn, depth = 0): ViewColumn => {
    const below = column.table === undefined ? undefined : direct.get(column.table)
    if (!below || depth > 50) return column
    const origin = below[column.column! - 1]
    if (!origin) return { name: column.name, isNullable: true }
    const base = resolve(origin, depth + 1)
    return { ...base, name: column.name, isNullable: column.isNullable || base.isNullable }
  }
  const origins = new Map<number, readonly ViewColumn[]>()
  for (const [oid, columns] of direct) {
    origins.set(
      oid,
      columns.map(column => resolve(column)),
    )
    if (origins.size % slice.views === 0) yield
  }
  return origins
}

/** An expression that nests too deep to parse overflows the stack. Such a view has no relationships. */
function viewColumnsOrNone(evAction: string): ViewColumn[] {
  try {
    return viewColumns(evAction)
  } catch (error) {
    if (error instanceof RangeError) return []
    throw error
  }
}

/** A column that a view shows twice has the first name. */
const namesByOrigin = (shown: readonly ViewColumn[]): Map<string, string> =>
  new Map(shown.toReversed().map(({ table, column, name }) => [`${table}.${column}`, name]))

function* viewsByTable(
  origins: ReadonlyMap<number, readonly ViewColumn[]>,
  relations: ReadonlyMap<number, Relation>,
): Sliced<Map<number, Relation[]>> {
  const found = new Map<number, Relation[]>()
  let done = 0
  for (const [oid, columns] of origins) {
    if (++done % slice.views === 0) yield
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
