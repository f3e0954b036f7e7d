// Computes the statements that give a table of one schema the columns that it has in the other.
import { literal } from '#src/kernel/postgres/sql.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import type { Definition, TableColumn } from './definitions-store.ts'

export interface TableChange {
  table: string
  /** Run before anything is dropped, such as the sequence of a default. */
  first: string[]
  statements: string[]
  /** Run at the end. */
  last: string[]
  /** Columns that are dropped. Nothing may depend on them. */
  dropped: Set<string>
  /** Columns that change their type. Indexes and constraints may depend on them. */
  retyped: Set<string>
  /** Columns that become identity columns, as `table column`. */
  numbered: Set<string>
  /** What is not expressed. */
  byHand: string[]
}

export function* tableChange(
  old: Definition,
  table: Definition,
  before: readonly TableColumn[],
  after: readonly TableColumn[],
  canSetExpression: boolean,
): Sliced<TableChange> {
  const was = new Map(before.map(column => [column.name, column]))
  const is = new Map(after.map(column => [column.name, column]))
  const isMoved = movedColumns(before, after)
  const dropped = yield* droppedColumns(
    before,
    is,
    (column, now) => staysInPlace(column, now, canSetExpression) && !(now.generated && isMoved(now.name)),
  )
  const retyped = retypedColumns(before, is, dropped)

  const alter = (line: string) => `alter table ${table.name} ${line}`
  const first: string[] = []
  const replaced = before.filter(each => dropped.has(each.name) && is.has(each.name)).toSorted(generatedFirst)
  const statements = replaced.map(({ name }) => alter(`drop column ${name}`))
  const last: string[] = []
  const numbered = new Set<string>()
  for (const column of before) {
    const now = dropped.has(column.name) ? undefined : is.get(column.name)
    const isReplaced = now && (now.default !== column.default || now.type !== column.type)
    if (column.default !== null && (now ? isReplaced : column.default.startsWith('nextval(')))
      first.push(alter(`alter column ${column.name} drop default`))
    if (!now) continue
    statements.push(...columnChange(column, now).map(alter))
    if (now.identity && !column.identity) {
      numbered.add(`${table.name} ${now.name}`)
      last.push(continued(table.name, now.name))
    }
  }
  const isAdded = ({ name }: TableColumn) => !was.has(name) || dropped.has(name)
  for (const column of after.filter(isAdded)) statements.push(alter(`add column ${column.definition}`))
  // A new expression may use new columns, and the old one may use columns that are dropped.
  for (const column of after.filter(each => each.generated && !isAdded(each)))
    if (was.get(column.name)!.expression !== column.expression)
      statements.push(alter(`alter column ${column.name} set expression as (${column.expression})`))
  for (const { name } of before.filter(each => !is.has(each.name)).toSorted(generatedFirst))
    statements.push(alter(`drop column ${name}`))
  const byHand: string[] = []
  if (outside(old.sql) !== outside(table.sql)) byHand.push(`${table.name}, which differs`)
  else if (after.some(({ name }) => !dropped.has(name) && isMoved(name)))
    byHand.push(`${table.name}, whose columns have another order`)
  return { table: table.name, first, statements, last, dropped, retyped, numbered, byHand }
}

/** Columns that are not there afterwards, or are created again. */
function* droppedColumns(
  before: readonly TableColumn[],
  after: ReadonlyMap<string, TableColumn>,
  canStay: (column: TableColumn, now: TableColumn) => boolean,
): Sliced<Set<string>> {
  const isDropped = (column: TableColumn) => {
    const now = after.get(column.name)
    return !now || !canStay(column, now)
  }
  const dropped = new Set(before.filter(isDropped).map(({ name }) => name))
  // Postgres changes no column from which a generated one is computed.
  const retyped = retypedColumns(before, after, dropped)
  const isChanged = (name: string) => after.has(name) && (dropped.has(name) || retyped.has(name))
  const computed: string[] = []
  for (const { name, expression } of before)
    if (expression !== null && (yield* hasName(expression, isChanged))) computed.push(name)
  for (const name of computed) dropped.add(name)
  return dropped
}

const retypedColumns = (
  before: readonly TableColumn[],
  after: ReadonlyMap<string, TableColumn>,
  dropped: ReadonlySet<string>,
) =>
  new Set(
    before
      .filter(({ name, type }) => !dropped.has(name) && after.get(name)!.type !== type)
      .map(({ name }) => name),
  )

const isGenerated = ({ generated }: TableColumn) => (generated ? 1 : 0)
const generatedFirst = (a: TableColumn, b: TableColumn) => isGenerated(b) - isGenerated(a)

/** Whether one of the names in it passes the test. Quotes within literals and names are doubled. */
export function* hasName(expression: string, test: (name: string) => boolean): Sliced<boolean> {
  let yieldedAt = 0
  for (const { 0: token, index } of expression.matchAll(/'[^']*'|"(?:[^"]|"")+"|[\w$\u0080-\uffff]+/g)) {
    if (index - yieldedAt > sliceCharacters) {
      yieldedAt = index
      yield
    }
    if (!token.startsWith("'") && test(token)) return true
  }
  return false
}

const sliceCharacters = 16 * 1024

/** The definition of a table without its columns. */
function outside(sql: string): string {
  const [begin, end] = [sql.indexOf(' (\n'), sql.lastIndexOf('\n)')]
  return begin < 0 ? sql : sql.slice(0, begin) + sql.slice(end)
}

/** A column that was dropped and added again comes after others that it preceded. */
function movedColumns(
  before: readonly TableColumn[],
  after: readonly TableColumn[],
): (name: string) => boolean {
  const placeBefore = new Map(before.map(({ name }, place) => [name, place]))
  const moved = new Set<string>()
  let furthest = -1
  for (const { name } of after) {
    const place = placeBefore.get(name)
    if (place === undefined) continue
    if (place < furthest) moved.add(name)
    furthest = Math.max(furthest, place)
  }
  return name => moved.has(name)
}

function staysInPlace(was: TableColumn, now: TableColumn, canSetExpression: boolean): boolean {
  if (was.generated === null) return now.generated === null
  // The values of a stored column are kept.
  if (now.generated === null) return was.generated === 'stored'
  return (
    was.generated === now.generated &&
    was.type === now.type &&
    (was.expression === now.expression || (canSetExpression && now.generated === 'stored'))
  )
}

function columnChange(was: TableColumn, now: TableColumn): string[] {
  const lines: string[] = []
  const alter = (line: string) => lines.push(`alter column ${now.name} ${line}`)
  if (was.identity && !now.identity) alter('drop identity')
  if (was.generated && !now.generated) alter('drop expression')
  if (was.type !== now.type)
    alter(`type ${now.type} using ${now.name}::${now.type.replace(/ collate .*$/, '')}`)
  if (now.default !== null && (was.default !== now.default || was.type !== now.type))
    alter(`set default ${now.default}`)
  if (was.isNotNull !== now.isNotNull) alter(`${now.isNotNull ? 'set' : 'drop'} not null`)
  if (now.identity && !was.identity) alter(`add generated ${now.identity} as identity`)
  else if (now.identity && was.identity !== now.identity) alter(`set generated ${now.identity}`)
  return lines
}

/** A new identity continues after the numbers that the rows of the project have. */
const continued = (table: string, column: string) =>
  `select pg_catalog.setval(s.seqrelid, greatest((select max(${column}) from ${table}) + s.seqincrement, s.seqstart), false)
  from pg_catalog.pg_sequence s
 where s.seqrelid = pg_catalog.pg_get_serial_sequence(${literal(table)}, ${literal(unquoted(column))})::pg_catalog.regclass and s.seqincrement > 0`

const unquoted = (name: string) => (name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name)
