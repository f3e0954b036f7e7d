import type { poolerApi } from '@plinth/contract/pooler.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import type { PoolerService } from './service.ts'

export const poolerRoutes = (pooler: PoolerService): Handlers<typeof poolerApi, Actor> => ({
  reveal: ({ params }) => pooler.reveal(params.id),
})
