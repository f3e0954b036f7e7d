import type { Webhook } from '@plinth/contract/webhooks.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Cursor } from '#src/tenancy/outbox-reading.ts'
import type { SealedSecrets } from './secrets.ts'

/** A previous secret whose time is over counts as none. */
const previousSecret = sql`case when previous_secret_until > now() then previous_secret end`
const shown = sql`
  id, url, events, description, is_active, created_at, updated_at, failing_since, switched_off_at,
  case when previous_secret_until > now() then previous_secret_until end as secret_overlap_until`

export const lockProject = (session: Session, projectId: string) =>
  session.run(sql`select from projects where id = ${projectId} for no key update`)

/** Waits for those who insert or record deliveries of the webhook, and keeps others from it until the commit. */
export const lockWebhook = (session: Session, webhookId: string) =>
  session.run(sql`select from webhooks where id = ${webhookId} for update`)

/** The relay locks a position before webhooks. A transaction that deletes both must lock them in the same order. */
export const lockCursors = (session: Session, projectId: string) =>
  session.run(sql`select from webhook_cursors where project_id = ${projectId} order by source for update`)

export const countWebhooks = async (session: Session, projectId: string) =>
  (await session.row<{ webhooks: number; listeners: number }>(sql`
    select count(*) filter (where url is not null)::int as webhooks,
           count(*) filter (where url is null)::int as listeners
      from webhooks where project_id = ${projectId}`))!

export interface NewWebhook {
  id: string
  projectId: string
  /** Null for a listener. */
  url: string | null
  events: readonly string[]
  description: string
  sealedSecret: string
  /** For a listener. */
  livesSeconds: number | null
}

export const insertWebhook = (session: Session, given: NewWebhook) =>
  session.row<Webhook>(sql`
    insert into webhooks (id, attached_as, project_id, url, events, description, secret, expires_at)
    values (${given.id}, ${given.id}, ${given.projectId}, ${given.url}, ${given.events}, ${given.description}, ${given.sealedSecret},
            now() + make_interval(secs => ${given.livesSeconds}))
    returning ${shown}`)

export async function listWebhooks(
  control: Database,
  projectId: string,
  { limit, offset }: Paging,
): Promise<{ webhooks: Webhook[]; total: number }> {
  const [webhooks, count] = await Promise.all([
    control.rows<Webhook>(sql`
      select ${shown} from webhooks where project_id = ${projectId} and url is not null
       order by created_at, id limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(sql`
      select count(*)::int as total from webhooks where project_id = ${projectId} and url is not null`),
  ])
  return { webhooks, total: count?.total ?? 0 }
}

const ofWebhook = (projectId: string, webhookId: string): SqlFragment =>
  sql`project_id = ${projectId} and id = ${webhookId} and url is not null`

export const findWebhook = (control: Session, projectId: string, webhookId: string) =>
  control.row<Webhook>(sql`select ${shown} from webhooks where ${ofWebhook(projectId, webhookId)}`)

/** The id that triggers have for a webhook or listener. */
export const findAttachedAs = async (control: Session, projectId: string, webhookId: string) =>
  (
    await control.row<{ attached_as: string }>(
      sql`select attached_as from webhooks where project_id = ${projectId} and id = ${webhookId}`,
    )
  )?.attached_as

export interface Target extends SealedSecrets {
  url: string
}
export const findTarget = (control: Session, projectId: string, webhookId: string) =>
  control.row<Target>(sql`
    select id, project_id, url, secret, ${previousSecret} as previous_secret
      from webhooks where ${ofWebhook(projectId, webhookId)}`)

export interface WebhookChange {
  url?: string
  events?: readonly string[]
  is_active?: boolean
  description?: string
}

export const updateWebhook = (
  session: Session,
  projectId: string,
  webhookId: string,
  { url, events, is_active: isActive, description }: WebhookChange,
) =>
  session.row<Webhook>(sql`
    update webhooks set
      url = coalesce(${url ?? null}, url), events = coalesce(${events ?? null}::text[], events),
      description = coalesce(${description ?? null}, description),
      is_active = coalesce(${isActive ?? null}, is_active),
      failing_since = case when ${isActive ?? null}::boolean then null else failing_since end,
      switched_off_at = case when ${isActive ?? null}::boolean then null else switched_off_at end,
      updated_at = now()
     where ${ofWebhook(projectId, webhookId)}
    returning ${shown}`)

export const rotateSecret = (
  session: Session,
  projectId: string,
  webhookId: string,
  sealedSecret: string,
  overlapSeconds: number,
) =>
  session.row<Webhook>(sql`
    update webhooks set previous_secret = secret, secret = ${sealedSecret},
           previous_secret_until = now() + make_interval(secs => ${overlapSeconds}), updated_at = now()
     where ${ofWebhook(projectId, webhookId)}
    returning ${shown}`)

/** Its deliveries are deleted with it. */
export const deleteWebhook = (session: Session, projectId: string, webhookId: string) =>
  session.run(sql`delete from webhooks where ${ofWebhook(projectId, webhookId)}`)

/** A webhook or listener, as the relay needs it. */
export interface Receiver {
  id: string
  attached_as: string
  events: readonly string[]
  is_listener: boolean
  created_ms: number
}

export const listReceivers = (control: Session, projectId: string) =>
  control.repeatRows<Receiver>(sql`
    select id, attached_as, events, url is null as is_listener, (extract(epoch from created_at) * 1000)::float8 as created_ms
      from webhooks
     where project_id = ${projectId} and is_active and (expires_at is null or expires_at > now())`)

// Positions of the relay

export const findCursor =
  (source: string) =>
  async (control: Database, projectId: string): Promise<Cursor | undefined> =>
    (
      await control.row<{ position: Cursor }>(
        sql`select position from webhook_cursors where project_id = ${projectId} and source = ${source}`,
      )
    )?.position

/** False if another node has moved the position, or the project has no webhooks any more. */
export const moveCursor =
  (source: string) => async (session: Session, projectId: string, from: Cursor | undefined, to: Cursor) =>
    from !== undefined &&
    (await session.repeat(sql`
      update webhook_cursors set position = ${JSON.stringify(to)}
       where project_id = ${projectId} and source = ${source} and position = ${JSON.stringify(from)}::jsonb`)) ===
      1

/** Keeps the positions of a project that has webhooks already. */
export const insertCursors = (session: Session, projectId: string, sources: readonly string[], at: Cursor) =>
  session.run(sql`
    insert into webhook_cursors (project_id, source, position)
    select ${projectId}, source, ${JSON.stringify(at)} from unnest(${sources}::text[]) as source
    on conflict do nothing`)

/** Deletes the positions of a project without webhooks and listeners. True if it has none. */
export const deleteUnusedCursors = async (session: Session, projectId: string): Promise<boolean> => {
  const [left] = await session.rows<{ is_unused: boolean }>(
    sql`select not exists (select from webhooks where project_id = ${projectId}) as is_unused`,
  )
  if (left!.is_unused) await session.run(sql`delete from webhook_cursors where project_id = ${projectId}`)
  return left!.is_unused
}

// Projects to watch for changes

export interface WatchedProject {
  id: string
  /** The oid of its database, as text. */
  database: string
}

export const listWatched = (control: Database, projectIds?: readonly string[]) =>
  control.rows<WatchedProject>(sql`
    select p.id, d.oid::text as database
      from projects p join pg_database d on d.datname = p.ref
     where p.status = 'active' and exists (select from webhook_cursors c where c.project_id = p.id)
       and (${projectIds ?? null}::uuid[] is null or p.id = any(${projectIds ?? null}::uuid[]))`)

/** The number of rows ever inserted into each database, as the statistics of Postgres have it. */
export const countInserted = (control: Database, databases: readonly string[]) =>
  control.repeatRows<{ database: string; inserted: string }>(sql`
    select oid::text as database, pg_stat_get_db_tuples_inserted(oid)::text as inserted
      from unnest(${databases}::oid[]) as oid`)
