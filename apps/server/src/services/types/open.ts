import { typesApi } from '@plinth/contract/types.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import { typesRoutes } from './management-routes.ts'
import { typesService } from './service.ts'

export function openTypes({ owner }: { owner: OwnerWork }): Service {
  const service = typesService(owner)
  return { name: 'types', mount: to => to.management(typesApi, typesRoutes(service)) }
}
