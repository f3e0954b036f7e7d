import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

/** Locked before the webhook, as by those who change its settings. */
export const lockProjectOf = (session: Session, webhookId: string) =>
  session.run(sql`
    select from projects where id = (select project_id from webhooks where id = ${webhookId}) for no key update`)

/** Undefined if it has been switched off or delivered meanwhile. */
export const switchOff = (session: Session, webhookId: string, failingDays: number) =>
  session.row<{ project_id: string; project_name: string; url: string }>(sql`
    update webhooks w set is_active = false, switched_off_at = now(), updated_at = now()
      from projects p
     where w.id = ${webhookId} and p.id = w.project_id and w.is_active
       and w.failing_since <= now() - make_interval(days => ${failingDays})
    returning w.project_id, p.name as project_name, w.url`)

export const insertAudit = (session: Session, projectId: string, webhookId: string) =>
  session.run(sql`
    insert into audit (actor_kind, actor_label, action, target, project_id)
    values ('system', 'platform', 'webhooks.switched_off', ${webhookId}, ${projectId})`)

export const listOwners = async (session: Session, projectId: string): Promise<string[]> =>
  (
    await session.rows<{ email: string }>(sql`
      select u.email from members m join users u on u.id = m.user_id
       where m.project_id = ${projectId} and m.role = 'owner' and u.is_active order by u.email`)
  ).map(({ email }) => email)
