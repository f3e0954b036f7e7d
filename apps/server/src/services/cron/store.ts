import type { Job, Run } from '@plinth/contract/cron.ts'
import { countRows } from '#src/kernel/metrics.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Room } from '#src/kernel/worker-slots.ts'

export interface JobInput {
  name: string
  schedule: string
  command: string
}

/** A run stores only the beginning of the command. The job has all of it. */
const shownCharacters = 1000
const jobColumns = sql`id::float8 as jobid, name, schedule, command, is_active as active, created_at, updated_at, case when is_active then next_run_at end as next_run_at`
const runColumns = sql`r.id::float8 as runid, r.job_id::float8 as jobid, j.name, r.status, r.return_message, left(coalesce(r.command, j.command), ${shownCharacters}) as command, r.start_time, r.end_time`

export const clock = async (session: Session) =>
  new Date((await session.row<{ now: string }>(sql`select clock_timestamp() as now`))!.now)

/** Updates the job with the same name, or inserts it. Undefined if the project has too many jobs. */
export const saveJob = (
  control: Database,
  projectId: string,
  { name, schedule, command }: JobInput,
  nextRunAt: Date,
  most: { jobs: number; bytes: number },
) =>
  control.transaction(async session => {
    // Serialize concurrent inserts, because each would count the jobs without the others.
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
        next_run_at = excluded.next_run_at, is_active = true, updated_at = now()
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

export const switchOffJobs = (session: Session, projectId: string) =>
  session.run(sql`update jobs set is_active = false where project_id = ${projectId}`)

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
  /** The time of the tick. */
  next_run_at: string
  now: string
  /** The last change of the project, including suspend and resume. */
  project_changed_at: string
  /** The previous run has not ended. */
  is_running: boolean
}

/**
 * Claims the most overdue jobs, per project at most as many as it has free slots. The rows stay locked until the transaction
 * ends. The condition uses statement_timestamp(), because Postgres uses no index for the volatile clock_timestamp().
 */
export const lockDue = (session: Session, { jobs, perProject, places }: Room) =>
  session.rows<DueJob>(sql`
    with ranked as (
      select j.id, j.next_run_at, coalesce(known.places, ${perProject}) as places,
             row_number() over (partition by j.project_id order by j.next_run_at) as rank
        from jobs j join projects p on p.id = j.project_id and p.status = 'active'
        left join unnest(${[...places.keys()]}::uuid[], ${[...places.values()]}::int[]) as known (id, places)
          on known.id = j.project_id
       where j.is_active and j.next_run_at <= statement_timestamp()),
    candidates as (select id from ranked where rank <= places order by next_run_at limit ${jobs})
    select j.id, j.project_id, j.name, j.schedule, j.command, j.next_run_at, statement_timestamp() as now,
           p.updated_at as project_changed_at,
           exists (select from job_runs r where r.job_id = j.id and r.status = 'running') as is_running
      from jobs j join candidates using (id) join projects p on p.id = j.project_id
     where j.is_active and j.next_run_at <= statement_timestamp()
     order by j.next_run_at for update of j skip locked`)

export const countDue = (session: Session) =>
  countRows(session, sql`select from jobs where is_active and next_run_at <= now()`)

export const setNextTicks = (session: Session, ticks: readonly { id: string; next: Date }[]) =>
  session.run(sql`
    update jobs set next_run_at = tick.next
      from unnest(${ticks.map(({ id }) => id)}::int8[], ${ticks.map(({ next }) => next)}::timestamptz[]) as tick (id, next)
     where jobs.id = tick.id`)

/** Milliseconds to the next tick of any job; undefined without jobs. */
export async function findNextDueMs(
  control: Database,
  busyProjects: readonly string[],
): Promise<number | undefined> {
  const next = await control.row<{ ms: number }>(sql`
    select (extract(epoch from j.next_run_at - clock_timestamp()) * 1000)::float8 as ms
      from jobs j join projects p on p.id = j.project_id and p.status = 'active'
     where j.is_active and j.project_id <> all(${busyProjects}::uuid[])
     order by j.next_run_at limit 1`)
  return next?.ms
}

export const insertRunning = (session: Session, jobs: readonly DueJob[], leaseSeconds: number) =>
  session.rows<{ id: string; job_id: string }>(sql`
    insert into job_runs (job_id, status, leased_until)
    select unnest(${jobs.map(({ id }) => id)}::int8[]), 'running', now() + make_interval(secs => ${leaseSeconds})
    returning id, job_id`)

export const insertSkipped = (session: Session, skipped: readonly { job: DueJob; why: string }[]) =>
  session.run(sql`
    insert into job_runs (job_id, status, return_message, end_time)
    select job_id, 'skipped', why, clock_timestamp()
      from unnest(${skipped.map(({ job }) => job.id)}::int8[], ${skipped.map(({ why }) => why)}::text[]) as s (job_id, why)`)

/** A process id can be reused, so the start of the backend identifies it as well. */
export interface Backend {
  pid: number
  /** Text of Postgres, because a JavaScript Date would lose the microseconds. */
  startedAt: string
}

export const backendPid = async (session: Session): Promise<number> =>
  (await session.row<{ pid: number }>(sql`select pg_catalog.pg_backend_pid() as pid`))!.pid

/** Stores the backend of a run, so that other nodes can terminate it. Undefined if the run was recorded failed or deleted. */
export const saveBackend = (control: Database, runId: string, pid: number) =>
  control.row<Backend>(sql`
    update job_runs set backend_pid = s.pid, backend_start = s.backend_start
      from pg_stat_activity s
     where id = ${runId} and status = 'running' and s.pid = ${pid}
    returning s.pid, s.backend_start::text as "startedAt"`)

/** False if another node has recorded the run as failed, or the job was deleted. */
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

export const deleteRunsBeyond = (control: Session, jobId: string, kept: number) =>
  control.run(sql`
    delete from job_runs where job_id = ${jobId} and status <> 'running' and id < (
      select id from job_runs where job_id = ${jobId} order by id desc offset ${kept - 1} limit 1)`)

export const extendLeases = (control: Database, runIds: readonly string[], leaseSeconds: number) =>
  control.run(sql`
    update job_runs set leased_until = now() + make_interval(secs => ${leaseSeconds})
     where id = any(${runIds}::int8[]) and status = 'running'`)

/** Terminates the backends of runs of crashed nodes and records these runs as failed. */
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

/** Jobs to reschedule after the clock was set back. */
export const listTicks = (control: Database) =>
  control.rows<{ id: string; schedule: string; next_run_at: string; now: string }>(
    sql`select id, schedule, next_run_at, clock_timestamp() as now from jobs`,
  )

/** Does nothing if the job has changed meanwhile. */
export const setTick = (control: Database, jobId: string, from: string, to: Date) =>
  control.run(sql`
    update jobs set next_run_at = ${to}
     where id = ${jobId} and date_trunc('milliseconds', next_run_at) = ${from}::timestamptz`)

/** After the clock was set back, the lease of a crashed node would last until the old time is reached again. */
export const shortenLeases = (control: Database, leaseSeconds: number) =>
  control.run(sql`
    update job_runs set leased_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
     where status = 'running' and leased_until > clock_timestamp() + make_interval(secs => ${leaseSeconds})`)
