import type { Invite, Member, MemberRole } from '@plinth/contract/team.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

const inviteColumns = sql`id, email, role, invited_by, created_at, expires_at`
const memberColumns = sql`m.user_id, u.email, u.name, m.role, u.is_active, m.created_at`
const isVisible = sql`status in ('active', 'suspended')`

export const findProject = (control: Database, id: string) =>
  control.row<{ id: string }>(sql`select id from projects where id = ${id} and ${isVisible}`)

/**
 * Every change of a team locks the project, so that concurrent changes run one after the other. FOR NO KEY UPDATE still
 * allows inserts of rows that reference the project.
 */
export const lockProject = (session: Session, id: string) =>
  session.row<{ id: string }>(
    sql`select id from projects where id = ${id} and ${isVisible} for no key update`,
  )

/** Prevents deletion of the user. Locked before the project, in the order of a deletion; otherwise they could deadlock. */
export const lockUser = (session: Session, id: string) =>
  session.row<{ email: string }>(sql`select lower(email) as email from users where id = ${id} for key share`)

export interface NewInvite {
  projectId: string
  email: string
  role: MemberRole
  hash: Buffer
  invitedBy: string
  lifeSeconds: number
}

/** Replaces an older invite for the same address. */
export const saveInvite = (session: Session, invite: NewInvite) =>
  session.row<Invite>(sql`
    insert into invites (project_id, email, role, hash, invited_by, expires_at)
    values (${invite.projectId}, ${invite.email}, ${invite.role}, ${invite.hash}, ${invite.invitedBy},
            now() + make_interval(secs => ${invite.lifeSeconds}))
    on conflict on constraint invites_email do update set
      id = excluded.id, role = excluded.role, hash = excluded.hash, invited_by = excluded.invited_by,
      created_at = excluded.created_at, expires_at = excluded.expires_at
    returning ${inviteColumns}`)

/** Counts pending invites for other addresses. */
export async function countOtherInvites(session: Session, projectId: string, email: string): Promise<number> {
  const row = await session.row<{ pending: number }>(sql`
    select count(*)::int as pending from invites
     where project_id = ${projectId} and email <> ${email} and expires_at > now()`)
  return row?.pending ?? 0
}

export const deleteExpiredInvites = (session: Session, projectId: string, days: number) =>
  session.run(sql`
    delete from invites where project_id = ${projectId} and expires_at < now() - make_interval(days => ${days})`)

export async function listInvites(control: Database, projectId: string, { limit, offset }: Paging) {
  const isPending = sql`project_id = ${projectId} and expires_at > now()`
  const [rows, count] = await Promise.all([
    control.rows<Invite>(
      sql`select ${inviteColumns} from invites where ${isPending} order by created_at desc, id limit ${limit} offset ${offset}`,
    ),
    control.row<{ total: number }>(sql`select count(*)::int as total from invites where ${isPending}`),
  ])
  return { rows, total: count?.total ?? 0 }
}

export const deletePendingInvite = (control: Database, projectId: string, id: string) =>
  control.run(sql`delete from invites where project_id = ${projectId} and id = ${id} and expires_at > now()`)

export const findInvite = (session: Session, hash: Buffer) =>
  session.row<{ project_id: string }>(sql`select project_id from invites where hash = ${hash}`)

/** Finds and deletes the invite, so that it works once. */
export const consumeInvite = (session: Session, hash: Buffer) =>
  session.row<{ email: string; role: MemberRole; is_expired: boolean }>(sql`
    delete from invites where hash = ${hash} returning email, role, expires_at <= now() as is_expired`)

export async function listMembers(control: Database, projectId: string, { limit, offset }: Paging) {
  const [rows, count] = await Promise.all([
    control.rows<Member>(sql`
      select ${memberColumns} from members m join users u on u.id = m.user_id where m.project_id = ${projectId}
       order by array_position(array['owner', 'admin', 'editor', 'read_only'], m.role), m.created_at, m.user_id
       limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from members where project_id = ${projectId}`,
    ),
  ])
  return { rows, total: count?.total ?? 0 }
}

export const findMember = (session: Session, projectId: string, userId: string) =>
  session.row<Member>(sql`
    select ${memberColumns} from members m join users u on u.id = m.user_id
     where m.project_id = ${projectId} and m.user_id = ${userId}`)

export const findMemberByEmail = (session: Session, projectId: string, email: string) =>
  session.row<Member>(sql`
    select ${memberColumns} from members m join users u on u.id = m.user_id
     where m.project_id = ${projectId} and lower(u.email) = ${email}`)

export const saveRole = (session: Session, projectId: string, userId: string, role: MemberRole) =>
  session.run(sql`
    insert into members (project_id, user_id, role) values (${projectId}, ${userId}, ${role})
    on conflict (project_id, user_id) do update set role = excluded.role`)

export const deleteMember = (session: Session, projectId: string, userId: string) =>
  session.run(sql`delete from members where project_id = ${projectId} and user_id = ${userId}`)

const otherOwners = (projectId: SqlFragment, userId: string) => sql`
  select from members o join users u on u.id = o.user_id
   where o.project_id = ${projectId} and o.role = 'owner' and o.user_id <> ${userId} and u.is_active`

/** Whether the project has another active owner. */
export async function hasAnotherOwner(session: Session, projectId: string, userId: string): Promise<boolean> {
  const row = await session.row<{ found: boolean }>(
    sql`select exists (${otherOwners(sql`${projectId}`, userId)}) as found`,
  )
  return row?.found === true
}

/** Locks in the order of ids, so that concurrent calls do not deadlock. */
export const lockOwnedProjects = (session: Session, userId: string) =>
  session.run(sql`
    select from projects p join members m on m.project_id = p.id
     where m.user_id = ${userId} and m.role = 'owner' and ${isVisible}
     order by p.id for no key update of p`)

/** A project whose only active owner is this user. */
export const findProjectOnlyOwnedBy = (session: Session, userId: string) =>
  session.row<{ id: string; name: string }>(sql`
    select p.id, p.name from projects p join members m on m.project_id = p.id
     where m.user_id = ${userId} and m.role = 'owner' and ${isVisible} and not exists (${otherOwners(sql`p.id`, userId)})
     order by p.created_at, p.id limit 1`)
