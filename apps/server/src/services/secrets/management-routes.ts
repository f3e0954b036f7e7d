import type { secretsApi } from '@plinth/contract/secrets.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { SecretsService } from './service.ts'

export const secretsRoutes = (secrets: SecretsService): Handlers<typeof secretsApi, Actor> => ({
  list: ({ params, query }) => secrets.list(params.id, paging(query)),
  save: ({ params, body }) => secrets.save(params.id, body.name, body.value),
  update: ({ params, body }) => secrets.update(params.id, params.name, body.value),
  rotate: ({ params }) => secrets.rotate(params.id, params.name),
  remove: async ({ params }) => void (await secrets.remove(params.id, params.identifier)),
})
