import type { cacheApi } from '@plinth/contract/cache.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { CacheService } from './service.ts'

export const cacheRoutes = (cache: CacheService): Handlers<typeof cacheApi, Caller> => ({
  get: ({ params }, { tenant }) => cache.get(tenant, params.key),
  set: ({ body }, { tenant }) => cache.set(tenant, body),
  del: ({ body }, { tenant }) => cache.remove(tenant, body.keys),
  incr: ({ body }, { tenant }) => cache.add(tenant, body.key, body.by ?? 1),
  decr: ({ body }, { tenant }) => cache.add(tenant, body.key, -(body.by ?? 1)),
  expire: ({ body }, { tenant }) => cache.expire(tenant, body.key, body.seconds),
  ttl: ({ params }, { tenant }) => cache.ttl(tenant, params.key),
  exists: ({ params }, { tenant }) => cache.exists(tenant, params.key),
  mget: ({ body }, { tenant }) => cache.getAll(tenant, body.keys),
  mset: ({ body }, { tenant }) => cache.setAll(tenant, body.pairs),
  scan: ({ query }, { tenant }) => cache.scan(tenant, query.cursor, query.match, query.count),
})
