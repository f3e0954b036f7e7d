import { teamApi } from '@plinth/contract/team.ts'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Service } from '#src/planes/service.ts'
import { teamRoutes } from './management-routes.ts'
import { teamService } from './service.ts'

export function openTeam(deps: { control: Database; deriveKey: DeriveKey }): Service {
  const service = teamService(deps.control, deps.deriveKey)
  return { name: 'team', mount: to => to.management(teamApi, teamRoutes(service)) }
}
