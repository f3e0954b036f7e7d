// Computes the statements that turn one schema into another. What is dropped and created again is dropped before all other
// changes, with everything that depends on it, and gets its grants again. Changes that cannot be expressed are listed as
// comments.
import type { Sliced } from '#src/kernel/slices.ts'
import { type TableChange, tableChange } from './column-changes.ts'
import type { Definition } from './definitions-store.ts'
import { neededBy, removedWith } from './dependents.ts'
import { grantChanges } from './grants.ts'
import { type Schema, scriptFrom, sliceSize } from './schema.ts'

/** The script in chunks; empty if the schemas are equal. */
export function* differenceScript(from: Schema, to: Schema): Sliced<string[]> {
  const before = new Map(from.definitions.map(definition => [keyOf(definition), definition]))
  const after = new Set(to.definitions.map(keyOf))
  const isKept = (definition: Definition) => after.has(keyOf(definition))
  // What a table of both schemas depends on cannot be dropped before the table is changed.
  const needed = neededBy(
    from,
    from.definitions.filter(each => isTable(each) && isKept(each)).map(({ id }) => id),
  )
  yield
  const { inPlace, replaced, tables, labels, byHand } = yield* changesOf(from, to, before, needed)
  const dropped = from.definitions.filter(each => !isKept(each)).map(({ id }) => id)
  const canBeReplaced = (definition: Definition) =>
    !isKept(definition) || !(isHolder(definition) || needed.has(definition.id))
  const removed = removedWith(from, [...dropped, ...replaced], tables, canBeReplaced)
  yield

  const isLast = (definition: Definition) => needed.has(definition.id) && !isSequence(definition)
  const isImplied = droppedWithOthers(from, to, removed, tables)
  const undone: Definition[] = []
  for (const [place, each] of from.definitions.entries()) {
    if (place % sliceSize === 0) yield
    if (removed.has(each.id) && !isImplied(each)) undone.push(each)
  }
  undone.reverse()
  const created = to.definitions.filter(each => {
    const old = before.get(keyOf(each))
    return !old || removed.has(old.id)
  })
  const createdIds = new Set(created.map(({ id }) => id))
  const changes = [...tables.values()]
  const numbered = new Set(changes.flatMap(each => [...each.numbered]))
  const droppedColumns = new Set(
    changes.flatMap(({ table, dropped }) => [...dropped].map(column => `${table} ${column}`)),
  )
  yield
  const statements = [
    ...changes.flatMap(({ first }) => first),
    ...undone.filter(each => !isLast(each)).map(({ undo }) => undo),
    ...to.definitions.flatMap(each => (createdIds.has(each.id) ? [each.sql] : (inPlace.get(each.id) ?? []))),
    ...undone.filter(isLast).map(({ undo }) => undo),
    ...changes.flatMap(({ last }) => last),
    ...grantChanges(from.grants, to.grants, {
      hasObject: ({ id, identityOf }) =>
        createdIds.has(id) ||
        (identityOf !== null && (numbered.has(identityOf) || droppedColumns.has(identityOf))),
      hasColumn: (table, column) => droppedColumns.has(`${table} ${column}`),
    }),
  ]
  const without = (some: readonly string[], others: readonly string[]) => {
    const known = new Set(others)
    return some.filter(each => !known.has(each))
  }
  yield
  const script = scriptFrom(statements, [
    ...byHand,
    ...without(to.omitted, from.omitted),
    ...without(from.omitted, to.omitted).map(what => `${what}, which is to be dropped`),
  ])
  // Postgres refuses a new label in the transaction that has added it.
  return (yield* useLabels(statements, labels)) ? ['-- no-transaction\n', ...script] : script
}

/** Whether a statement besides those that add the labels uses one of them. */
function* useLabels(statements: readonly string[], labels: readonly NewLabel[]): Sliced<boolean> {
  if (labels.length === 0) return false
  // Looking for many would take long.
  if (labels.length > 100) return true
  const byType = [...Map.groupBy(labels, ({ type }) => type)]
  for (const statement of statements) {
    yield
    for (const [type, ofType] of byType)
      if (statement.includes(`::${type}`) && ofType.some(({ text }) => statement.includes(text))) return true
  }
  return false
}

interface NewLabel {
  type: string
  /** As in a literal, without the quotes. */
  text: string
}

/** Keys use names, because oids differ between databases. */
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
  const columnsBefore = Map.groupBy(from.columns, ({ table }) => table)
  const columnsAfter = Map.groupBy(to.columns, ({ table }) => table)
  const changes: Changes = { inPlace: new Map(), replaced: [], tables: new Map(), labels: [], byHand: [] }
  for (const [place, definition] of to.definitions.entries()) {
    if (place % sliceSize === 0 || isTable(definition)) yield
    const old = before.get(keyOf(definition))
    if (!old || old.sql === definition.sql) continue
    if (isTable(definition)) {
      const own = (columns: typeof columnsAfter) => columns.get(definition.name) ?? []
      const change = tableChange(
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
    const added = newLabels(old, definition)
    changes.labels.push(...(added ?? []).map(label => ({ type: definition.name, text: label.slice(1, -1) })))
    const statements = statementsInPlace(old, definition)
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
  if (isEnum(definition)) return enumChanges(old, definition)
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

const labelsOf = ({ sql }: Definition) =>
  [...sql.slice(sql.indexOf('(')).matchAll(/'(?:[^']|'')*'/g)].map(([label]) => label)

/** Undefined if it is no enum, or needs more than new labels: Postgres cannot remove or reorder them. */
function newLabels(old: Definition, definition: Definition): string[] | undefined {
  if (!isEnum(definition) || !isEnum(old)) return
  const after = labelsOf(definition)
  const before = new Set(labelsOf(old))
  if ([...before].join() !== after.filter(label => before.has(label)).join()) return
  return after.filter(label => !before.has(label))
}

const isEnum = ({ sql }: Definition) => /^create type .* as enum/.test(sql)

function enumChanges(old: Definition, definition: Definition): string[] | undefined {
  const after = labelsOf(definition)
  const added = newLabels(old, definition)
  const isNew = new Set(added)
  const firstKnown = after.find(label => !isNew.has(label))
  return added?.map(label => {
    const place = after.indexOf(label)
    const next = place > 0 ? ` after ${after[place - 1]}` : firstKnown ? ` before ${firstKnown}` : ''
    return `alter type ${definition.name} add value ${label}${next}`
  })
}

/** What Postgres drops with a table, a view or a column, and comments on what is dropped. */
function droppedWithOthers(
  from: Schema,
  to: Schema,
  removed: ReadonlySet<string>,
  tables: ReadonlyMap<string, TableChange>,
): (definition: Definition) => boolean {
  const isRelation = (definition: Definition) => isTable(definition) || isView(definition)
  const relations = new Set(
    from.definitions.filter(each => removed.has(each.id) && isRelation(each)).map(({ name }) => name),
  )
  const commented = new Set(
    from.needs
      .filter(({ from: id }) => kindOf(id) === 'comment')
      .filter(
        ({ to: id, columns }) =>
          removed.has(id) || columns.some(column => tables.get(id)?.dropped.has(column)),
      )
      .map(({ from: id }) => id),
  )
  const identities = new Set(
    to.columns.filter(({ identity }) => identity).map(({ table, name }) => `${table}.${name}`),
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
