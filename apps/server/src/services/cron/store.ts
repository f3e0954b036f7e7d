import type { Job, Run } from '@plinth/contract/cron.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface JobWish {
  name: string
  schedule: string
  command: string
}

/** Of the command of a run: the whole of it stands in the job, once. */
const shownCharacters = 1000
const jobColumns = sql`id::float8 as jobid, name, schedule, command, true as active, created_at, updated_at, next_run_at`
const runColumns = sql`r.id::float8 as runid, r.job_id::float8 as jobid, j.name, r.status, r.return_message, left(coalesce(r.command, j.command), ${shownCharacters}) as command, r.start_time, r.end_time`

export const clock = async (session: Session) =>
  new Date((await session.row<{ now: string }>(sql`select clock_timestamp() as now`))!.now)

/** Of the same name, it is the same job with another schedule and command. Undefined when it would be too much. */
export const saveJob = (
  control: Database,
  projectId: string,
  { name, schedule, command }: JobWish,
  nextRunAt: Date,
  most: { jobs: number; bytes: number },
) =>
  control.transaction(async session => {
    // One after the other, or each would count the jobs without the others.
    await session.run(sql`select from projects where id = ${projectId} for no key update`)
    await session.run(sql`
      update job_runs r set command = left(j.command, ${shownCharacters}) from jobs j
       where j.project_id = ${projectId} and j.name = ${name} and j.command <> ${command}
         and r.job_id = j.id and r.command is null`)
    return session.row<Job>(sql`
      insert into jobs (project_id, name, schedule, command, next_run_at)
      select ${projectId}, ${name}, ${schedule}, ${command}, ${nextRunAt}
        from (select count(*) as jobs, coalesce(sum(octet_length(command)), 0) as bytes
                from jobs where project_id = ${projectId} and name <> ${name}) others
       where jobs < ${most.jobs} and bytes + octet_length(${command}) <= ${most.bytes}
      on conflict (project_id, name) do update set schedule = excluded.schedule, command = excluded.command,
        next_run_at = excluded.next_run_at, updated_at = now()
      returning ${jobColumns}`)
  })

export async function listJobs(
  control: Database,
  projectId: string,
  page?: { limit: number; offset: number },
): Promise<{ rows: Job[]; total: number }> {
  const [rows, count] = await Promise.all([
    control.rows<Job>(sql`
      select ${jobColumns} from jobs where project_id = ${projectId} order by name
       limit ${page?.limit ?? null} offset ${page?.offset ?? 0}`),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from jobs where project_id = ${projectId}`,
    ),
  ])
  return { rows, total: count?.total ?? 0 }
}

export const deleteJob = (control: Database, projectId: string, name: string) =>
  control.run(sql`delete from jobs where project_id = ${projectId} and name = ${name}`)

export const findJobId = (control: Database, projectId: string, name: string) =>
  control.row<{ id: string }>(sql`select id from jobs where project_id = ${projectId} and name = ${name}`)

export async function listRuns(
  control: Database,
  jobId: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<{ rows: Run[]; total: number }> {
  const [rows, count] = await Promise.all([
    control.rows<Run>(sql`
      select ${runColumns} from job_runs r join jobs j on j.id = r.job_id
       where r.job_id = ${jobId} order by r.id desc limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(sql`select count(*)::int as total from job_runs where job_id = ${jobId}`),
  ])
  return { rows, total: count?.total ?? 0 }
}

export interface DueJob {
  id: string
  project_id: string
  name: string
  schedule: string
  command: string
  /** The tick. */
  next_run_at: string
  now: string
  /** When the project was last changed, suspended or resumed. */
  project_changed_at: string
  /** The run before is not over yet. */
  is_running: boolean
}

/** The most overdue job; nobody else has it until the transaction ends. Not by clock_timestamp(), which no index knows. */
export const findDue = (session: Session, busyProjects: readonly string[]) =>
  session.row<DueJob>(sql`
    select j.id, j.project_id, j.name, j.schedule, j.command, j.next_run_at, statement_timestamp() as now,
           p.updated_at as project_changed_at,
           exists (select from job_runs r where r.job_id = j.id and r.status = 'running') as is_running
      from jobs j join projects p on p.id = j.project_id and p.status = 'active'
     where j.next_run_at <= statement_timestamp() and j.project_id <> all(${busyProjects}::uuid[])
     order by j.next_run_at limit 1 for update of j skip locked`)

export const moveOn = (session: Session, jobId: string, nextRunAt: Date) =>
  session.run(sql`update jobs set next_run_at = ${nextRunAt} where id = ${jobId}`)

/** Milliseconds to the next tick of all; undefined without jobs. */
export async function findNextDueMs(
  control: Database,
  busyProjects: readonly string[],
): Promise<number | undefined> {
  const next = await control.row<{ ms: number }>(sql`
    select (extract(epoch from j.next_run_at - clock_timestamp()) * 1000)::float8 as ms
      from jobs j join projects p on p.id = j.project_id and p.status = 'active'
     where j.project_id <> all(${busyProjects}::uuid[])
     order by j.next_run_at limit 1`)
  return next?.ms
}

export const insertRunning = (session: Session, { id }: DueJob, leaseSeconds: number) =>
  session.row<{ id: string }>(sql`
    insert into job_runs (job_id, status, leased_until)
    values (${id}, 'running', now() + make_interval(secs => ${leaseSeconds})) returning id`)

export const insertSkipped = (session: Session, { id }: DueJob, why: string) =>
  session.run(sql`
    insert into job_runs (job_id, status, return_message, end_time)
    values (${id}, 'skipped', ${why}, clock_timestamp())`)

/** A process id alone may be somebody else's by now. */
export interface Backend {
  pid: number
  /** As Postgres writes it: a date here would lose the microseconds. */
  startedAt: string
}

/** Where it runs, so that it can be ended from elsewhere. Undefined when somebody has given it up, or the job is gone. */
export const noteBackend = (control: Database, runId: string, pid: number) =>
  control.row<Backend>(sql`
    update job_runs set backend_pid = s.pid, backend_start = s.backend_start
      from pg_stat_activity s
     where id = ${runId} and status = 'running' and s.pid = ${pid}
    returning s.pid, s.backend_start::text as "startedAt"`)

/** False when somebody has given it up for dead meanwhile, or the job is gone. */
export const finishRun = async (
  control: Database,
  runId: string,
  status: 'succeeded' | 'failed' | 'skipped',
  message: string,
) =>
  (await control.run(sql`
    update job_runs set status = ${status}, return_message = ${message}, end_time = clock_timestamp(),
           leased_until = null
     where id = ${runId} and status = 'running'`)) === 1

export const forgetRunsBeyond = (control: Session, jobId: string, kept: number) =>
  control.run(sql`
    delete from job_runs where job_id = ${jobId} and status <> 'running' and id < (
      select id from job_runs where job_id = ${jobId} order by id desc offset ${kept - 1} limit 1)`)

export const extendLeases = (control: Database, runIds: readonly string[], leaseSeconds: number) =>
  control.run(sql`
    update job_runs set leased_until = now() + make_interval(secs => ${leaseSeconds})
     where id = any(${runIds}::int8[]) and status = 'running'`)

/** Runs of nodes that died are over: what is left of them in the database is ended, and they are recorded failed. */
export const failAbandoned = (control: Database, message: string) =>
  control.rows<{ id: string }>(sql`
    with abandoned as (
      update job_runs set status = 'failed', return_message = ${message}, end_time = clock_timestamp(),
             leased_until = null
       where status = 'running' and leased_until < clock_timestamp()
      returning id, backend_pid, backend_start)
    select a.id, pg_terminate_backend(s.pid) from abandoned a
      left join pg_stat_activity s on s.pid = a.backend_pid and s.backend_start = a.backend_start`)

export const endBackend = (control: Database, { pid, startedAt }: Backend) =>
  control.run(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
     where pid = ${pid} and backend_start = ${startedAt}::timestamptz`)

/** For putting right what a clock that jumped has done. */
export const listTicks = (control: Database) =>
  control.rows<{ id: string; schedule: string; next_run_at: string; now: string }>(
    sql`select id, schedule, next_run_at, clock_timestamp() as now from jobs`,
  )

/** Unless it has moved meanwhile. */
export const setTick = (control: Database, jobId: string, from: string, to: Date) =>
  control.run(sql`
    update jobs set next_run_at = ${to}
     where id = ${jobId} and date_trunc('milliseconds', next_run_at) = ${from}::timestamptz`)

/** Of a node that died before the clock was set back, a lease would last until it is that late again. */
export const shortenLeases = (control: Database, leaseSeconds: number) =>
  control.run(sql`
    update job_runs set leased_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
     where status = 'running' and leased_until > clock_timestamp() + make_interval(secs => ${leaseSeconds})`)
