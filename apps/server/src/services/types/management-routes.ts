import type { typesApi } from '@plinth/contract/types.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import type { TypesService } from './service.ts'

export const typesRoutes = (types: TypesService): Handlers<typeof typesApi, Actor> => ({
  typescript: ({ params, query }) => types.typescript(params.id, query.schemas),
  drizzle: ({ params, query }) => types.drizzle(params.id, query.schemas),
})
