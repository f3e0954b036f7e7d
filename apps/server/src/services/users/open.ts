import { usersApi } from '@plinth/contract/users.ts'
import type { Service } from '#src/planes/service.ts'
import { usersRoutes } from './management-routes.ts'
import { type UsersDeps, usersService } from './service.ts'

export function openUsers(deps: UsersDeps): Service {
  const service = usersService(deps)
  return { name: 'users', mount: to => to.management(usersApi, usersRoutes(service)) }
}
