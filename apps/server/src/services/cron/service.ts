// Scheduled jobs that run SQL in a project database. They are stored in the control database, which all nodes poll.
import type { Job, JobDefinition, Run } from '@plinth/contract/cron.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { createLimiter } from '#src/kernel/limiter.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { parseSchedule } from './schedule.ts'
import * as store from './store.ts'

interface CronDeps {
  control: Database
  owner: Pick<OwnerWork, 'tenant'>
  /** Wakes the worker after a schedule has changed. */
  wake(): void
}

export type CronService = ReturnType<typeof cronService>

/** Bounded, because all projects share the control database and the list is not paged. */
const most = { jobs: 1000, bytes: 4_000_000 }
const mostRuns = 100
/** The platform uses the same control connections, so a project may use only one at a time. */
const maxWaiting = 100

export function cronService({ control, owner, wake }: CronDeps) {
  const limit = createLimiter({ perKey: 1, maxWaiting })

  async function runsOf(projectId: string, name: string, page: Paging) {
    const job = await store.findJobId(control, projectId, name)
    if (!job) throw noJob(name)
    const limit = Math.min(page.limit, mostRuns)
    return { ...(await store.listRuns(control, job.id, { limit, offset: page.offset })), limit }
  }

  return {
    async schedule({ id }: Tenant, input: JobDefinition): Promise<Job> {
      const { next } = parseSchedule(input.schedule)
      if (input.command.trim() === '') throw new Refusal('invalid_request', 'Field "command" must hold SQL')
      if (input.command.includes('\0'))
        throw new Refusal('invalid_request', 'Field "command" cannot hold a NUL character')
      const first = next(await limit(id, () => store.clock(control)))
      if (!first)
        throw new Refusal('invalid_schedule', `The schedule "${input.schedule}" names a day that never comes`)
      const job = await limit(id, () => store.saveJob(control, id, input, first, most))
      if (!job)
        throw new Refusal(
          'too_many_jobs',
          `A project may have ${most.jobs} scheduled jobs with ${most.bytes} bytes of SQL in all; remove some first`,
        )
      wake()
      return job
    },

    list: async ({ id }: Tenant): Promise<Job[]> => (await limit(id, () => store.listJobs(control, id))).rows,

    async unschedule({ id }: Tenant, name: string): Promise<void> {
      const deleted = await limit(id, () => store.deleteJob(control, id, name))
      if (deleted === 0) throw noJob(name)
    },

    runs: async ({ id }: Tenant, name: string, count: number): Promise<Run[]> =>
      (await limit(id, () => runsOf(id, name, { limit: count, offset: 0 }))).rows,

    async listManaged(projectId: string, page: Paging) {
      const { id } = await owner.tenant(projectId)
      const { rows, total } = await store.listJobs(control, id, page)
      return { jobs: rows, total, ...page }
    },

    async runsManaged(projectId: string, name: string, page: Paging) {
      const { id } = await owner.tenant(projectId)
      const { rows, total, limit } = await runsOf(id, name, page)
      return { runs: rows, total, limit, offset: page.offset }
    },
  }
}

const noJob = (name: string) => new Refusal('job_not_found', `The project has no job "${name}"`)
