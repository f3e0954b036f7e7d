// Which tables of a project a webhook is attached to. The functions need a superuser session in the project's database,
// because tables have different owners. No tenant code runs in them. See migrations/project/functions/webhook_triggers.sql.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export type RowEvent = 'INSERT' | 'UPDATE' | 'DELETE'

export interface Attachment {
  readonly schema: string
  readonly table: string
  readonly events: readonly RowEvent[]
}

/** Replaces the events if the webhook is attached already. */
export const attachWebhook = (session: Session, webhookId: string, { schema, table, events }: Attachment) =>
  session.run(sql`select platform.attach_webhook(${schema}, ${table}, ${webhookId}, ${[...events]}::text[])`)

/** False if it was not attached, or the table does not exist. */
export const detachWebhook = async (
  session: Session,
  webhookId: string,
  { schema, table }: Pick<Attachment, 'schema' | 'table'>,
): Promise<boolean> =>
  (await session.row<{ done: boolean }>(
    sql`select platform.detach_webhook(${schema}, ${table}, ${webhookId}) as done`,
  ))!.done

export const detachWebhookEverywhere = (session: Session, webhookId: string) =>
  session.run(sql`select platform.detach_webhook_everywhere(${webhookId})`)

/** With the current names of the tables. */
export const listAttachments = (session: Session, webhookId: string) =>
  session.rows<Attachment>(sql`
    select n.nspname as schema, c.relname as "table", a.events
      from platform.webhook_attachments a
      join pg_class c on c.oid = a.relid join pg_namespace n on n.oid = c.relnamespace
     where a.webhook_id = ${webhookId} order by 1, 2`)
