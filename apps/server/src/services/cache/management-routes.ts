import type { cacheManagementApi } from '@plinth/contract/cache.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import type { CacheService } from './service.ts'

export const cacheManagementRoutes = (cache: CacheService): Handlers<typeof cacheManagementApi, Actor> => ({
  list: ({ params, query }) =>
    cache.list(params.id, query.pattern ?? '*', query.limit ?? 50, query.offset ?? 0),
  read: ({ params }) => cache.read(params.id, params.key),
  create: ({ params, body }) => cache.write(params.id, body.key, body.value, body.ttl),
  delete: async ({ params }) => void (await cache.removeOne(params.id, params.key)),
  flush: ({ params }) => cache.flush(params.id),
  stats: ({ params }) => cache.stats(params.id),
})
