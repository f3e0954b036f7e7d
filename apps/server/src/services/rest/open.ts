import { restApi } from '@plinth/contract/rest.ts'
import type { Service } from '#src/planes/service.ts'
import { restRoutes } from './data-routes.ts'
import { explainRestError, restPlane } from './plane.ts'
import { type RestDeps, restService } from './service.ts'
import { isRowsPath, refuseRowsPath } from './unknown-path.ts'

export function openRest(deps: RestDeps): Service {
  const service = restService(deps)
  return {
    name: 'rest',
    mount: to => to.data(restApi, restRoutes(service), restPlane),
    unknownPaths: { isOwn: isRowsPath, explain: explainRestError, refuse: refuseRowsPath },
  }
}
