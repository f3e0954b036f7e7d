import type { Column, Extension, Table, TableInput } from '@plinth/contract/schema.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { inputName, readInput } from '../input-file.ts'
import { everyPage } from '../page.ts'
import { clean, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'

export async function tables(context: Context): Promise<Answer> {
  const { schema } = context.given.values
  const wanted = context.given.operands['table']
  const { platform, id } = await openProject(context)
  const found = await everyPage(page =>
    platform.schema
      .listTables({ params: { id }, query: { ...page, ...(schema && { schema }) } })
      .then(({ tables, total }) => ({ items: tables, total })),
  )
  if (wanted !== undefined) return oneTable(found, wanted)
  return {
    data: { tables: found, total: found.length },
    hints: found.length === 0 ? ['No tables yet: plinth schema table create creates one.'] : [],
    text: paint =>
      found.length === 0
        ? ''
        : table(
            paint,
            ['NAME', 'KIND', 'COLUMNS', 'PRIMARY KEY', 'ROWS (ABOUT)', 'RLS'],
            found.map(each => [
              each.name,
              each.kind.replace('_', ' '),
              each.columns.length,
              each.primary_key.join(', '),
              each.row_estimate,
              securityOf(each),
            ]),
          ),
  }
}

export async function expose(context: Context): Promise<Answer> {
  const exposed_schemas = context.given.operands['schemas']!.split(',').map(name => name.trim())
  const { platform, id } = await openProject(context)
  const { warnings = [] } = await platform.projects.update({
    params: { id },
    body: { settings: { exposed_schemas } },
  })
  for (const { message } of warnings) context.screen.warn(clean(message))
  const example = warnings.find(({ tables }) => tables.length > 0)
  return {
    data: { exposed_schemas, warnings },
    text: () => `The API serves ${clean(exposed_schemas.join(', '))}.`,
    hints: example
      ? [
          `plinth rls enable --schema ${clean(example.schema ?? '')} --table ${clean(example.tables[0]!)} enables it on one table.`,
        ]
      : [],
  }
}

const securityOf = ({ kind, rls_enabled }: Table) =>
  kind === 'table' || kind === 'partitioned_table' ? (rls_enabled ? 'on' : 'OFF') : null

function oneTable(found: readonly Table[], wanted: string): Answer {
  const one = found.find(({ name }) => name === wanted)
  if (!one)
    throw new Failure(
      'table_not_found',
      `There is no table "${wanted}".`,
      'plinth schema tables shows the tables.',
    )
  return { data: one, text: paint => tableText(paint, one) }
}

function tableText(paint: Paint, one: Table): string {
  const keys = one.foreign_keys.map(
    key =>
      `  (${key.columns.join(', ')}) references ${key.referenced_table} (${key.referenced_columns.join(', ')})`,
  )
  const indexes = one.indexes.map(index => `  ${index.definition}`)
  const part = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ['', paint.bold(title), ...lines.map(clean)]
  return [
    table(paint, ['COLUMN', 'TYPE', 'NULL', 'DEFAULT'], one.columns.map(columnRow)),
    ...part('Foreign keys', keys),
    ...part('Indexes', indexes),
  ].join('\n')
}

const columnRow = ({ name, type, nullable, default: value, identity, generated }: Column) => [
  name,
  type,
  nullable ? 'yes' : 'no',
  value ??
    (identity ? `identity (${identity.replace('_', ' ')})` : generated ? `generated: ${generated}` : null),
]

export async function extensions(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const found = await everyPage<Extension>(page =>
    platform.schema
      .listExtensions({ params: { id }, query: page })
      .then(reply => ({ items: reply.extensions, total: reply.total })),
  )
  return {
    data: { extensions: found, total: found.length },
    text: paint =>
      table(
        paint,
        ['NAME', 'INSTALLED', 'SCHEMA', 'AVAILABLE', 'DESCRIPTION'],
        found.map(each => [
          each.name,
          each.installed_version,
          each.schema,
          each.default_version,
          each.comment,
        ]),
      ),
  }
}

export async function createTable(context: Context): Promise<Answer> {
  const { name, from, schema } = context.given.values
  const definition = definitionIn(await readInput(context, from!), inputName(from!))
  const { platform, id } = await openProject(context)
  // The server validates the definition.
  const body = { ...definition, name, ...(schema && { schema }) } as TableInput
  const created = await platform.schema.createTable({ params: { id }, body })
  return {
    data: created,
    text: paint =>
      `Created ${paint.bold(clean(created.name))} with row-level security ${securityOf(created)}.`,
    hints: created.rls_enabled
      ? ['Only service_role sees its rows until a policy allows more: plinth rls policy create --table …']
      : [],
  }
}

function definitionIn(content: string, where: string): object {
  try {
    const parsed: unknown = JSON.parse(content)
    if (Array.isArray(parsed)) return { columns: parsed }
    if (typeof parsed === 'object' && parsed !== null) return parsed
  } catch (cause) {
    throw wrongFile(where, (cause as Error).message, cause)
  }
  throw wrongFile(where, 'it must contain a list of columns, or an object with "columns"')
}

const wrongFile = (where: string, why: string, cause?: unknown) =>
  new Failure(
    'file_invalid',
    `${where} is not the definition of a table: ${why}.`,
    'plinth schema table create --help shows the format.',
    cause,
  )

export async function dropTable(context: Context): Promise<Answer> {
  const { name, confirm, schema } = context.given.values
  requireConfirmation('table', name!, confirm)
  const { platform, id } = await openProject(context)
  const query = { confirm: confirm!, ...cascadeIn(context), ...(schema && { schema }) }
  await platform.schema.dropTable({ params: { id, table: name! }, query })
  return { data: { table: name, dropped: true }, text: () => `Dropped the table ${clean(name!)}.` }
}

export async function addColumn(context: Context): Promise<Answer> {
  const { table: of, name, type, default: value, schema } = context.given.values
  const { platform, id } = await openProject(context)
  const column = await platform.schema.addColumn({
    params: { id, table: of! },
    query: schema ? { schema } : {},
    body: {
      name: name!,
      type: type!,
      nullable: context.given.switches.has('nullable'),
      ...(value !== undefined && { default: value }),
    },
  })
  return { data: column, text: () => `Added ${clean(column.name)} (${clean(column.type)}) to ${clean(of!)}.` }
}

export async function dropColumn(context: Context): Promise<Answer> {
  const { table: of, name, confirm, schema } = context.given.values
  requireConfirmation('column', name!, confirm)
  const { platform, id } = await openProject(context)
  const query = { confirm: confirm!, ...cascadeIn(context), ...(schema && { schema }) }
  await platform.schema.dropColumn({ params: { id, table: of!, col: name! }, query })
  return {
    data: { table: of, column: name, dropped: true },
    text: () => `Dropped the column ${clean(name!)} of ${clean(of!)}.`,
  }
}

const cascadeIn = ({ given }: Context) => (given.switches.has('cascade') ? { cascade: true } : {})

/** Checked before any request. Neither --yes nor a terminal replaces --confirm. */
function requireConfirmation(what: string, name: string, confirm: string | undefined): void {
  if (confirm === name) return
  const fix = `To drop the ${what}, run it again with --confirm ${name}`
  throw confirm === undefined
    ? new Failure('confirmation_missing', `Dropping the ${what} "${name}" needs --confirm.`, fix)
    : new Failure(
        'confirmation_mismatch',
        `--confirm "${confirm}" is not the name of the ${what} "${name}". Nothing was dropped.`,
        fix,
      )
}
