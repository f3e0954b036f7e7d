// Opens the cache service and its engine. Deleting a project removes its cached values.
import { cacheApi, cacheManagementApi } from '@plinth/contract/cache.ts'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { cacheRoutes } from './data-routes.ts'
import { cacheManagementRoutes } from './management-routes.ts'
import { openCacheEngine } from './open-engine.ts'
import { cacheService } from './service.ts'

interface CacheDeps {
  redisUrl: string | undefined
  server: { address: ServerAddress; control: string }
  deriveKey: DeriveKey
  directory: Directory
  owner: OwnerWork
  log: Log
}

export async function openCache({ directory, owner, ...deps }: CacheDeps): Promise<Service> {
  const engine = await openCacheEngine({
    ...deps,
    exists: async id => (await directory.find(id)) !== undefined,
  })
  const service = cacheService(engine, owner)
  directory.onChange(
    id =>
      void directory
        .read(id)
        .catch(() => undefined)
        .then(tenant => engine.changed(id, tenant)),
  )
  return {
    name: 'cache',
    mount(to) {
      to.data(cacheApi, cacheRoutes(service))
      to.management(cacheManagementApi, cacheManagementRoutes(service))
    },
    hooks: { created: engine.created, removed: engine.removed },
    warnings: engine.warnings,
    close: engine.close,
  }
}
