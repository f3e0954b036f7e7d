// What has to be done to one schema to make it another: what is missing is made, what is too much is dropped, what
// differs is changed where that can be said, and named where it cannot.
import type { Piece, TableColumn } from './pieces.ts'
import { type Schema, scriptFrom } from './schema.ts'

/** In pieces; none when they are the same. */
export function differenceScript(from: Schema, to: Schema): string[] {
  const before = new Map(from.pieces.map(piece => [keyOf(piece), piece]))
  const after = new Map(to.pieces.map(piece => [keyOf(piece), piece]))
  const dropped = from.pieces.filter(piece => !after.has(keyOf(piece)))
  const isGone = goneWith(dropped)
  const undone = dropped.filter(piece => !isGone(piece)).toReversed()
  const statements: string[] = undone.map(({ undo }) => undo)
  const byHand: string[] = []
  const columnsBefore = columnsByTable(from)
  const columnsAfter = columnsByTable(to)
  for (const piece of to.pieces) {
    const old = before.get(keyOf(piece))
    if (!old) statements.push(piece.sql)
    else if (old.sql !== piece.sql) {
      const change = changeOf(old, piece, columnsBefore, columnsAfter)
      if (change) statements.push(...change)
      else byHand.push(`${piece.name}, which differs`)
    }
  }
  const granted = new Set(from.grants)
  for (const grant of to.grants) if (!granted.has(grant)) statements.push(grant)
  const known = new Set(from.leftOut)
  return scriptFrom(statements, [...byHand, ...to.leftOut.filter(each => !known.has(each))])
}

type ColumnsByTable = ReadonlyMap<string, readonly TableColumn[]>

const columnsByTable = ({ columns }: Schema): ColumnsByTable => Map.groupBy(columns, ({ table }) => table)

/** Numbers of the catalogue differ between databases, names do not. */
const keyOf = ({ id, rank, name }: Piece) => `${id.slice(0, id.indexOf(':'))} ${rank} ${name}`

const isSchema = ({ id }: Piece) => id.startsWith('pg_namespace:')
const isTable = ({ id, rank }: Piece) => id.startsWith('pg_class:') && rank === 5

/** What belongs to a table goes with it, and what is said about something goes with that. */
function goneWith(dropped: readonly Piece[]): (piece: Piece) => boolean {
  const tables = new Set(dropped.filter(isTable).map(({ name }) => name))
  const objects = new Set(
    dropped.filter(piece => !isComment(piece)).map(({ name }) => withoutArguments(name)),
  )
  return piece =>
    (isComment(piece) && objects.has(withoutArguments(piece.name))) ||
    (!isTable(piece) && !isSchema(piece) && ownersOf(piece).some(table => tables.has(table)))
}

const isComment = ({ id }: Piece) => id.startsWith('comment:')
const withoutArguments = (name: string) => name.split('(')[0]!

/** A name with its schema as Postgres writes it, each part in quotes where it must be. */
const qualifiedName = '(?:"(?:[^"]|"")+"|[^\\s".(]+)\\.(?:"(?:[^"]|"")+"|[^\\s".(]+)'
const nameAtStart = new RegExp(`^${qualifiedName}(?=\\.|$)`)
const nameBehindOn = new RegExp(`\\bon (?:only )?(${qualifiedName})(?= |$)`, 'gi')

/** The tables that a piece may belong to: the one its name begins with, and those behind ON in its first line. */
function ownersOf({ name, sql }: Piece): string[] {
  const own = nameAtStart.exec(name)?.[0]
  const end = sql.indexOf('\n')
  const line = sql.slice(0, Math.min(end < 0 ? sql.length : end, longestFirstLine))
  return [...(own === undefined ? [] : [own]), ...[...line.matchAll(nameBehindOn)].map(([, table]) => table!)]
}

const longestFirstLine = 10_000

/** Undefined where it cannot be said. */
function changeOf(
  old: Piece,
  piece: Piece,
  before: ColumnsByTable,
  after: ColumnsByTable,
): string[] | undefined {
  const kind = piece.id.slice(0, piece.id.indexOf(':'))
  if (isTable(piece)) {
    const own = (all: ColumnsByTable) => all.get(piece.name) ?? []
    return columnChanges(piece.name, own(before), own(after))
  }
  if (/^create type .* as enum/.test(piece.sql)) return enumChanges(old, piece)
  if (replaced.has(kind) || piece.rank === 7 || piece.rank === 9) return [old.undo, piece.sql]
  if (restated.has(kind) || piece.rank === 4) return [piece.sql]
  return
}

/** Taken away and made anew. */
const replaced = new Set([
  'pg_constraint',
  'pg_trigger',
  'pg_policy',
  'pg_rewrite',
  'pg_statistic_ext',
  'rls',
])
/** Said once more. */
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

/** Labels can be added between others; nothing else can be done to them. */
function enumChanges(old: Piece, piece: Piece): string[] | undefined {
  const labels = ({ sql }: Piece) =>
    [...sql.slice(sql.indexOf('(')).matchAll(/'(?:[^']|'')*'/g)].map(([label]) => label)
  const [before, after] = [labels(old), labels(piece)]
  const known = new Set(before)
  if (before.join() !== after.filter(label => known.has(label)).join()) return
  return after.flatMap((label, place) => {
    if (known.has(label)) return []
    const next = place === 0 ? `before ${after[1]}` : `after ${after[place - 1]}`
    return `alter type ${piece.name} add value ${label} ${after.length > 1 ? next : ''}`.trimEnd()
  })
}
