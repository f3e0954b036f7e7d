import { authApi } from '@plinth/contract/auth.ts'
import type { Opened } from '#src/planes/service.ts'
import { authRoutes } from './data-routes.ts'
import { resealFactors } from './mfa/reseal.ts'
import { authPlane, unknownAuthPaths } from './plane.ts'
import { type AuthDeps, type AuthService, authService } from './service.ts'

export function openAuth(deps: AuthDeps): Opened<AuthService> {
  const service = authService(deps)
  return {
    name: 'auth',
    service,
    mount: to => to.data(authApi, authRoutes(service), authPlane),
    unknownPaths: unknownAuthPaths,
    reseal: resealFactors(deps.sealer),
  }
}
