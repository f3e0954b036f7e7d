import { dbApi } from '@plinth/contract/db.ts'
import type { Opened } from '#src/planes/service.ts'
import { dbRoutes } from './management-routes.ts'
import { type DbDeps, type DbService, dbService } from './service.ts'

export function openDb(deps: DbDeps): Opened<DbService> {
  const service = dbService(deps)
  return { name: 'db', service, mount: to => to.management(dbApi, dbRoutes(service)) }
}
