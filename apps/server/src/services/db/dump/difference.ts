// Computes the statements that turn one schema into another. What is dropped and created again is dropped before all other
// changes, with everything that depends on it, and gets its grants again. Changes that cannot be expressed are listed as
// comments.
import type { Sliced } from '#src/kernel/slices.ts'
import { collect, groupBy, sliceCounter } from './collections.ts'
import { type TableChange, tableChange } from './column-changes.ts'
import type { Definition } from './definitions-store.ts'
import type { Dependency } from './dependencies-store.ts'
import { neededBy, removedWith } from './dependents.ts'
import { enumChange } from './enum-changes.ts'
import { grantChanges } from './grants.ts'
import { type Schema, scriptFrom } from './schema.ts'
import { includes } from './text-search.ts'

/** The script in chunks; empty if the schemas are equal. */
export function* differenceScript(from: Schema, to: Schema): Sliced<string[]> {
  const pairs = yield* pairsOf(from, to)
  const isKept = ({ id }: Definition) => pairs.kept.has(id)
  // What a table of both schemas depends on cannot be dropped before the table is changed.
  const needed = yield* neededBy(
    from,
    yield* collect(from.definitions, each => (isTable(each) && isKept(each) ? [each.id] : [])),
  )
  const { inPlace, replaced, tables, labels, byHand } = yield* changesOf(from, to, pairs.before, needed)
  const dropped = yield* collect(from.definitions, each => (isKept(each) ? [] : [each.id]))
  const canBeReplaced = (definition: Definition) =>
    !isKept(definition) || !(isHolder(definition) || needed.has(definition.id))
  const removed = yield* removedWith(from, [...dropped, ...replaced], tables, canBeReplaced)

  const isLast = (definition: Definition) => needed.has(definition.id) && !isSequence(definition)
  const undone = yield* undoneBy(removed, yield* droppedWithOthers(from, to, removed, tables), from)
  const created = new Set(
    yield* collect(to.definitions, ({ id }) => {
      const old = pairs.before.get(id)
      return !old || removed.has(old.id) ? [id] : []
    }),
  )
  const changes = [...tables.values()]
  const numbered = new Set(yield* collect(changes, each => [...each.numbered]))
  const droppedColumns = new Set(
    yield* collect(changes, each => [...each.dropped].map(column => `${each.table} ${column}`)),
  )
  const statements = [
    ...(yield* collect(changes, ({ first }) => first)),
    ...(yield* collect(undone, each => (isLast(each) ? [] : [each.undo]))),
    ...(yield* collect(to.definitions, ({ id, sql }) => (created.has(id) ? [sql] : (inPlace.get(id) ?? [])))),
    ...(yield* collect(undone, each => (isLast(each) ? [each.undo] : []))),
    ...(yield* collect(changes, ({ last }) => last)),
    ...(yield* grantChanges(from.grants, to.grants, {
      hasObject: ({ id, identityOf }) =>
        created.has(id) ||
        (identityOf !== null && (numbered.has(identityOf) || droppedColumns.has(identityOf))),
      hasColumn: (table, column) => droppedColumns.has(`${table} ${column}`),
    })),
  ]
  const without = function* (some: readonly string[], others: readonly string[]) {
    const known = new Set(others)
    return yield* collect(some, each => (known.has(each) ? [] : [each]))
  }
  const script = yield* scriptFrom(statements, [
    ...byHand,
    ...(yield* without(to.omitted, from.omitted)),
    ...(yield* without(from.omitted, to.omitted)).map(what => `${what}, which is to be dropped`),
  ])
  // Postgres refuses a new label in the transaction that has added it.
  return (yield* useLabels(statements, labels)) ? ['-- no-transaction\n', ...script] : script
}

interface Pairs {
  /** Old definitions by the id of the new one. */
  before: Map<string, Definition>
  /** Ids of old definitions that have a new one. */
  kept: Set<string>
}

/** Pairs by name, because oids differ between databases. */
function* pairsOf(from: Schema, to: Schema): Sliced<Pairs> {
  const isComplete = sliceCounter()
  const byName = yield* groupBy(from.definitions, keyOf)
  const pairs: Pairs = { before: new Map(), kept: new Set() }
  for (const definition of to.definitions) {
    if (isComplete()) yield
    const old = byName.get(keyOf(definition))
    if (!old) continue
    pairs.before.set(definition.id, old.at(-1)!)
    for (const { id } of old) pairs.kept.add(id)
  }
  return pairs
}

/** The definitions to drop, in the order in which they can be dropped. */
function* undoneBy(
  removed: ReadonlySet<string>,
  isImplied: (definition: Definition) => boolean,
  { definitions }: Schema,
): Sliced<Definition[]> {
  const isComplete = sliceCounter()
  const undone: Definition[] = []
  for (const each of definitions) {
    if (isComplete(1 + Math.ceil(Math.min(each.sql.length, longestFirstLine) / charactersPerUnit))) yield
    if (removed.has(each.id) && !isImplied(each)) undone.push(each)
  }
  return undone.reverse()
}

/** Whether a statement besides those that add the labels uses one of them. */
function* useLabels(statements: readonly string[], labels: readonly NewLabel[]): Sliced<boolean> {
  if (labels.length === 0) return false
  // Looking for many would take long.
  if (labels.length > 100) return true
  const byType = [...Map.groupBy(labels, ({ type }) => type)]
  for (const statement of statements)
    for (const [type, ofType] of byType) {
      yield
      if (!(yield* includes(statement, `::${type}`))) continue
      for (const { text } of ofType) {
        yield
        if (yield* includes(statement, text)) return true
      }
    }
  return false
}

interface NewLabel {
  type: string
  /** As in a literal, without the quotes. */
  text: string
}

const keyOf = ({ id, rank, name }: Definition) => `${kindOf(id)} ${rank} ${name}`

const kindOf = (id: string) => id.slice(0, id.indexOf(':'))
const isSchema = ({ id }: Definition) => kindOf(id) === 'pg_namespace'
const isSequence = ({ id, rank }: Definition) => kindOf(id) === 'pg_class' && rank === 3
const isTable = ({ id, rank }: Definition) => kindOf(id) === 'pg_class' && rank === 5
const isView = ({ rank }: Definition) => rank === 7
const isComment = ({ id }: Definition) => kindOf(id) === 'comment'
/** It would lose rows or values, or what belongs to others. */
const isHolder = (definition: Definition) =>
  isTable(definition) ||
  isSequence(definition) ||
  isSchema(definition) ||
  kindOf(definition.id) === 'pg_extension'

interface Changes {
  /** Statements by the id of the new definition. */
  inPlace: Map<string, string[]>
  /** Ids of old definitions that are dropped and created again. */
  replaced: string[]
  /** By the id of the old definition. */
  tables: Map<string, TableChange>
  /** Labels that enums get. */
  labels: NewLabel[]
  byHand: string[]
}

function* changesOf(
  from: Schema,
  to: Schema,
  before: ReadonlyMap<string, Definition>,
  needed: ReadonlySet<string>,
): Sliced<Changes> {
  const isComplete = sliceCounter()
  const columnsBefore = yield* groupBy(from.columns, ({ table }) => table)
  const columnsAfter = yield* groupBy(to.columns, ({ table }) => table)
  const changes: Changes = { inPlace: new Map(), replaced: [], tables: new Map(), labels: [], byHand: [] }
  for (const definition of to.definitions) {
    if (isComplete()) yield
    const old = before.get(definition.id)
    if (!old || old.sql === definition.sql) continue
    if (isTable(definition)) {
      yield
      const own = (columns: typeof columnsAfter) => columns.get(definition.name) ?? []
      const change = yield* tableChange(
        old,
        definition,
        own(columnsBefore),
        own(columnsAfter),
        from.canSetExpression,
      )
      changes.tables.set(old.id, change)
      changes.inPlace.set(definition.id, change.statements)
      changes.byHand.push(...change.byHand)
      continue
    }
    const added = yield* enumChange(old, definition)
    for (const text of added?.labels ?? []) changes.labels.push({ type: definition.name, text })
    const statements = added?.statements ?? statementsInPlace(old, definition)
    if (statements) changes.inPlace.set(definition.id, statements)
    else if (!isHolder(old) && !needed.has(old.id)) changes.replaced.push(old.id)
    else changes.byHand.push(`${definition.name}, which differs`)
  }
  return changes
}

/** Undefined if it must be created again. */
function statementsInPlace(old: Definition, definition: Definition): string[] | undefined {
  const kind = kindOf(definition.id)
  if (kind === 'rls') return [old.undo, definition.sql]
  if (restated.has(kind)) return [definition.sql]
  if (isSequence(definition)) return sequenceChange(old, definition)
  const [shape, newShape] = [old.shape, definition.shape]
  if (!shape || !newShape || shape.some((part, place) => part !== newShape[place])) return
  return [definition.sql.replace(/^create view/, 'create or replace view')]
}

/** Kinds whose statement can run again. */
const restated = new Set(['comment', 'owned', 'identity', 'replica', 'pg_attrdef'])

function sequenceChange(old: Definition, { name, sql }: Definition): string[] | undefined {
  const [beginning, options] = [sql.slice(0, sql.indexOf(name)), sql.slice(sql.indexOf(name) + name.length)]
  if (!old.sql.startsWith(beginning)) return
  return [`alter sequence ${name}${options}${options.endsWith(' cycle') ? '' : ' no cycle'}`]
}

/** What Postgres drops with a table, a view or a column, and comments on what is dropped. */
function* droppedWithOthers(
  from: Schema,
  to: Schema,
  removed: ReadonlySet<string>,
  tables: ReadonlyMap<string, TableChange>,
): Sliced<(definition: Definition) => boolean> {
  const isRelation = (definition: Definition) => isTable(definition) || isView(definition)
  const relations = new Set(
    yield* collect(from.definitions, each => (removed.has(each.id) && isRelation(each) ? [each.name] : [])),
  )
  const isDropped = ({ to: id, columns }: Dependency) =>
    removed.has(id) || columns.some(column => tables.get(id)?.dropped.has(column))
  const commented = new Set(
    yield* collect(from.needs, each =>
      kindOf(each.from) === 'comment' && isDropped(each) ? [each.from] : [],
    ),
  )
  const identities = new Set(
    yield* collect(to.columns, ({ identity, table, name }) => (identity ? [`${table}.${name}`] : [])),
  )
  return definition => {
    if (isComment(definition)) return commented.has(definition.id)
    if (kindOf(definition.id) === 'identity' && !identities.has(definition.name)) return true
    if (isRelation(definition) || isSchema(definition)) return false
    return ownersOf(definition).some(table => relations.has(table))
  }
}

/** A qualified name as Postgres writes it, with quotes where needed. */
const qualifiedName = '(?:"(?:[^"]|"")+"|[^\\s".(]+)\\.(?:"(?:[^"]|"")+"|[^\\s".(]+)'
const nameAtStart = new RegExp(`^${qualifiedName}(?=\\.|$)`)
const nameBehindOn = new RegExp(`\\bon (?:only )?(${qualifiedName})(?= |$)`, 'gi')

/** The tables that an object may belong to: the prefix of its name, and the names after ON in its first line. */
function ownersOf({ name, sql }: Definition): string[] {
  const own = nameAtStart.exec(name)?.[0]
  const end = sql.indexOf('\n')
  const line = sql.slice(0, Math.min(end < 0 ? sql.length : end, longestFirstLine))
  return [...(own === undefined ? [] : [own]), ...[...line.matchAll(nameBehindOn)].map(([, table]) => table!)]
}

const longestFirstLine = 10_000
/** Searching so many characters takes about as long as one definition. */
const charactersPerUnit = 50
