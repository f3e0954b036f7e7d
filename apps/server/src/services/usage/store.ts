import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type Batch, hourMs } from './counters.ts'

/** See forget_usage in the migration. */
const lockAgainstDeletion = (session: Session) =>
  session.run(sql`select pg_advisory_xact_lock_shared(hashtextextended('usage', 0))`)

/** Does nothing if the batch is counted already. Rows are written in the same order by all nodes, so they cannot deadlock. */
export const insertBatch = (control: Database, node: string, { number, counts }: Batch): Promise<void> =>
  control.transaction(async session => {
    await lockAgainstDeletion(session)
    const rows = counts.map(({ project, hour, requests, bytesIn, bytesOut, invocations }) => ({
      project_id: project,
      bucket_start: new Date(hour * hourMs).toISOString(),
      requests,
      bytes_in: bytesIn,
      bytes_out: bytesOut,
      invocations,
    }))
    await session.run(sql`
      with batch as (
        insert into usage_batches (node, number) values (${node}, ${number})
        on conflict (node) do update set number = excluded.number, counted_at = now()
         where usage_batches.number < excluded.number
        returning number)
      insert into usage_hours
        (project_id, bucket_start, requests, bytes_in, bytes_out, function_invocations, storage_bytes)
      select p.id, count.bucket_start, count.requests, count.bytes_in, count.bytes_out, count.invocations,
             coalesce(area.bytes, 0)
        from batch
        cross join json_to_recordset(${JSON.stringify(rows)}::json) as count(
          project_id uuid, bucket_start timestamptz, requests bigint, bytes_in bigint, bytes_out bigint, invocations bigint)
        join projects p on p.id = count.project_id and p.status <> 'deleted'
        left join storage_areas area on area.project_id = p.id
       order by p.id, count.bucket_start
      on conflict (project_id, bucket_start) do update set
        requests = usage_hours.requests + excluded.requests,
        bytes_in = usage_hours.bytes_in + excluded.bytes_in,
        bytes_out = usage_hours.bytes_out + excluded.bytes_out,
        function_invocations = usage_hours.function_invocations + excluded.function_invocations,
        storage_bytes = excluded.storage_bytes`)
  })

/** For files that were removed after the last request, such as those of abandoned uploads. */
export const sampleStorage = (control: Database, hour: Date): Promise<void> =>
  control.transaction(async session => {
    await lockAgainstDeletion(session)
    await session.run(sql`
      insert into usage_hours (project_id, bucket_start, storage_bytes)
      select area.project_id, ${hour}, area.bytes
        from storage_areas area
        join projects p on p.id = area.project_id and p.status <> 'deleted'
        left join lateral (
          select storage_bytes from usage_hours
           where project_id = area.project_id order by bucket_start desc limit 1) hours on true
        left join lateral (
          select storage_bytes from usage_days
           where project_id = area.project_id order by bucket_start desc limit 1) days on true
       where area.bytes <> coalesce(hours.storage_bytes, days.storage_bytes, 0)
       order by area.project_id
      on conflict (project_id, bucket_start) do update set storage_bytes = excluded.storage_bytes`)
  })

export interface UsageRow {
  bucket_start: string
  requests: string
  bytes_in: string
  bytes_out: string
  function_invocations: string
  storage_bytes: string
}

/** The newest rows that start before a time. Hours before `daysBefore` are shown as days, also if they are not rolled up yet. */
export const listRows = (
  control: Database,
  projectId: string,
  { to, daysBefore, limit }: { to: Date; daysBefore: Date; limit: number },
) =>
  control.rows<UsageRow>(sql`
    select * from (
      (select bucket_start, requests, bytes_in, bytes_out, function_invocations, storage_bytes from usage_hours
        where project_id = ${projectId} and bucket_start >= ${daysBefore} and bucket_start < ${to}
        order by bucket_start desc limit ${limit})
      union all
      (select bucket_start, sum(requests)::bigint, sum(bytes_in)::bigint, sum(bytes_out)::bigint,
              sum(function_invocations)::bigint, (array_agg(storage_bytes order by at desc))[1]
         from (
           select bucket_start, bucket_start as at, requests, bytes_in, bytes_out, function_invocations, storage_bytes
             from usage_days where project_id = ${projectId}
           union all
           select date_trunc('day', bucket_start, 'UTC'), bucket_start, requests, bytes_in, bytes_out,
                  function_invocations, storage_bytes
             from usage_hours where project_id = ${projectId} and bucket_start < ${daysBefore}) parts
        where bucket_start < ${to}
        group by bucket_start order by bucket_start desc limit ${limit})) buckets
     order by bucket_start desc limit ${limit}`)

/** Moves some hours, the oldest first. Returns how many days were written; zero if no hours are left. */
export const rollUp = (control: Database, before: Date): Promise<number> =>
  control.transaction(async session => {
    const lock = await session.row<{ taken: boolean }>(
      sql`select pg_try_advisory_xact_lock(hashtextextended('usage roll-up', 0)) as taken`,
    )
    if (!lock!.taken) return 0
    await lockAgainstDeletion(session)
    return session.run(sql`
      with moved as (
        delete from usage_hours where (project_id, bucket_start) in (
          select project_id, bucket_start from usage_hours
           where bucket_start < ${before} order by bucket_start limit 10000)
        returning *)
      insert into usage_days
      select project_id, date_trunc('day', bucket_start, 'UTC'), sum(requests), sum(bytes_in), sum(bytes_out),
             sum(function_invocations), (array_agg(storage_bytes order by bucket_start desc))[1]
        from moved group by 1, 2 order by 1, 2
      on conflict (project_id, bucket_start) do update set
        requests = usage_days.requests + excluded.requests,
        bytes_in = usage_days.bytes_in + excluded.bytes_in,
        bytes_out = usage_days.bytes_out + excluded.bytes_out,
        function_invocations = usage_days.function_invocations + excluded.function_invocations,
        storage_bytes = excluded.storage_bytes`)
  })

/** Of processes that ended long ago. One that runs writes its row at least when it counts. */
export const forgetNodes = (control: Database) =>
  control.run(sql`delete from usage_batches where counted_at < now() - interval '30 days'`)
