// Reads and changes tables, columns and extensions of a project as its owner.
import { closest } from '@plinth/contract/closest.ts'
import type { ErrorCode } from '@plinth/contract/errors.ts'
import type { Column, ColumnInput, Table, TableInput } from '@plinth/contract/schema.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { qualified } from '#src/kernel/postgres/name.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'
import { refusalFromOwnerSql } from '#src/planes/management/database-refusal.ts'
import { execute, type OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { isReservedSchema } from '#src/tenancy/exposed-schemas.ts'
import { addColumn, createTable, isSerial } from './definition.ts'
import * as store from './store.ts'

export type SchemaService = ReturnType<typeof schemaService>

/** DROP statements by kind. */
const dropWords: Record<Table['kind'], string> = {
  table: 'table',
  partitioned_table: 'table',
  foreign_table: 'foreign table',
  view: 'view',
  materialized_view: 'materialized view',
}

export interface Place {
  schema: string
  table: string
}

export function schemaService(owner: OwnerWork) {
  return {
    listTables: (id: string, schema: string, page: Paging) =>
      owner.look(id, async session => {
        await requireSchema(session, schema)
        return { ...(await store.listTables(session, schema, page)), ...page }
      }),

    createTable: (id: string, input: TableInput): Promise<Table> => {
      const { schema = 'public', name } = input
      refuseReserved(schema)
      const statements = createTable(schema, input)
      return owner.change(id, async session => {
        await requireSchema(session, schema)
        await requireTypes(session, input.columns)
        for (const statement of statements) await execute(session, statement)
        return (await store.readTable(session, schema, name))!
      })
    },

    dropTable: (id: string, { schema, table }: Place, isCascading: boolean): Promise<void> => {
      refuseReserved(schema)
      return owner.change(id, async session => {
        const { kind } = await requireTable(session, schema, table)
        await drop(session, `drop ${dropWords[kind]} ${qualified(schema, table)}`, isCascading)
      })
    },

    addColumn: (id: string, { schema, table }: Place, input: ColumnInput): Promise<Column> => {
      refuseReserved(schema)
      const statements = addColumn(schema, table, input)
      return owner.change(id, async session => {
        await requireTable(session, schema, table)
        await requireTypes(session, [input])
        for (const statement of statements) await execute(session, statement)
        const { columns } = (await store.readTable(session, schema, table))!
        return columns.find(({ name }) => name === input.name)!
      })
    },

    dropColumn: (
      id: string,
      { schema, table }: Place,
      column: string,
      isCascading: boolean,
    ): Promise<void> => {
      refuseReserved(schema)
      return owner.change(id, async session => {
        const { oid } = await requireTable(session, schema, table)
        const names = await store.listColumnNames(session, oid)
        if (!names.includes(column))
          throw unknown('column_not_found', 'The table has no column', column, names)
        await drop(
          session,
          `alter table ${qualified(schema, table)} drop column ${identifier(column)}`,
          isCascading,
        )
      })
    },

    listExtensions: (id: string, page: Paging) =>
      owner.look(id, async session => ({ ...(await store.listExtensions(session, page)), ...page })),
  }
}

/** Platform schemas cannot be changed here. */
export function refuseReserved(schema: string): void {
  if (isReservedSchema(schema))
    throw new Refusal(
      'schema_reserved',
      `The schema "${schema}" belongs to the platform and is not changed here`,
    )
}

export async function requireSchema(session: Session, schema: string): Promise<void> {
  const names = await store.listSchemaNames(session)
  if (names.includes(schema)) return
  const own = names.filter(name => !isReservedSchema(name))
  throw unknown('schema_not_found', 'The project has no schema', schema, own)
}

export async function requireTable(session: Session, schema: string, table: string): Promise<store.Relation> {
  const found = await store.findRelation(session, schema, table)
  if (found) return found
  await requireSchema(session, schema)
  const names = await store.listTableNames(session, schema)
  throw unknown('table_not_found', `The schema "${schema}" has no table`, table, names)
}

/** Suggests the closest name, because most errors are typing mistakes. */
export function unknown(code: ErrorCode, what: string, name: string, names: readonly string[]): Refusal {
  const meant = closest(name, names)
  const hint = meant === undefined ? '' : `Perhaps you meant ${JSON.stringify(meant)}`
  return new Refusal(code, `${what} ${JSON.stringify(name)}${hint && `. ${hint}`}`, { hint })
}

/** The type is inserted into the SQL unquoted, so it must be a valid type name and nothing else. */
async function requireTypes(session: Session, columns: readonly ColumnInput[]): Promise<void> {
  const known = new Set<string>()
  for (const { name, type } of columns) {
    if (isSerial(type) || known.has(type)) continue
    const what = `Column ${JSON.stringify(name)}`
    const isType = await store.isType(session, type).catch(error => {
      const refusal = refusalFromOwnerSql(error)
      if (refusal.status >= 500) throw refusal
      throw new Refusal(
        'sql_error',
        `${what}: ${JSON.stringify(type)} is not the name of a type: ${refusal.message}`,
      )
    })
    if (!isType)
      throw unknown('sql_error', `${what}: there is no type`, type.trim(), await store.listTypeNames(session))
    known.add(type)
  }
}

async function drop(session: Session, statement: string, isCascading: boolean): Promise<void> {
  try {
    await execute(session, isCascading ? `${statement} cascade` : statement)
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'has_dependants') throw error
    const dependants = error.details.split('\n').join('; ')
    throw new Refusal(
      'has_dependants',
      `It cannot be dropped alone: ${dependants}. With cascade=true these go too; nothing was done`,
      { details: error.details },
    )
  }
}
