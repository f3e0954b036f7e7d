// Deliveries as users see them: those that wait, and the records of those that have ended.
import type { Attempt, DeliveryStatus } from '@plinth/contract/webhooks.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { allOf, type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'

export interface DeliveryRow {
  id: string
  webhook_id: string
  event: string
  status: DeliveryStatus
  attempt_count: number
  manual_retry_count: number
  next_attempt_at: string | null
  attempts: Attempt[]
  created_at: string
  ended_at: string | null
}

export interface DeliveryFilter {
  status: DeliveryStatus | undefined
  event: string | undefined
  /** Ids are ordered by time, so a range of time is a range of ids: from the first, before the second. */
  fromId: string | undefined
  beforeIds: readonly string[]
  limit: number
}

const shared = sql`id, webhook_id, event, attempt_count, manual_retry_count, attempts, created_at`
const waiting = sql`${shared}, 'pending' as status, due_at as next_attempt_at, null::timestamptz as ended_at`
const ended = sql`${shared}, status, null::timestamptz as next_attempt_at, ended_at`

/** Newest first. */
export function listDeliveries(control: Database, webhookId: string, filter: DeliveryFilter) {
  const { status, event, fromId, beforeIds, limit } = filter
  const conditions = allOf([
    sql`webhook_id = ${webhookId}`,
    ...(event === undefined ? [] : [sql`event = ${event}`]),
    ...(fromId === undefined ? [] : [sql`id >= ${fromId}::uuid`]),
    ...beforeIds.map(id => sql`id < ${id}::uuid`),
  ])
  const part = (columns: SqlFragment, table: SqlFragment, condition: SqlFragment) =>
    sql`(select ${columns} from ${table} where ${conditions} and ${condition} order by id desc limit ${limit})`
  const queue = part(waiting, sql`webhook_queue`, sql`true`)
  const records = part(
    ended,
    sql`webhook_deliveries`,
    status === 'dead_letter' ? sql`status = 'dead_letter'` : status ? sql`status = ${status}` : sql`true`,
  )
  const source =
    status === 'pending' ? queue : status === undefined ? sql`${queue} union all ${records}` : records
  return control.rows<DeliveryRow>(sql`select * from (${source}) found order by id desc limit ${limit}`)
}

export const findDelivery = (control: Database, webhookId: string, id: string) =>
  control.row<DeliveryRow & { payload: string | null }>(sql`
    select ${waiting}, payload from webhook_queue where webhook_id = ${webhookId} and id = ${id}
    union all
    select ${ended}, payload from webhook_deliveries where webhook_id = ${webhookId} and id = ${id}`)

/** Moves a dead letter back into the queue. False if there is none with this id, or the webhook is not active any more. */
export const requeue = async (session: Session, webhookId: string, id: string): Promise<boolean> =>
  (await session.run(sql`
    with live as materialized (select id from webhooks where id = ${webhookId} and is_active for key share),
    revived as (
      delete from webhook_deliveries
       where webhook_id = (select id from live) and id = ${id} and status = 'dead_letter' returning *)
    insert into webhook_queue
      (id, webhook_id, event, payload, created_at, due_at, attempt_count, manual_retry_count, attempts)
    select id, webhook_id, event, payload, created_at, clock_timestamp(), attempt_count, manual_retry_count + 1, attempts
      from revived`)) === 1

/** Drops what waits for a webhook that was switched off. */
export const deleteWaiting = (session: Session, webhookId: string) =>
  session.run(sql`delete from webhook_queue where webhook_id = ${webhookId}`)

/** Webhooks whose records can be pruned, page by page. */
export const listWebhookIds = async (control: Database, after: string, limit: number) =>
  (
    await control.rows<{ id: string }>(
      sql`select id from webhooks where id > ${after}::uuid order by id limit ${limit}`,
    )
  ).map(({ id }) => id)

/** Deletes at most `limit` ended deliveries of a status that ended before the given time, and returns their number. */
export const deleteEnded = (
  control: Database,
  webhookId: string,
  status: 'delivered' | 'dead_letter',
  { beforeId, days, limit }: { beforeId: string; days: number; limit: number },
) =>
  control.run(sql`
    delete from webhook_deliveries where webhook_id = ${webhookId} and id in (
      select id from webhook_deliveries
       where webhook_id = ${webhookId} and ${status === 'dead_letter' ? sql`status = 'dead_letter'` : sql`status = 'delivered'`}
         and id < ${beforeId}::uuid and ended_at <= now() - make_interval(days => ${days})
       order by id limit ${limit})`)

/** What a delivery takes besides its payload. */
const rowBytes = 300

/** Bytes of the deliveries of a project. */
export const measureStored = async (control: Database, projectId: string) =>
  (await control.row<{ waiting: number; dead: number }>(sql`
    select (select coalesce(sum(pg_column_size(q.payload) + ${rowBytes}), 0)::float8
              from webhooks w join webhook_queue q on q.webhook_id = w.id where w.project_id = ${projectId}) as waiting,
           (select coalesce(sum(pg_column_size(d.payload) + ${rowBytes}), 0)::float8
              from webhooks w join webhook_deliveries d on d.webhook_id = w.id and d.status = 'dead_letter'
             where w.project_id = ${projectId}) as dead`))!

/** Keeps the newest dead letters of a project, and returns the number of the others. */
export const deleteOldestDead = (control: Database, projectId: string, keptBytes: number) =>
  control.run(sql`
    delete from webhook_deliveries d using (
      select d.webhook_id, d.id, sum(pg_column_size(d.payload) + ${rowBytes}) over (order by d.id desc) as newer_bytes
        from webhooks w join webhook_deliveries d on d.webhook_id = w.id and d.status = 'dead_letter'
       where w.project_id = ${projectId}) dead
     where d.webhook_id = dead.webhook_id and d.id = dead.id and dead.newer_bytes > ${keptBytes}`)
