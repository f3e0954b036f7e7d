import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

/** Secrets are sealed for the project. */
export interface ExportedWebhook {
  id: string
  attached_as: string
  url: string
  events: string[]
  description: string
  is_active: boolean
  secret: string
  created_at: string
}

export const listExported = (session: Session, projectId: string) =>
  session.rows<ExportedWebhook>(sql`
    select id, attached_as, url, events, description, is_active, secret, created_at::text from webhooks
     where project_id = ${projectId} and url is not null order by created_at, id`)

export const deleteWebhooks = (session: Session, projectId: string) =>
  session.run(sql`delete from webhooks where project_id = ${projectId}`)

/** What the restored database contains was relayed before the backup, or is not to be relayed. */
export const skipRestored = (session: Session, projectId: string, sources: readonly string[]) =>
  session.run(sql`
    insert into webhook_cursors (project_id, source, position)
    select ${projectId}, source, jsonb_build_object('seen', pg_current_snapshot()) from unnest(${sources}::text[]) as source
    on conflict (project_id, source) do update set position = excluded.position`)

export const insertExported = (session: Session, projectId: string, webhook: ExportedWebhook) =>
  session.run(sql`
    insert into webhooks (id, attached_as, project_id, url, events, description, is_active, secret, created_at)
    values (${webhook.id}, ${webhook.attached_as}, ${projectId}, ${webhook.url}, ${webhook.events}, ${webhook.description}, ${webhook.is_active},
            ${webhook.secret}, ${webhook.created_at})`)
