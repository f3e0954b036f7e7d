// Jobs that run SQL in a project's database at set times. They live in the control database, where every node looks.
import type { Job, JobWish, Run } from '@plinth/contract/cron.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { createTurnsByOwner } from '#src/kernel/turns.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { parseSchedule } from './schedule.ts'
import * as store from './store.ts'

interface CronDeps {
  control: Database
  owner: Pick<OwnerWork, 'tenant'>
  /** Tells the worker that there is a new tick to wait for. */
  wake(): void
}

export type CronService = ReturnType<typeof cronService>

/** All projects share the control database, and the list shows all of a project's jobs at once. */
const most = { jobs: 1000, bytes: 4_000_000 }
const mostRuns = 100
/** The platform itself lives on the same few connections: a project's servers have one of them. */
const atOnce = 1
const mayWait = 100

export function cronService({ control, owner, wake }: CronDeps) {
  const inLine = createTurnsByOwner(atOnce, mayWait)

  async function runsOf(projectId: string, name: string, page: Paging) {
    const job = await store.findJobId(control, projectId, name)
    if (!job) throw noJob(name)
    const limit = Math.min(page.limit, mostRuns)
    return { ...(await store.listRuns(control, job.id, { limit, offset: page.offset })), limit }
  }

  return {
    async schedule({ id }: Tenant, wish: JobWish): Promise<Job> {
      const { next } = parseSchedule(wish.schedule)
      if (wish.command.trim() === '') throw new Refusal('invalid_request', 'Field "command" must hold SQL')
      if (wish.command.includes('\0'))
        throw new Refusal('invalid_request', 'Field "command" cannot hold a NUL character')
      const first = next(await inLine(id, () => store.clock(control)))
      if (!first)
        throw new Refusal('invalid_schedule', `The schedule "${wish.schedule}" names a day that never comes`)
      const job = await inLine(id, () => store.saveJob(control, id, wish, first, most))
      if (!job)
        throw new Refusal(
          'too_many_jobs',
          `A project may have ${most.jobs} scheduled jobs with ${most.bytes} bytes of SQL in all; remove some first`,
        )
      wake()
      return job
    },

    list: async ({ id }: Tenant): Promise<Job[]> =>
      (await inLine(id, () => store.listJobs(control, id))).rows,

    async unschedule({ id }: Tenant, name: string): Promise<void> {
      const deleted = await inLine(id, () => store.deleteJob(control, id, name))
      if (deleted === 0) throw noJob(name)
    },

    runs: async ({ id }: Tenant, name: string, limit: number): Promise<Run[]> =>
      (await inLine(id, () => runsOf(id, name, { limit, offset: 0 }))).rows,

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
