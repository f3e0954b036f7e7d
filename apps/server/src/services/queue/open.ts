import { queueApi } from '@plinth/contract/queue.ts'
import type { Service } from '#src/planes/service.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import { queueRoutes } from './data-routes.ts'
import { queueService } from './service.ts'

export function openQueue({ databases }: { databases: Databases }): Service {
  const service = queueService(databases)
  return { name: 'queue', mount: to => to.data(queueApi, queueRoutes(service)) }
}
