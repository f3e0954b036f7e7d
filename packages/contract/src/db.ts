import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Id, Nullable, page, pageQuery, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

const Version = Type.String({
  pattern: '^[0-9]{1,32}$',
  description: 'the digits its file name begins with',
})

/** A migration as it is sent; its file is `<version>_<name>.sql`. */
export const Migration = Type.Object(
  {
    version: Version,
    name: Type.Optional(Type.String({ maxLength: 200 })),
    sql: Type.String({
      description: 'A first line `-- no-transaction` runs it outside a transaction.',
    }),
  },
  { additionalProperties: false },
)
export type Migration = Static<typeof Migration>

const Migrations = Type.Array(Migration, { maxItems: 10_000 })

const named = { version: Type.String(), name: Type.String() }
const Named = Type.Object(named)

const pending = {
  ...named,
  out_of_order: Type.Boolean({ description: 'A newer one was applied before it.' }),
  has_transaction: Type.Boolean(),
  statements: Type.Integer(),
}

export const Plan = Type.Object({
  pending: Type.Array(Type.Object(pending)),
  skipped: Type.Array(Named, { description: 'Applied already, unchanged.' }),
  changed: Type.Array(Named, { description: 'Applied already, but not with this text: a push is refused.' }),
  missing: Type.Array(Named, { description: 'Applied, but not among those sent.' }),
})
export type Plan = Static<typeof Plan>

const Applied = Type.Object({ ...pending, duration_ms: Type.Integer() })
export type Applied = Static<typeof Applied>

export const Pushed = Type.Object({ applied: Type.Array(Applied), skipped: Type.Array(Named) })
export type Pushed = Static<typeof Pushed>

export const RecordedMigration = Type.Object({
  ...named,
  checksum: Nullable(Type.String({ description: 'Null where another tool recorded it.' })),
  applied_at: Nullable(Timestamp),
  statements: Type.Optional(Nullable(Type.Array(Type.String(), { description: 'With `statements=true`.' }))),
})
export type RecordedMigration = Static<typeof RecordedMigration>

export const ResetReply = Type.Object({
  dropped: Type.Object({
    schemas: Type.Array(Type.String(), { description: 'Besides public, which stays and is emptied.' }),
    tables: Type.Array(Type.String()),
    views: Type.Array(Type.String()),
    functions: Type.Array(Type.String()),
    types: Type.Array(Type.String()),
    sequences: Type.Array(Type.String()),
  }),
  forgotten: Type.Array(Named, { description: 'Migrations that no longer count as applied.' }),
  applied: Type.Array(Applied),
})
export type ResetReply = Static<typeof ResetReply>

const ById = Type.Object({ id: Id })
const Script = Type.Object({ sql: Type.String() })

const bodyLimit = 20 * 1024 * 1024

export const dbApi = {
  push: {
    plane: 'management',
    needsRoom: 'disk',
    method: 'POST',
    path: '/projects/{id}/db/push',
    scope: 'deploy',
    audit: 'db.pushed',
    summary: 'Apply migrations in order of version, each in a transaction of its own; safe to repeat',
    params: ById,
    body: Type.Object({ migrations: Migrations }, { additionalProperties: false }),
    bodyLimit,
    reply: Pushed,
  },
  plan: {
    plane: 'management',
    needsRoom: 'disk',
    method: 'POST',
    path: '/projects/{id}/db/plan',
    scope: 'deploy',
    audit: 'db.push_planned',
    summary: 'What a push of these migrations would do; changes nothing',
    params: ById,
    body: Type.Object({ migrations: Migrations }, { additionalProperties: false }),
    bodyLimit,
    reply: Plan,
  },
  listMigrations: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/db/migrations',
    scope: 'read',
    summary: 'Applied migrations, in order of version',
    params: ById,
    query: Type.Object({
      ...pageQuery,
      statements: Type.Optional(Type.Boolean({ description: 'Also what each of them ran.' })),
    }),
    reply: page('migrations', RecordedMigration),
  },
  record: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/db/migrations',
    scope: 'deploy',
    audit: 'db.migrations_recorded',
    summary: 'Let migrations count as applied without running them: their changes are there already',
    params: ById,
    body: Type.Object({ migrations: Migrations }, { additionalProperties: false }),
    bodyLimit,
    reply: Type.Object({ recorded: Type.Array(Named), skipped: Type.Array(Named) }),
  },
  reset: {
    plane: 'management',
    needsRoom: 'disk',
    method: 'POST',
    path: '/projects/{id}/db/reset',
    scope: 'admin',
    audit: 'db.reset',
    summary:
      'Drop everything in public and the project’s own other schemas, forget the migrations, optionally apply some again',
    params: ById,
    body: Type.Union([
      Type.Object(
        {
          confirm: Type.Optional(Type.String({ description: 'If given, it must be the id of the project.' })),
          migrations: Type.Optional(Migrations),
          reapply: Type.Optional(Type.Boolean({ description: 'Apply those recorded so far again.' })),
        },
        { additionalProperties: false },
      ),
      Type.Null(),
    ]),
    bodyLimit,
    reply: ResetReply,
  },
  schema: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/db/schema',
    scope: 'read',
    summary: 'The project’s own tables, types, functions, views and policies as one SQL script',
    params: ById,
    query: Type.Object({
      beyond_migrations: Type.Optional(
        Type.Boolean({ description: 'Only what the recorded migrations do not account for.' }),
      ),
    }),
    reply: Script,
  },
  data: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/db/data',
    scope: 'admin',
    audit: 'db.data_read',
    summary: 'The rows of the project’s own tables as one SQL script',
    params: ById,
    reply: Script,
  },
} as const satisfies Routes
