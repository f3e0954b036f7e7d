import type { Template, TemplateType } from '@plinth/contract/email.ts'
import { countRows } from '#src/kernel/metrics.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Room } from '#src/kernel/worker-slots.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Settings } from '#src/tenancy/settings-store.ts'
import type { MailText } from './default-templates.ts'

/** The seal of the content is bound to the id. */
export interface SealedMail {
  id: string
  project_id: string
  content: string
}
export interface QueuedMail extends SealedMail {
  attempts: number
  settings: Settings
}
export interface CaughtRow extends SealedMail {
  created_at: string
}
type CustomTemplate = MailText & { template_type: TemplateType; updated_at: string }

const template = sql`type as template_type, subject, body_html, body_text, updated_at`

// Templates

export const listTemplates = (control: Database, projectId: string) =>
  control.rows<CustomTemplate>(
    sql`select ${template} from mail_templates where project_id = ${projectId} order by type`,
  )

export const findTemplate = (control: Database, projectId: string, type: TemplateType) =>
  control.row<CustomTemplate>(
    sql`select ${template} from mail_templates where project_id = ${projectId} and type = ${type}`,
  )

export const saveTemplate = (
  control: Database,
  projectId: string,
  type: TemplateType,
  { subject, body_html, body_text }: MailText,
) =>
  control.row<Omit<Template, 'is_custom'>>(sql`
    insert into mail_templates (project_id, type, subject, body_html, body_text)
    values (${projectId}, ${type}, ${subject}, ${body_html}, ${body_text})
    on conflict (project_id, type) do update
      set subject = excluded.subject, body_html = excluded.body_html, body_text = excluded.body_text, updated_at = now()
    returning ${template}`)

export const deleteTemplate = (control: Database, projectId: string, type: TemplateType) =>
  control.run(sql`delete from mail_templates where project_id = ${projectId} and type = ${type}`)

// The queue

/** Project name, settings and custom template for rendering. Undefined for a project that is not active. */
export const findMailSettings = (control: Database, projectId: string, type: TemplateType) =>
  control.row<{ name: string; settings: Settings; custom: MailText | null }>(sql`
    select p.name, p.settings,
           case when t.type is not null then jsonb_build_object(
             'subject', t.subject, 'body_html', t.body_html, 'body_text', t.body_text) end as custom
      from projects p left join mail_templates t on t.project_id = p.id and t.type = ${type}
     where p.id = ${projectId} and p.status = 'active'`)

/** Locks the project against a concurrent deletion, which would leave the mails behind. */
const ofActiveProject = (projectId: string, mails: readonly SealedMail[]) => sql`
  with project as (select id from projects where id = ${projectId} and status = 'active' for share)
  select mail.id, project.id, mail.content
    from project, unnest(${mails.map(({ id }) => id)}::uuid[], ${mails.map(({ content }) => content)}::text[]) as mail (id, content)`

export const queueMails = (session: Session, projectId: string, mails: readonly SealedMail[]) =>
  session.run(sql`insert into mail_queue (id, project_id, content) ${ofActiveProject(projectId, mails)}`)

/**
 * Claims the mails with the oldest due time, up to the free slots of each project. A loose index scan finds the
 * projects, so a project with many mails costs no more than one with few.
 */
export const claimDueMails = (control: Database, { jobs, perProject, places }: Room, leaseSeconds: number) =>
  control.rows<QueuedMail>(sql`
    with recursive queued (project_id) as (
      (select project_id from mail_queue order by project_id limit 1)
      union all
      select (select q.project_id from mail_queue q where q.project_id > queued.project_id order by q.project_id limit 1)
        from queued where queued.project_id is not null),
    candidates as (
      select mail.id, p.settings
        from queued join projects p on p.id = queued.project_id and p.status = 'active'
        left join unnest(${[...places.keys()]}::uuid[], ${[...places.values()]}::int[]) as known (id, places)
          on known.id = p.id
        cross join lateral (
          select q.id, q.due_at from mail_queue q
           where q.project_id = p.id and q.due_at <= now() and q.leased_until <= now()
           order by q.due_at limit coalesce(known.places, ${perProject})) mail
       order by mail.due_at limit ${jobs}),
    due as (
      select q.id, candidates.settings from mail_queue q join candidates on candidates.id = q.id
       where q.due_at <= now() and q.leased_until <= now() for update of q skip locked)
    update mail_queue q set attempts = attempts + 1, leased_until = now() + make_interval(secs => ${leaseSeconds})
      from due where q.id = due.id
    returning q.id, q.project_id, q.content, q.attempts, due.settings`)

export const findNextDue = (control: Database, busy: readonly string[]) =>
  control.row<{ ms: number | null }>(sql`
    select (extract(epoch from min(greatest(q.due_at, q.leased_until)) - now()) * 1000)::float8 as ms
      from mail_queue q join projects p on p.id = q.project_id
     where p.status = 'active' and q.project_id <> all(${busy}::uuid[])`)

export const deleteQueued = (control: Database, id: string) =>
  control.run(sql`delete from mail_queue where id = ${id}`)

export const countQueued = (session: Session) => countRows(session, sql`select from mail_queue`)

/** Checks the attempt, because after the lease another node may have claimed the mail. */
export const postpone = (control: Database, { id, attempts }: QueuedMail, seconds: number) =>
  control.run(sql`
    update mail_queue set due_at = now() + make_interval(secs => ${seconds}), leased_until = '-infinity'
     where id = ${id} and attempts = ${attempts}`)

/** Releases the claim without counting the attempt. */
export const release = (control: Database, { id, attempts }: QueuedMail) =>
  control.run(sql`
    update mail_queue set attempts = attempts - 1, leased_until = '-infinity'
     where id = ${id} and attempts = ${attempts}`)

export const makeDue = (control: Database, projectId: string) =>
  control.run(sql`update mail_queue set due_at = now() where project_id = ${projectId} and due_at > now()`)

export const deleteOverdue = (control: Database, hours: number) =>
  control.rows<{ project_id: string }>(sql`
    delete from mail_queue where created_at < now() - make_interval(hours => ${hours}) and leased_until <= now()
    returning project_id`)

// The catch-all

export const insertCaught = (session: Session, projectId: string, mails: readonly SealedMail[]) =>
  session.run(sql`insert into mail_caught (id, project_id, content) ${ofActiveProject(projectId, mails)}`)

/** Moves a mail from the queue to the catch-all in one statement. */
export const moveToCaught = (control: Database, id: string) =>
  control.run(sql`
    with moved as (delete from mail_queue where id = ${id} returning id, project_id, content, created_at)
    insert into mail_caught (id, project_id, content, created_at) select * from moved
    on conflict (id) do nothing`)

/** Skips rows that a concurrent call is deleting. */
export const deleteCaughtBeyond = (control: Session, projectId: string, kept: number) =>
  control.run(sql`
    delete from mail_caught where number in (
      select number from mail_caught where project_id = ${projectId}
       order by number desc offset ${kept} for update skip locked)`)

export async function listCaught(
  control: Database,
  projectId: string,
  { limit, offset }: Paging,
): Promise<{ rows: CaughtRow[]; total: number }> {
  const [rows, count] = await Promise.all([
    control.rows<CaughtRow>(sql`
      select id, project_id, content, created_at from mail_caught where project_id = ${projectId}
       order by number desc limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from mail_caught where project_id = ${projectId}`,
    ),
  ])
  return { rows, total: count?.total ?? 0 }
}

export const findCaught = (control: Database, projectId: string, id: string) =>
  control.row<CaughtRow>(sql`
    select id, project_id, content, created_at from mail_caught where project_id = ${projectId} and id = ${id}`)
