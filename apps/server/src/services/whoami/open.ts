import { whoamiApi } from '@plinth/contract/whoami.ts'
import type { Service } from '#src/planes/service.ts'
import { whoamiRoutes } from './data-routes.ts'

export const openWhoami = (): Service => ({
  name: 'whoami',
  mount: to => to.data(whoamiApi, whoamiRoutes()),
})
