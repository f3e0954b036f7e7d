import { rlsApi } from '@plinth/contract/rls.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import { rlsRoutes } from './management-routes.ts'
import { rlsService } from './service.ts'

export function openRls(deps: { owner: OwnerWork; databases: Databases }): Service {
  const service = rlsService(deps.owner, deps.databases)
  return { name: 'rls', mount: to => to.management(rlsApi, rlsRoutes(service)) }
}
