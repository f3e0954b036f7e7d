import { usageApi } from '@plinth/contract/usage.ts'
import type { Opened } from '#src/planes/service.ts'
import { usageRoutes } from './management-routes.ts'
import { type UsageDeps, type UsageService, usageService } from './service.ts'

export function openUsage(deps: UsageDeps): Opened<UsageService> {
  const service = usageService(deps)
  return {
    name: 'usage',
    service,
    mount: to => to.management(usageApi, usageRoutes(service)),
    close: service.close,
  }
}
