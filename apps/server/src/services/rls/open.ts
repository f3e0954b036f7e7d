import { rlsApi } from '@plinth/contract/rls.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import { rlsRoutes } from './management-routes.ts'
import { type RlsService, rlsService } from './service.ts'

export function openRls(deps: { owner: OwnerWork; databases: Databases }): Service & { service: RlsService } {
  const service = rlsService(deps.owner, deps.databases)
  return { name: 'rls', service, mount: to => to.management(rlsApi, rlsRoutes(service)) }
}
