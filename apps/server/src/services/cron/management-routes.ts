import type { cronManagementApi } from '@plinth/contract/cron.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { CronService } from './service.ts'

export const cronManagementRoutes = (cron: CronService): Handlers<typeof cronManagementApi, Actor> => ({
  list: ({ params, query }) => cron.listManaged(params.id, paging(query)),
  runs: ({ params, query }) =>
    cron.runsManaged(params.id, params.name, { limit: query.limit ?? 20, offset: query.offset ?? 0 }),
})
