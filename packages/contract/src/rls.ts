// Row-level security of a project: tables, policies, and simulation for a role.
import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { SchemaQuery, SqlName, SqlText } from './schema.ts'
import { Empty, Id, Nullable, page, pageQuery } from './shapes.ts'
import { Type } from './type.ts'

const Text = Type.String()

export const RlsStatus = Type.Object({
  schema: Text,
  table: Text,
  enabled: Type.Boolean(),
  forced: Type.Boolean({ description: 'Whether policies also apply to the owner of the table.' }),
  policy_count: Type.Integer(),
})
export type RlsStatus = Static<typeof RlsStatus>

const commands = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'] as const
const policyCommands = ['ALL', ...commands] as const
export type Command = (typeof commands)[number]
export type PolicyCommand = (typeof policyCommands)[number]

const anyCase = (words: readonly string[]) =>
  Type.String({
    pattern: `^(${words.map(word => word.replace(/[A-Z]/g, each => `[${each}${each.toLowerCase()}]`)).join('|')})$`,
    description: `one of ${words.join(', ')}`,
  })

export const Policy = Type.Object({
  schema: Text,
  table: Text,
  name: Text,
  command: Type.Enum(policyCommands),
  permissive: Type.Boolean(),
  roles: Type.Array(Text),
  using: Nullable(Text),
  with_check: Nullable(Text),
})
export type Policy = Static<typeof Policy>

export const PolicyInput = Type.Object(
  {
    name: SqlName,
    command: Type.Optional(anyCase(policyCommands)),
    using: Type.Optional(SqlText),
    with_check: Type.Optional(SqlText),
    roles: Type.Optional(
      Type.Array(Type.Enum(['public', 'anon', 'authenticated', 'service_role'] as const), {
        minItems: 1,
        maxItems: 4,
      }),
    ),
    permissive: Type.Optional(Type.Boolean({ description: 'False makes it restrictive.' })),
  },
  { additionalProperties: false },
)
export type PolicyInput = Static<typeof PolicyInput>

const Role = Type.Enum(['anon', 'authenticated', 'service_role'] as const)
const Row = Type.Record(Type.String(), Type.Unknown())

export const RlsTest = Type.Object(
  {
    table: SqlName,
    schema: SchemaQuery,
    role: Role,
    user_id: Type.Optional(Type.String({ maxLength: 500, description: 'Becomes the claim `sub`.' })),
    claims: Type.Optional(Row),
    command: Type.Optional(anyCase(commands)),
    row: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'The row to insert, or the values to set.',
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, description: 'Default 20.' })),
  },
  { additionalProperties: false },
)
export type RlsTest = Static<typeof RlsTest>

const SqlError = Type.Object({ code: Text, message: Text })

export const Verdict = Type.Object({
  policy: Text,
  using: Nullable(Type.Boolean({ description: 'The result for the existing row; null if not evaluated.' })),
  with_check: Nullable(Type.Boolean({ description: 'The result for the new row; null if not evaluated.' })),
  error: Nullable(Text),
})
export type Verdict = Static<typeof Verdict>

export const RlsTestReply = Type.Object({
  schema: Text,
  table: Text,
  role: Role,
  user_id: Nullable(Text),
  claims: Row,
  command: Type.Enum(commands),
  rls_enabled: Type.Boolean(),
  bypasses_rls: Type.Boolean({
    description: 'Whether the role is limited by its grants only, not by policies.',
  }),
  policies: Type.Array(Policy, { description: 'The policies that apply to this role and command.' }),
  rows: Type.Array(
    Type.Object({
      row: Row,
      allowed: Type.Boolean({ description: 'Whether Postgres allowed the command for the role.' }),
      error: Nullable(SqlError),
      verdicts: Type.Array(Verdict),
    }),
  ),
  error: Nullable(SqlError),
  rolled_back: Type.Boolean(),
})
export type RlsTestReply = Static<typeof RlsTestReply>

const byId = Type.Object({ id: Id })
const byTable = { id: Id, table: SqlName }
const query = Type.Object({ schema: SchemaQuery })

export const rlsApi = {
  status: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/rls/status',
    scope: 'read',
    summary: 'List the tables of a schema by name, with whether row-level security is enabled and forced',
    params: byId,
    query: Type.Object({ ...pageQuery, schema: SchemaQuery }),
    reply: page('tables', RlsStatus),
  },
  enable: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/rls/tables/{table}/enable',
    scope: 'admin',
    audit: 'rls.enabled',
    summary: 'Enable row-level security; without a policy, only service_role sees rows',
    params: Type.Object(byTable),
    query,
    reply: RlsStatus,
  },
  disable: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/rls/tables/{table}/disable',
    scope: 'admin',
    audit: 'rls.disabled',
    summary: 'Disable row-level security; every role sees every row, and the policies are kept',
    params: Type.Object(byTable),
    query,
    reply: RlsStatus,
  },
  listPolicies: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/rls/tables/{table}/policies',
    scope: 'read',
    summary: 'List the policies of a table by name',
    params: Type.Object(byTable),
    query: Type.Object({ ...pageQuery, schema: SchemaQuery }),
    reply: page('policies', Policy),
  },
  createPolicy: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/rls/tables/{table}/policies',
    scope: 'admin',
    audit: 'rls.policy_created',
    summary: 'Create a policy',
    params: Type.Object(byTable),
    query,
    body: PolicyInput,
    reply: Policy,
    status: 201,
  },
  dropPolicy: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/rls/tables/{table}/policies/{name}',
    scope: 'admin',
    audit: 'rls.policy_dropped',
    summary: 'Drop a policy',
    params: Type.Object({ ...byTable, name: SqlName }),
    query,
    reply: Empty,
    status: 204,
  },
  test: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/rls/test',
    scope: 'admin',
    audit: 'rls.tested',
    summary:
      'Run a command as a role and user, then roll it back. `allowed` is the result in Postgres; each verdict is a policy’s expression, evaluated as that role on the values of the row',
    params: byId,
    body: RlsTest,
    reply: RlsTestReply,
  },
} as const satisfies Routes
