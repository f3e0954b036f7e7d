// Tables, columns and extensions of a project in the management API. Types, defaults and checks are SQL of the project's
// owner. Names are used literally.
import type { Static, TProperties } from 'typebox'
import type { Routes } from './route.ts'
import { Empty, Id, Nullable, page, pageQuery } from './shapes.ts'
import { Type } from './type.ts'

/** A Postgres identifier of at most 63 bytes, which the server checks. */
export const SqlName = Type.String({
  minLength: 1,
  maxLength: 63,
  pattern: '^[^\\u0000]+$',
  description: 'a name of 1 to 63 bytes without NUL characters',
})
/** A SQL expression or type name. */
const sqlText = (maxLength: number) =>
  Type.String({
    minLength: 1,
    maxLength,
    pattern: '^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$',
    description: 'SQL that is not blank and has no NUL characters',
  })
export const SqlText = sqlText(20_000)
const Comment = Type.String({
  maxLength: 10_000,
  pattern: '^[^\\u0000]*$',
  description: 'a text without NUL characters',
})
export const SchemaQuery = Type.Optional(SqlName)

/** Unknown fields are rejected, because they are mistakes. */
const closed = <T extends TProperties>(properties: T) =>
  Type.Object(properties, { additionalProperties: false })

const actions = ['NO ACTION', 'RESTRICT', 'CASCADE', 'SET NULL', 'SET DEFAULT'] as const
const anyCase = (word: string) => word.replace(/[A-Z]/g, letter => `[${letter}${letter.toLowerCase()}]`)
const ActionInput = Type.Optional(
  Type.String({
    pattern: `^(${actions.map(anyCase).join('|').replaceAll(' ', '[ _]')})$`,
    description: `one of ${actions.join(', ')}`,
  }),
)
const Action = Type.Enum(actions)
const Identity = Type.Enum(['always', 'by_default'] as const)

const columnInput = {
  name: SqlName,
  type: sqlText(500),
  nullable: Type.Optional(Type.Boolean({ description: 'Whether the column may be null. Default: true.' })),
  default: Type.Optional(
    Type.Union([SqlText, Type.Number(), Type.Boolean()], {
      description: 'An SQL expression: "now()", "\'new\'", 0, true.',
    }),
  ),
  primary_key: Type.Optional(Type.Boolean()),
  unique: Type.Optional(Type.Boolean()),
  check: Type.Optional(SqlText),
  identity: Type.Optional(Identity),
  /** The expression of a stored column. */
  generated: Type.Optional(SqlText),
  references: Type.Optional(
    closed({
      schema: Type.Optional(SqlName),
      table: SqlName,
      column: Type.Optional(SqlName),
      on_delete: ActionInput,
      on_update: ActionInput,
    }),
  ),
  comment: Type.Optional(Comment),
}
export const ColumnInput = closed(columnInput)
export type ColumnInput = Static<typeof ColumnInput>

export const TableInput = closed({
  name: SqlName,
  schema: SchemaQuery,
  columns: Type.Array(ColumnInput, { minItems: 1, maxItems: 1600 }),
  primary_key: Type.Optional(Type.Array(SqlName, { minItems: 1, maxItems: 32 })),
  unique: Type.Optional(Type.Array(Type.Array(SqlName, { minItems: 1, maxItems: 32 }), { maxItems: 100 })),
  checks: Type.Optional(Type.Array(SqlText, { maxItems: 100 })),
  comment: Type.Optional(Comment),
  rls_enabled: Type.Optional(Type.Boolean({ description: 'Row-level security. Default: true.' })),
})
export type TableInput = Static<typeof TableInput>

const Text = Type.String()
const Names = Type.Array(Text)

export const Column = Type.Object({
  name: Text,
  type: Text,
  nullable: Type.Boolean(),
  default: Nullable(Text),
  identity: Nullable(Identity),
  generated: Nullable(Text),
  comment: Nullable(Text),
})
export type Column = Static<typeof Column>

export const Table = Type.Object({
  schema: Text,
  name: Text,
  kind: Type.Enum(['table', 'partitioned_table', 'view', 'materialized_view', 'foreign_table'] as const),
  columns: Type.Array(Column),
  primary_key: Names,
  foreign_keys: Type.Array(
    Type.Object({
      name: Text,
      columns: Names,
      referenced_schema: Text,
      referenced_table: Text,
      referenced_columns: Names,
      on_delete: Action,
      on_update: Action,
    }),
  ),
  indexes: Type.Array(
    Type.Object({
      name: Text,
      columns: Type.Array(Text, { description: 'Names of columns, or expressions.' }),
      unique: Type.Boolean(),
      primary: Type.Boolean(),
      definition: Text,
    }),
  ),
  checks: Type.Array(Type.Object({ name: Text, expression: Text })),
  rls_enabled: Type.Boolean(),
  row_estimate: Nullable(
    Type.Number({ description: 'The last estimate of VACUUM or ANALYZE; null before the first.' }),
  ),
  comment: Nullable(Text),
})
export type Table = Static<typeof Table>

export const Extension = Type.Object({
  name: Text,
  installed_version: Nullable(Text),
  default_version: Nullable(Text),
  schema: Nullable(Text),
  comment: Nullable(Text),
})
export type Extension = Static<typeof Extension>

const byId = { id: Id }
const byTable = { ...byId, table: SqlName }
/** The handler compares it before any other check. A wrong value is a mismatch, not an invalid request. */
const confirm = Type.Optional(Type.String({ description: 'Must be the name in the path.' }))
const cascade = Type.Optional(Type.Boolean({ description: 'Also drop dependent objects.' }))

export const schemaApi = {
  listTables: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/schema/tables',
    scope: 'read',
    summary: 'List tables and views of a schema with columns, keys, indexes and row estimate, by name',
    params: Type.Object(byId),
    query: Type.Object({ ...pageQuery, schema: SchemaQuery }),
    reply: page('tables', Table),
  },
  createTable: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/schema/tables',
    scope: 'admin',
    audit: 'schema.table_created',
    summary: 'Create a table; row-level security is enabled by default',
    params: Type.Object(byId),
    body: TableInput,
    reply: Table,
    status: 201,
  },
  dropTable: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/schema/tables/{table}',
    scope: 'admin',
    audit: 'schema.table_dropped',
    summary: 'Drop a table or view; `confirm` must be its name',
    params: Type.Object(byTable),
    query: Type.Object({ confirm, cascade, schema: SchemaQuery }),
    reply: Empty,
    status: 204,
  },
  addColumn: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/schema/tables/{table}/columns',
    scope: 'admin',
    audit: 'schema.column_added',
    summary: 'Add a column to a table',
    params: Type.Object(byTable),
    query: Type.Object({ schema: SchemaQuery }),
    body: ColumnInput,
    reply: Column,
    status: 201,
  },
  dropColumn: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/schema/tables/{table}/columns/{col}',
    scope: 'admin',
    audit: 'schema.column_dropped',
    summary: 'Drop a column; `confirm` must be its name',
    params: Type.Object({ ...byTable, col: SqlName }),
    query: Type.Object({ confirm, cascade, schema: SchemaQuery }),
    reply: Empty,
    status: 204,
  },
  listExtensions: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/schema/extensions',
    scope: 'read',
    summary: 'List the installed extensions, and those that the owner of the project may install',
    params: Type.Object(byId),
    query: Type.Object(pageQuery),
    reply: page('extensions', Extension),
  },
} as const satisfies Routes
