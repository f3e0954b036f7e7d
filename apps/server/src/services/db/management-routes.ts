import type { dbApi } from '@plinth/contract/db.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { DbService } from './service.ts'

export const dbRoutes = (db: DbService): Handlers<typeof dbApi, Actor> => ({
  push: ({ params, body }) => db.push(params.id, body.migrations),
  plan: ({ params, body }) => db.plan(params.id, body.migrations),
  listMigrations: ({ params, query }) =>
    db.listMigrations(params.id, query.statements ?? false, paging(query)),
  schema: ({ params, query }) => db.schema(params.id, query.beyond_migrations ?? false),
  record: ({ params, body }) => db.record(params.id, body.migrations),
  data: ({ params }) => db.data(params.id),
  reset: ({ params, body }) => db.reset(params.id.toLowerCase(), body ?? {}),
})
