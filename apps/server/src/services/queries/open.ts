import { queriesApi } from '@plinth/contract/queries.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import { tableDataHooks } from '#src/tenancy/project-data-store.ts'
import { queriesRoutes } from './management-routes.ts'
import { queriesService } from './service.ts'

export function openQueries(deps: { control: Database; owner: OwnerWork }): Service {
  const service = queriesService(deps.control, deps.owner)
  return {
    name: 'queries',
    mount: to => to.management(queriesApi, queriesRoutes(service)),
    data: savedQueriesData,
  }
}

export const savedQueriesData = tableDataHooks('saved_queries', [
  'id',
  'name',
  'description',
  'sql',
  'created_at',
  'updated_at',
])
