import { poolerApi } from '@plinth/contract/pooler.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import { poolerRoutes } from './management-routes.ts'
import { poolerService } from './service.ts'

export function openPooler(deps: { control: Database; logins: Logins; owner: OwnerWork }): Service {
  const service = poolerService(deps.control, deps.logins, deps.owner)
  return { name: 'pooler', mount: to => to.management(poolerApi, poolerRoutes(service)) }
}
