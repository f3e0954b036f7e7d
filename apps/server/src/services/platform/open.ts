import { platformApi } from '@plinth/contract/platform.ts'
import type { Service } from '#src/planes/service.ts'
import { platformRoutes } from './management-routes.ts'
import { type PlatformDeps, platformService } from './service.ts'

export function openPlatform(deps: PlatformDeps): Service {
  const service = platformService(deps)
  return { name: 'platform', mount: to => to.management(platformApi, platformRoutes(service)) }
}
