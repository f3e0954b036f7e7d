// Builds the SQL of a table or column. Names are quoted. Each expression is in parentheses on its own line, so that a Postgres
// error shows the line of the user's expression.
import type { ColumnInput, TableInput } from '@plinth/contract/schema.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { inParentheses } from '#src/kernel/postgres/expression.ts'
import { qualified, refuseLongName } from '#src/kernel/postgres/name.ts'
import { identifier, literal } from '#src/kernel/postgres/sql.ts'

/** serial is column syntax and not a type, so the type lookup does not find it. */
export const isSerial = (type: string) => /^\s*(small|big)?serial[248]?\s*$/i.test(type)

/** The statements, to run in one transaction. */
export function createTable(schema: string, input: TableInput): string[] {
  checkNames(input)
  const table = qualified(schema, input.name)
  const parts = [
    ...input.columns.map(columnDefinition),
    ...(input.primary_key ? [`primary key ${list(input.primary_key)}`] : []),
    ...(input.unique ?? []).map(names => `unique ${list(names)}`),
    ...(input.checks ?? []).map(
      (check, place) => `check\n${inParentheses(check, `Field "checks.${place}"`)}`,
    ),
  ]
  const security = input.rls_enabled === false ? 'disable' : 'enable'
  return [
    `create table ${table} (\n${parts.join(',\n')}\n)`,
    // An event trigger enables it in schema public only.
    `alter table ${table} ${security} row level security`,
    ...(input.comment === undefined ? [] : [`comment on table ${table} is ${literal(input.comment)}`]),
    ...input.columns.flatMap(column => columnComment(table, column)),
  ]
}

export function addColumn(schema: string, tableName: string, column: ColumnInput): string[] {
  refuseLongName(column.name)
  const table = qualified(schema, tableName)
  return [`alter table ${table} add column\n${columnDefinition(column)}`, ...columnComment(table, column)]
}

function columnDefinition(column: ColumnInput): string {
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
}: NonNullable<ColumnInput['references']>): string {
  const target = `references ${qualified(schema, table)}${column === undefined ? '' : ` ${list([column])}`}`
  // The schema of the request allows these words only.
  const on = (event: string, action: string | undefined) =>
    action === undefined ? '' : ` on ${event} ${action.toLowerCase().replace('_', ' ')}`
  return `${target}${on('delete', on_delete)}${on('update', on_update)}`
}

const columnComment = (table: string, { name, comment }: ColumnInput): string[] =>
  comment === undefined ? [] : [`comment on column ${table}.${identifier(name)} is ${literal(comment)}`]

const list = (names: readonly string[]) => `(${names.map(identifier).join(', ')})`

function checkNames({ name, columns }: TableInput): void {
  refuseLongName(name)
  const names = columns.map(column => column.name)
  names.forEach(refuseLongName)
  const twice = names.find((each, place) => names.indexOf(each) !== place)
  if (twice !== undefined)
    throw new Refusal('invalid_request', `Two columns have the name ${JSON.stringify(twice)}`)
}
