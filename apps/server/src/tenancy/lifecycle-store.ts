// The rows of projects while they are created and deleted.
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface NewProject {
  id: string
  ref: string
  name: string
  slug: string
  description: string
  settings: object
  quotas: object
  /** Encrypted. */
  anon_key: string
  service_role_key: string
  jwt_secret: string
  /** The platform user who becomes its owner. */
  ownerId: string | undefined
}

export async function insertCreating(
  session: Session,
  project: NewProject,
  version: string,
  isResumable: boolean,
): Promise<boolean> {
  const { id, ref, name, slug, description, settings, quotas, anon_key, service_role_key, jwt_secret } =
    project
  const inserted = await session.run(sql`
    insert into projects (id, ref, name, slug, description, status, settings, quotas, anon_key, service_role_key, jwt_secret, schema_version, is_resumable)
    values (${id}, ${ref}, ${name}, ${slug}, ${description}, 'creating', ${JSON.stringify(settings)}, ${JSON.stringify(quotas)},
            ${anon_key}, ${service_role_key}, ${jwt_secret}, ${version}, ${isResumable})
    on conflict (slug) where status <> 'deleted' do nothing`)
  return inserted === 1
}

export async function markActive(session: Session, project: NewProject): Promise<void> {
  await session.run(sql`update projects set status = 'active', updated_at = now() where id = ${project.id}`)
  await insertOwner(session, project)
}

/** False if it was deleted meanwhile. */
export const markMade = async (session: Session, id: string) =>
  (await session.run(sql`
    update projects set status = 'active', is_resumable = false, updated_at = now() where id = ${id} and status = 'creating'`)) ===
  1

export const isBeingMade = async (control: Database, id: string) =>
  (await control.row(sql`select from projects where id = ${id} and status = 'creating' and is_resumable`)) !==
  undefined

/** False if no task makes it. */
export const markUnmade = async (control: Database, id: string) =>
  (await control.run(sql`
    update projects set status = 'deleting', updated_at = now()
     where id = ${id} and status = 'creating' and is_resumable`)) === 1

export async function insertOwner(session: Session, { id, ownerId }: NewProject): Promise<void> {
  if (ownerId)
    await session.run(sql`
      insert into members (project_id, user_id, role) select ${id}, id, 'owner' from users where id = ${ownerId}`)
}

/** Returns the project's ref, or undefined if there is nothing to delete. Throws if a hook does. */
export const markDeleting = (
  control: Database,
  id: string,
  hooks: readonly { removing?(session: Session, projectId: string): Promise<void> }[],
): Promise<string | undefined> =>
  control.transaction(async session => {
    // Services may insert rows of the project meanwhile, which share its key.
    await session.run(sql`select from projects where id = ${id} for no key update`)
    for (const { removing } of hooks) await removing?.(session, id)
    const row = await session.row<{ ref: string }>(sql`
      update projects set status = 'deleting', updated_at = now()
       where id = ${id} and status in ('active', 'suspended', 'deleting') returning ref`)
    return row?.ref
  })

/** Keeps the row as a record and removes its credentials. */
export const markDeleted = (control: Database, id: string, hasLeftovers: boolean) =>
  control.run(sql`
    update projects set status = 'deleted', deleted_at = now(), updated_at = now(), settings = '{}',
           anon_key = '', service_role_key = '', jwt_secret = '', has_leftovers = ${hasLeftovers}
     where id = ${id}`)

export const listLeftovers = (control: Database) =>
  control.rows<{ id: string; ref: string }>(sql`select id, ref from projects where has_leftovers order by id`)

export const noteDropped = (control: Database, id: string) =>
  control.run(sql`update projects set has_leftovers = false where id = ${id}`)

export const deleteRow = (control: Database, id: string) =>
  control.run(sql`delete from projects where id = ${id}`)

export const listUnfinished = (control: Database) =>
  control.rows<{ id: string; ref: string; status: 'creating' | 'deleting' }>(
    sql`select id, ref, status from projects where status = 'deleting' or (status = 'creating' and not is_resumable)`,
  )
