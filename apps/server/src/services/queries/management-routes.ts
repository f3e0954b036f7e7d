import type { queriesApi } from '@plinth/contract/queries.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { QueriesService } from './service.ts'

export const queriesRoutes = (queries: QueriesService): Handlers<typeof queriesApi, Actor> => ({
  listSaved: ({ params, query }) => queries.listSaved(params.id, paging(query)),
  save: ({ params, body }) => queries.save(params.id, body),
  removeSaved: async ({ params }) => void (await queries.removeSaved(params.id, params.query_id)),
  listHistory: ({ params, query }) => queries.listHistory(params.id, paging(query)),
  record: ({ params, body }) => queries.record(params.id, body),
})
