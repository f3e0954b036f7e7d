import { healthApi } from '@plinth/contract/health.ts'
import type { Service } from '#src/planes/service.ts'
import { healthRoutes } from './management-routes.ts'
import { type HealthDeps, healthService } from './service.ts'

/** The description is the OpenAPI document of the platform, as text. */
export function openHealth({ description, ...deps }: HealthDeps & { description: string }): Service {
  const service = healthService(deps)
  return { name: 'health', mount: to => to.management(healthApi, healthRoutes(service, description)) }
}
