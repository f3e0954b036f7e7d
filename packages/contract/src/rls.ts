// Row-level security of a project: which tables have it, their policies, and what a role would see and may do.
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
  forced: Type.Boolean({ description: 'Also for the owner of the table.' }),
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

export const PolicyWish = Type.Object(
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
export type PolicyWish = Static<typeof PolicyWish>

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

const Complaint = Type.Object({ code: Text, message: Text })

export const Verdict = Type.Object({
  policy: Text,
  using: Nullable(Type.Boolean({ description: 'For the row as it is; null when it is not asked.' })),
  with_check: Nullable(Type.Boolean({ description: 'For the row as it would become; null when not asked.' })),
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
  bypasses_rls: Type.Boolean({ description: 'The role sees and does everything its grants allow.' }),
  policies: Type.Array(Policy, { description: 'Those that apply to this role and command.' }),
  rows: Type.Array(
    Type.Object({
      row: Row,
      allowed: Type.Boolean({ description: 'What Postgres did when the role tried.' }),
      error: Nullable(Complaint),
      verdicts: Type.Array(Verdict),
    }),
  ),
  error: Nullable(Complaint),
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
    summary: 'Which tables of a schema have row-level security enabled and forced, by name',
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
    summary: 'Enable row-level security: without a policy nobody but service_role sees a row',
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
    summary:
      'Disable row-level security: every role sees every row; policies stay and count again when enabled',
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
    body: PolicyWish,
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
      'Try a command as a role and user, and undo it: `allowed` is what Postgres did; each verdict is a policy’s expression evaluated as that role on the values of the row',
    params: byId,
    body: RlsTest,
    reply: RlsTestReply,
  },
} as const satisfies Routes
