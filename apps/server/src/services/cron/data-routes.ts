import type { cronApi } from '@plinth/contract/cron.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { CronService } from './service.ts'

export const cronRoutes = (cron: CronService): Handlers<typeof cronApi, Caller> => ({
  schedule: ({ body }, { tenant }) => cron.schedule(tenant, body),
  list: (_input, { tenant }) => cron.list(tenant),
  unschedule: async ({ params }, { tenant }) => void (await cron.unschedule(tenant, params.name)),
  runs: ({ params, query }, { tenant }) => cron.runs(tenant, params.name, query.limit ?? 100),
})
