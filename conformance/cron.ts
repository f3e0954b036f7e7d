// A client for the scheduled jobs of a project, whose tables show what the jobs did.
import assert from 'node:assert/strict'
import { type RowsApi, rowsProject } from './rows.ts'
import { bodyOf, type ServiceApi, serviceOf } from './service.ts'
import type { Target } from './target.ts'
import { until } from './until.ts'

export interface Run {
  runid: number
  jobid: number
  name: string
  status: 'running' | 'succeeded' | 'failed' | 'skipped'
  return_message: string | null
  command: string
  start_time: string
  end_time: string | null
}

export interface CronApi extends ServiceApi {
  rows: RowsApi
  /** Runs SQL as the project's owner and returns the first column of the last statement. */
  column(sql: string): Promise<any[]>
  schedule(name: string, schedule: string, command: string): Promise<any>
  unschedule(name: string): Promise<void>
  jobs(): Promise<any[]>
  runs(name: string, query?: string): Promise<Run[]>
  /** Waits for a run with this status and returns the newest. */
  run(name: string, status: Run['status']): Promise<Run>
  /** Waits for this many more runs, successful or not. */
  ticks(name: string, count: number): Promise<void>
}

/** A project with the table `did (what text)`. */
export async function cronProject(target: Target): Promise<CronApi> {
  const rows = await rowsProject(target, 'create table public.did (what text)')
  const api = serviceOf(target, rows.project, 'cron')
  const runs = async (name: string, query = ''): Promise<Run[]> =>
    bodyOf(await api.get(`jobs/${encodeURIComponent(name)}/runs${query}`))
  return {
    ...api,
    rows,
    column: async sql => (await rows.sql(sql)).map(row => Object.values(row)[0]),
    schedule: async (name, schedule, command) =>
      bodyOf(await api.post('jobs', { name, schedule, command }), 201),
    unschedule: async name => {
      const { status, text } = await api.delete(`jobs/${encodeURIComponent(name)}`)
      assert.equal(status, 204, text)
    },
    jobs: async () => bodyOf(await api.get('jobs')),
    runs,
    run: (name, status) =>
      until(`${name} has ${status}`, async () => (await runs(name)).find(run => run.status === status)),
    async ticks(name, count) {
      const from = (await runs(name, '?limit=1'))[0]?.runid ?? 0
      await until(`${name} runs ${count} times`, async () => {
        const ended = (await runs(name)).filter(({ runid, end_time }) => runid > from && end_time !== null)
        return ended.length >= count
      })
    },
  }
}

export const did = (what: string) => `insert into public.did values ('${what}')`
