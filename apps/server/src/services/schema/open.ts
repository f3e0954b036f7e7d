import { schemaApi } from '@plinth/contract/schema.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import { schemaRoutes } from './management-routes.ts'
import { schemaService } from './service.ts'

export function openSchema({ owner }: { owner: OwnerWork }): Service {
  const service = schemaService(owner)
  return { name: 'schema', mount: to => to.management(schemaApi, schemaRoutes(service)) }
}
