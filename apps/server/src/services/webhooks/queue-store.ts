// Deliveries that wait for an attempt.
import type { Attempt } from '@plinth/contract/webhooks.ts'
import { countRows } from '#src/kernel/metrics.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { SealedSecrets } from './secrets.ts'

/** Deliveries that have ended and still take space. */
const vacuumedRows = 20_000

export interface NewDelivery {
  id: string
  webhook_id: string
  event: string
  payload: string
}

/**
 * Deliveries of webhooks that were deleted or switched off meanwhile are not inserted. The lock keeps a webhook from being
 * deleted until the commit.
 */
export const insertDeliveries = (
  session: Session,
  deliveries: readonly NewDelivery[],
  leaseSeconds?: number,
) =>
  session.repeat(sql`
    with live as materialized (
      select id from webhooks
       where id = any(${[...new Set(deliveries.map(({ webhook_id: id }) => id))]}::uuid[]) and is_active for key share)
    insert into webhook_queue (id, webhook_id, event, payload, created_at, due_at, leased_until)
    select d.id, d.webhook_id, d.event, d.payload, clock_timestamp(), clock_timestamp(),
           clock_timestamp() + make_interval(secs => ${leaseSeconds ?? null})
      from json_to_recordset(${JSON.stringify(deliveries)}::json)
           as d (id uuid, webhook_id uuid, event text, payload text)
     where d.webhook_id in (select id from live)`)

/** A webhook with waiting deliveries. */
export interface WaitingWebhook {
  webhook_id: string
  /** Null for a listener, and for a webhook of a suspended project. */
  project_id: string | null
  /** Due deliveries, at most as many as asked for. */
  due: number
}

/**
 * Webhooks with waiting deliveries, in the order of their ids, which begins after the given one. The recursion jumps from
 * webhook to webhook in the index, so that a webhook with a million waiting deliveries is one step.
 */
export const listWaiting = (
  control: Database,
  { after, limit, most }: { after: string; limit: number; most: number },
) =>
  control.repeatRows<WaitingWebhook>(sql`
    with recursive waiting (webhook_id, number) as (
      (select webhook_id, 1 from webhook_queue where webhook_id > ${after}::uuid order by webhook_id limit 1)
      union all
      select next.webhook_id, w.number + 1 from waiting w cross join lateral (
        select q.webhook_id from webhook_queue q where q.webhook_id > w.webhook_id order by q.webhook_id limit 1) next
       where w.number < ${limit})
    select w.webhook_id, p.id as project_id, d.due
      from waiting w
      left join webhooks h on h.id = w.webhook_id and h.url is not null
      left join projects p on p.id = h.project_id and p.status = 'active'
     cross join lateral (
       select count(*)::int as due from (
         select from webhook_queue q
          where q.webhook_id = w.webhook_id and q.due_at <= statement_timestamp()
            and (q.leased_until is null or q.leased_until <= statement_timestamp())
          limit ${most}) found) d
     order by w.number`)

/**
 * Reuses the space of deliveries that have ended, once there are many. Autovacuum comes only once a minute, and a minute
 * of deliveries takes hundreds of megabytes.
 */
export async function vacuumQueue(control: Database): Promise<void> {
  const dead = await control.row<{ is_much: boolean }>(
    sql`select pg_stat_get_dead_tuples('webhook_queue'::regclass) > ${vacuumedRows} as is_much`,
  )
  if (dead!.is_much) await control.run(sql`vacuum (skip_locked) webhook_queue`)
}

/** For the metrics. */
export const countWaiting = (session: Session) => countRows(session, sql`select from webhook_queue`)

export interface QueuedDelivery {
  id: string
  event: string
  payload: string
  tries: number
}

/** A webhook, as an attempt needs it. */
export interface ClaimedTarget extends SealedSecrets {
  url: string
  /** Milliseconds since the first failure after the last success. */
  failing_ms: number | null
}

type ClaimedRow = QueuedDelivery & { webhook_id: string }

/** Webhooks that are switched on, of projects that are not suspended. */
export const findTargets = (control: Database, ids: readonly string[]) =>
  control.repeatRows<ClaimedTarget>(sql`
    select w.id, w.project_id, w.url, w.secret,
           case when w.previous_secret_until > now() then w.previous_secret end as previous_secret,
           (extract(epoch from now() - w.failing_since) * 1000)::float8 as failing_ms
      from webhooks w join projects p on p.id = w.project_id and p.status = 'active'
     where w.id = any(${ids}::uuid[]) and w.is_active and w.url is not null`)

/** Claims the longest due deliveries of each webhook, at most as many as given for it. The last one may exceed the bytes. */
export async function claimDue(
  control: Database,
  wanted: readonly { webhook_id: string; count: number; bytes: number }[],
  leaseSeconds: number,
): Promise<Map<string, QueuedDelivery[]>> {
  const rows = await control.repeatRows<ClaimedRow>(sql`
    with leased as (
      update webhook_queue set leased_until = statement_timestamp() + make_interval(secs => ${leaseSeconds})
       where ctid = any(array(
         select q.row
           from json_to_recordset(${JSON.stringify(wanted)}::json) as wanted (webhook_id uuid, count int, bytes int)
          cross join lateral (
            select due.row, sum(due.bytes) over (order by due.due_at, due.row) - due.bytes as earlier_bytes from (
              select ctid as row, due_at, octet_length(payload) as bytes from webhook_queue
               where webhook_id = wanted.webhook_id and due_at <= statement_timestamp()
                 and (leased_until is null or leased_until <= statement_timestamp())
               order by due_at limit wanted.count for update skip locked) due) q
          where q.earlier_bytes < wanted.bytes))
      returning webhook_id, id, event, payload, tries, due_at)
    select webhook_id, id, event, payload, tries from leased order by webhook_id, due_at, id`)
  const byWebhook = new Map<string, QueuedDelivery[]>()
  for (const { webhook_id: webhookId, ...delivery } of rows) {
    const deliveries = byWebhook.get(webhookId)
    if (deliveries) deliveries.push(delivery)
    else byWebhook.set(webhookId, [delivery])
  }
  return byWebhook
}

/** Skips those that are being recorded or deleted, because waiting for them could deadlock. */
export const extendLeases = (
  control: Database,
  deliveries: readonly { webhookId: string; ids: readonly string[] }[],
  leaseSeconds: number,
) =>
  control.run(sql`
    update webhook_queue set leased_until = now() + make_interval(secs => ${leaseSeconds})
     where ctid = any(array(
       select q.ctid from unnest(${deliveries.flatMap(({ webhookId, ids }) => ids.map(() => webhookId))}::uuid[],
                                 ${deliveries.flatMap(({ ids }) => ids)}::uuid[]) as held (webhook_id, id)
         join webhook_queue q on q.webhook_id = held.webhook_id and q.id = held.id for update of q skip locked))`)

/** Milliseconds until the next delivery of a webhook outside the given projects is due. */
export const findNextDueMs = async (control: Database, fullProjects: readonly string[]) =>
  (
    await control.repeatRows<{ ms: number | null }>(sql`
      with recursive waiting (webhook_id) as (
        (select webhook_id from webhook_queue order by webhook_id limit 1)
        union all
        select next.webhook_id from waiting w cross join lateral (
          select q.webhook_id from webhook_queue q where q.webhook_id > w.webhook_id order by q.webhook_id limit 1) next)
      select (extract(epoch from min(d.at) - clock_timestamp()) * 1000)::float8 as ms
        from waiting w
        join webhooks h on h.id = w.webhook_id and h.url is not null and h.project_id <> all(${fullProjects}::uuid[])
        join projects p on p.id = h.project_id and p.status = 'active'
       cross join lateral (
         select greatest(q.due_at, coalesce(q.leased_until, q.due_at)) as at from webhook_queue q
          where q.webhook_id = w.webhook_id order by q.due_at limit 1) d`)
  )[0]?.ms ?? undefined

/** What became of the deliveries of a batch. */
export interface BatchOutcome {
  delivered: { id: string; attempt: Attempt }[]
  failed: { id: string; attempt: Attempt; retry_seconds: number }[]
  dead: { id: string; attempt: Attempt }[]
  /** Claimed and not attempted. */
  released: string[]
}

/** The attempts with the new one. The last 20 are kept. */
const attemptsAfter = sql`
  (case when jsonb_array_length(attempts) >= 20 then attempts - 0 else attempts end || jsonb_build_array(attempt))`

/**
 * Records a batch in one statement, which may be repeated. A delivery that is not in the queue any more was deleted with
 * its webhook, or was recorded already.
 */
export function recordBatch(control: Session, webhookId: string, outcome: BatchOutcome) {
  const hasDelivered = outcome.delivered.length > 0
  const hasFailed = outcome.failed.length + outcome.dead.length > 0
  const deadIds = outcome.dead.map(({ id }) => id)
  const endedIds = [...outcome.delivered.map(({ id }) => id), ...deadIds]
  return control.repeat(sql`
    -- The update of the webhook must come after the lock, which would not find an updated row. Deliveries are locked after
    -- the webhook, as by its deletion.
    with live as materialized (select id from webhooks where id = ${webhookId} for key share),
    removed as (
      delete from webhook_queue q where webhook_id = (select id from live) and id = any(${endedIds}::uuid[])
      returning id, event, created_at, attempt_count, manual_retry_count, attempts,
                case when id = any(${deadIds}::uuid[]) then payload end as payload),
    recorded as (
      insert into webhook_deliveries
        (id, webhook_id, event, status, payload, created_at, attempt_count, manual_retry_count, attempts)
      select r.id, live.id, event, case when payload is null then 'delivered' else 'dead_letter' end, payload,
             created_at, attempt_count + 1, manual_retry_count, ${attemptsAfter}
        from removed r cross join live
        join json_to_recordset(${JSON.stringify([...outcome.delivered, ...outcome.dead])}::json)
             as e (id uuid, attempt jsonb) on e.id = r.id
      on conflict (webhook_id, id) do nothing),
    health as (
      update webhooks set failing_since = case when ${hasFailed} then now() end
       where id = (select id from live) and case when ${hasFailed} then failing_since is null or ${hasDelivered}
                                        else failing_since is not null and ${hasDelivered} end),
    postponed as (
      update webhook_queue q set
        tries = tries + 1, attempt_count = attempt_count + 1, attempts = ${attemptsAfter}, leased_until = null,
        due_at = clock_timestamp() + make_interval(secs => f.retry_seconds)
       from json_to_recordset(${JSON.stringify(outcome.failed)}::json)
            as f (id uuid, attempt jsonb, retry_seconds float8)
      where q.webhook_id = (select id from live) and q.id = f.id
        and q.id = any(${outcome.failed.map(({ id }) => id)}::uuid[])
        and attempts -> -1 ->> 'id' is distinct from f.attempt ->> 'id')
    update webhook_queue set leased_until = null
     where webhook_id = (select id from live) and id = any(${outcome.released}::uuid[])`)
}
