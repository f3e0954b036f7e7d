// Computes the statements that turn one schema into another: create, drop and alter. Changes that cannot be expressed are
// listed as comments.
import type { Definition, TableColumn } from './definitions-store.ts'
import { type Schema, scriptFrom } from './schema.ts'

/** The script in chunks; empty if the schemas are equal. */
export function differenceScript(from: Schema, to: Schema): string[] {
  const before = new Map(from.definitions.map(definition => [keyOf(definition), definition]))
  const after = new Map(to.definitions.map(definition => [keyOf(definition), definition]))
  const dropped = from.definitions.filter(definition => !after.has(keyOf(definition)))
  const isDroppedWithOwner = droppedWith(dropped)
  const undone = dropped.filter(definition => !isDroppedWithOwner(definition)).toReversed()
  const statements: string[] = undone.map(({ undo }) => undo)
  const byHand: string[] = []
  const columnsBefore = columnsByTable(from)
  const columnsAfter = columnsByTable(to)
  for (const definition of to.definitions) {
    const old = before.get(keyOf(definition))
    if (!old) statements.push(definition.sql)
    else if (old.sql !== definition.sql) {
      const change = changeOf(old, definition, columnsBefore, columnsAfter)
      if (change) statements.push(...change)
      else byHand.push(`${definition.name}, which differs`)
    }
  }
  const granted = new Set(from.grants)
  for (const grant of to.grants) if (!granted.has(grant)) statements.push(grant)
  const known = new Set(from.omitted)
  return scriptFrom(statements, [...byHand, ...to.omitted.filter(each => !known.has(each))])
}

type ColumnsByTable = ReadonlyMap<string, readonly TableColumn[]>

const columnsByTable = ({ columns }: Schema): ColumnsByTable => Map.groupBy(columns, ({ table }) => table)

/** Keys use names, because oids differ between databases. */
const keyOf = ({ id, rank, name }: Definition) => `${id.slice(0, id.indexOf(':'))} ${rank} ${name}`

const isSchema = ({ id }: Definition) => id.startsWith('pg_namespace:')
const isTable = ({ id, rank }: Definition) => id.startsWith('pg_class:') && rank === 5

/** Objects of a dropped table and comments on dropped objects are dropped with them. */
function droppedWith(dropped: readonly Definition[]): (definition: Definition) => boolean {
  const tables = new Set(dropped.filter(isTable).map(({ name }) => name))
  const objects = new Set(
    dropped.filter(definition => !isComment(definition)).map(({ name }) => withoutArguments(name)),
  )
  return definition =>
    (isComment(definition) && objects.has(withoutArguments(definition.name))) ||
    (!isTable(definition) && !isSchema(definition) && ownersOf(definition).some(table => tables.has(table)))
}

const isComment = ({ id }: Definition) => id.startsWith('comment:')
const withoutArguments = (name: string) => name.split('(')[0]!

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

/** Undefined if the change cannot be expressed. */
function changeOf(
  old: Definition,
  definition: Definition,
  before: ColumnsByTable,
  after: ColumnsByTable,
): string[] | undefined {
  const kind = definition.id.slice(0, definition.id.indexOf(':'))
  if (isTable(definition)) {
    const own = (all: ColumnsByTable) => all.get(definition.name) ?? []
    return columnChanges(definition.name, own(before), own(after))
  }
  if (/^create type .* as enum/.test(definition.sql)) return enumChanges(old, definition)
  if (replaced.has(kind) || definition.rank === 7 || definition.rank === 9) return [old.undo, definition.sql]
  if (restated.has(kind) || definition.rank === 4) return [definition.sql]
  return
}

/** Kinds that are dropped and created again. */
const replaced = new Set([
  'pg_constraint',
  'pg_trigger',
  'pg_policy',
  'pg_rewrite',
  'pg_statistic_ext',
  'rls',
])
/** Kinds whose statement can run again. */
const restated = new Set(['comment', 'owned', 'identity', 'replica', 'pg_attrdef'])

function columnChanges(
  table: string,
  before: readonly TableColumn[],
  after: readonly TableColumn[],
): string[] | undefined {
  const old = new Map(before.map(column => [column.name, column]))
  const kept = new Set(after.map(({ name }) => name))
  const lines = before.filter(({ name }) => !kept.has(name)).map(({ name }) => `drop column ${name}`)
  for (const column of after) {
    const was = old.get(column.name)
    if (!was) lines.push(`add column ${column.definition}`)
    else if (was.isFixed || column.isFixed) {
      if (was.definition !== column.definition)
        lines.push(`drop column ${column.name}`, `add column ${column.definition}`)
    } else lines.push(...columnChange(was, column))
  }
  if (lines.length === 0) return
  return lines.map(line => `alter table ${table} ${line}`)
}

function columnChange(was: TableColumn, { name, type, default: value, isNotNull }: TableColumn): string[] {
  const lines: string[] = []
  if (was.type !== type) {
    if (was.default !== null) lines.push(`alter column ${name} drop default`)
    lines.push(`alter column ${name} type ${type} using ${name}::${type}`)
    if (value !== null) lines.push(`alter column ${name} set default ${value}`)
  } else if (was.default !== value)
    lines.push(`alter column ${name} ${value === null ? 'drop default' : `set default ${value}`}`)
  if (was.isNotNull !== isNotNull) lines.push(`alter column ${name} ${isNotNull ? 'set' : 'drop'} not null`)
  return lines
}

/** Adds labels only: Postgres cannot remove or reorder the labels of an enum. */
function enumChanges(old: Definition, definition: Definition): string[] | undefined {
  const labels = ({ sql }: Definition) =>
    [...sql.slice(sql.indexOf('(')).matchAll(/'(?:[^']|'')*'/g)].map(([label]) => label)
  const [before, after] = [labels(old), labels(definition)]
  const known = new Set(before)
  if (before.join() !== after.filter(label => known.has(label)).join()) return
  return after.flatMap((label, place) => {
    if (known.has(label)) return []
    const next = place === 0 ? `before ${after[1]}` : `after ${after[place - 1]}`
    return `alter type ${definition.name} add value ${label} ${after.length > 1 ? next : ''}`.trimEnd()
  })
}
