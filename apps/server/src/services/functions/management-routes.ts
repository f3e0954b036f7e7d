import type { functionsManagementApi } from '@plinth/contract/functions.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { FunctionsService } from './service.ts'

export const functionsManagementRoutes = (
  functions: FunctionsService,
): Handlers<typeof functionsManagementApi, Actor> => ({
  list: ({ params, query }) => functions.list(params.id, paging(query)),
  create: ({ params, body: { name, ...deployment } }) => functions.create(params.id, name, deployment),
  read: ({ params }) => functions.read(params.id, params.name),
  update: ({ params, body }) => functions.update(params.id, params.name, body),
  rollback: ({ params, body }) => functions.rollback(params.id, params.name, body.version),
  remove: async ({ params }) => void (await functions.remove(params.id, params.name)),
  logs: ({ params, query }) => functions.logs(params.id, params.name, query),
})
