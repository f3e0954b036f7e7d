import { cronApi, cronManagementApi } from '@plinth/contract/cron.ts'
import { queueDepth, workerMetrics } from '#src/kernel/metrics.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import type { ProjectDataHooks } from '#src/tenancy/project-data.ts'
import { tableDataHooks } from '#src/tenancy/project-data-store.ts'
import { cronRoutes } from './data-routes.ts'
import { cronManagementRoutes } from './management-routes.ts'
import { cronService } from './service.ts'
import { countDue, switchOffJobs } from './store.ts'
import { type CronWorkerDeps, startCronWorker } from './worker.ts'

export async function openCron({ owner, ...deps }: CronWorkerDeps & { owner: OwnerWork }): Promise<Service> {
  const worker = await startCronWorker(deps)
  const service = cronService({ control: deps.control, owner, wake: worker.wake })
  return {
    name: 'cron',
    mount(to) {
      to.data(cronApi, cronRoutes(service))
      to.management(cronManagementApi, cronManagementRoutes(service))
    },
    data: jobData,
    metrics: [...workerMetrics('cron', worker.use), queueDepth('cron', countDue)],
    close: worker.close,
  }
}

const jobRows = tableDataHooks('jobs', [
  'name',
  'schedule',
  'command',
  'is_active',
  'next_run_at',
  'created_at',
  'updated_at',
])

/** Runs are not exported. Jobs of another project are switched off; saving a job switches it on. */
export const jobData: ProjectDataHooks = {
  ...jobRows,
  async restore(session, projectId, exported) {
    await jobRows.restore(session, projectId, exported)
    if (exported.from !== projectId) await switchOffJobs(session, projectId)
  },
}
