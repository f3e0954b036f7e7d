import type { rlsApi } from '@plinth/contract/rls.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { RlsService } from './service.ts'

export const rlsRoutes = (rls: RlsService): Handlers<typeof rlsApi, Actor> => ({
  status: ({ params, query }) => rls.status(params.id, query.schema ?? 'public', paging(query)),
  enable: ({ params, query }) => rls.enable(params.id, placeOf(params, query)),
  disable: ({ params, query }) => rls.disable(params.id, placeOf(params, query)),
  listPolicies: ({ params, query }) => rls.listPolicies(params.id, placeOf(params, query), paging(query)),
  createPolicy: ({ params, query, body }) => rls.createPolicy(params.id, placeOf(params, query), body),
  async dropPolicy({ params, query }) {
    await rls.dropPolicy(params.id, placeOf(params, query), params.name)
  },
  test: ({ params, body }) => rls.test(params.id, body),
})

const placeOf = ({ table }: { table: string }, { schema = 'public' }: { schema?: string }) => ({
  schema,
  table,
})
