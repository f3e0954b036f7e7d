// The SQL of a table or column that somebody wishes for. Names are quoted and expressions stay in parentheses, each
// on a line of its own: Postgres' complaint then shows the line of whoever wrote it.
import type { ColumnWish, TableWish } from '@plinth/contract/schema.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { inParentheses } from '#src/kernel/postgres/expression.ts'
import { qualified, refuseLongName } from '#src/kernel/postgres/name.ts'
import { identifier, literal } from '#src/kernel/postgres/sql.ts'

/** They are no types of Postgres but a way to write a column, so that asking for the type does not find them. */
export const isSerial = (type: string) => /^\s*(small|big)?serial[248]?\s*$/i.test(type)

/** Statements to be run in one transaction, one after the other. */
export function createTable(schema: string, wish: TableWish): string[] {
  checkNames(wish)
  const table = qualified(schema, wish.name)
  const parts = [
    ...wish.columns.map(columnDefinition),
    ...(wish.primary_key ? [`primary key ${list(wish.primary_key)}`] : []),
    ...(wish.unique ?? []).map(names => `unique ${list(names)}`),
    ...(wish.checks ?? []).map((check, place) => `check\n${inParentheses(check, `Field "checks.${place}"`)}`),
  ]
  const security = wish.rls_enabled === false ? 'disable' : 'enable'
  return [
    `create table ${table} (\n${parts.join(',\n')}\n)`,
    // In public an event trigger has done so already; in other schemas nobody has.
    `alter table ${table} ${security} row level security`,
    ...(wish.comment === undefined ? [] : [`comment on table ${table} is ${literal(wish.comment)}`]),
    ...wish.columns.flatMap(column => columnComment(table, column)),
  ]
}

export function addColumn(schema: string, tableName: string, column: ColumnWish): string[] {
  refuseLongName(column.name)
  const table = qualified(schema, tableName)
  return [`alter table ${table} add column\n${columnDefinition(column)}`, ...columnComment(table, column)]
}

function columnDefinition(column: ColumnWish): string {
  const { name, type, references } = column
  const expression = (text: string, field: string) =>
    inParentheses(text, `Column ${JSON.stringify(name)}: ${field}`)
  const lines = [`${identifier(name)} ${type}`]
  if (column.default !== undefined) lines.push(`default ${expression(String(column.default), 'the default')}`)
  if (column.generated !== undefined)
    lines.push(`generated always as ${expression(column.generated, '"generated"')} stored`)
  if (column.identity !== undefined)
    lines.push(`generated ${column.identity === 'always' ? 'always' : 'by default'} as identity`)
  if (column.nullable === false) lines.push('not null')
  if (column.primary_key) lines.push('primary key')
  if (column.unique) lines.push('unique')
  if (column.check !== undefined) lines.push(`check ${expression(column.check, 'the check')}`)
  if (references) lines.push(reference(references))
  return lines.join('\n')
}

function reference({
  schema = 'public',
  table,
  column,
  on_delete,
  on_update,
}: NonNullable<ColumnWish['references']>): string {
  const target = `references ${qualified(schema, table)}${column === undefined ? '' : ` ${list([column])}`}`
  // Their pattern admits these words only.
  const on = (event: string, action: string | undefined) =>
    action === undefined ? '' : ` on ${event} ${action.toLowerCase().replace('_', ' ')}`
  return `${target}${on('delete', on_delete)}${on('update', on_update)}`
}

const columnComment = (table: string, { name, comment }: ColumnWish): string[] =>
  comment === undefined ? [] : [`comment on column ${table}.${identifier(name)} is ${literal(comment)}`]

const list = (names: readonly string[]) => `(${names.map(identifier).join(', ')})`

function checkNames({ name, columns }: TableWish): void {
  refuseLongName(name)
  const names = columns.map(column => column.name)
  names.forEach(refuseLongName)
  const twice = names.find((each, place) => names.indexOf(each) !== place)
  if (twice !== undefined)
    throw new Refusal('invalid_request', `Two columns have the name ${JSON.stringify(twice)}`)
}
