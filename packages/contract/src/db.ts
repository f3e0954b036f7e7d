import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Id, Nullable, page, pageQuery, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

const Version = Type.String({
  pattern: '^[0-9]{1,32}$',
  description: 'the digits its file name begins with',
})

/** A migration in a request. Its file is `<version>_<name>.sql`. */
export const Migration = Type.Object(
  {
    version: Version,
    name: Type.Optional(Type.String({ maxLength: 200 })),
    sql: Type.String({
      description: 'With a first line `-- no-transaction`, the migration runs outside a transaction.',
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
  out_of_order: Type.Boolean({ description: 'A newer migration was applied before this one.' }),
  has_transaction: Type.Boolean(),
  statements: Type.Integer(),
}

export const Plan = Type.Object({
  pending: Type.Array(Type.Object(pending)),
  skipped: Type.Array(Named, { description: 'Already applied and unchanged.' }),
  changed: Type.Array(Named, { description: 'Already applied with a different text. A push is rejected.' }),
  missing: Type.Array(Named, { description: 'Applied, but not part of the request.' }),
})
export type Plan = Static<typeof Plan>

const Applied = Type.Object({ ...pending, duration_ms: Type.Integer() })
export type Applied = Static<typeof Applied>

export const Pushed = Type.Object({ applied: Type.Array(Applied), skipped: Type.Array(Named) })
export type Pushed = Static<typeof Pushed>

export const RecordedMigration = Type.Object({
  ...named,
  checksum: Nullable(Type.String({ description: 'Null if another tool recorded the migration.' })),
  applied_at: Nullable(Timestamp),
  statements: Type.Optional(
    Nullable(Type.Array(Type.String(), { description: 'Only with `statements=true`.' })),
  ),
})
export type RecordedMigration = Static<typeof RecordedMigration>

export const ResetReply = Type.Object({
  dropped: Type.Object({
    schemas: Type.Array(Type.String(), {
      description: 'Dropped schemas. `public` is emptied but not dropped.',
    }),
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
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/db/push',
    scope: 'deploy',
    audit: 'db.pushed',
    summary: 'Apply migrations in order of version, each in its own transaction; safe to repeat',
    params: ById,
    body: Type.Object({ migrations: Migrations }, { additionalProperties: false }),
    bodyLimit,
    reply: Pushed,
  },
  plan: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/db/plan',
    scope: 'deploy',
    audit: 'db.push_planned',
    summary: 'Show what a push of these migrations would do; changes nothing',
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
    summary: 'List applied migrations in order of version',
    params: ById,
    query: Type.Object({
      ...pageQuery,
      statements: Type.Optional(Type.Boolean({ description: 'Include the statements of each migration.' })),
    }),
    reply: page('migrations', RecordedMigration),
  },
  record: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/db/migrations',
    scope: 'deploy',
    audit: 'db.migrations_recorded',
    summary: 'Record migrations as applied without running them, for changes that the database already has',
    params: ById,
    body: Type.Object({ migrations: Migrations }, { additionalProperties: false }),
    bodyLimit,
    reply: Type.Object({ recorded: Type.Array(Named), skipped: Type.Array(Named) }),
  },
  reset: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/db/reset',
    scope: 'admin',
    audit: 'db.reset',
    summary:
      'Drop everything in `public` and all other schemas of the project, delete the migration history, optionally apply migrations again',
    params: ById,
    body: Type.Union([
      Type.Object(
        {
          confirm: Type.Optional(Type.String({ description: 'If given, it must be the id of the project.' })),
          migrations: Type.Optional(Migrations),
          reapply: Type.Optional(Type.Boolean({ description: 'Apply the recorded migrations again.' })),
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
    summary: 'Export the project’s own tables, types, functions, views and policies as one SQL script',
    params: ById,
    query: Type.Object({
      beyond_migrations: Type.Optional(
        Type.Boolean({ description: 'Only objects that the recorded migrations do not create.' }),
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
    summary: 'Export the rows of the project’s own tables as one SQL script',
    params: ById,
    reply: Script,
  },
} as const satisfies Routes
