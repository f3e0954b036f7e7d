import { dbApi } from '@plinth/contract/db.ts'
import type { Service } from '#src/planes/service.ts'
import { dbRoutes } from './management-routes.ts'
import { type DbDeps, dbService } from './service.ts'

export function openDb(deps: DbDeps): Service {
  const service = dbService(deps)
  return { name: 'db', mount: to => to.management(dbApi, dbRoutes(service)) }
}
