import type { Secret } from '@plinth/contract/secrets.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

const shown = sql`id, name, created_at, updated_at`

export interface SealedSecret {
  name: string
  value: string
}

export async function listSecrets(
  control: Database,
  projectId: string,
  { limit, offset }: Paging,
): Promise<{ secrets: Secret[]; total: number }> {
  const [secrets, count] = await Promise.all([
    control.rows<Secret>(sql`
      select ${shown} from secrets where project_id = ${projectId} order by name limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from secrets where project_id = ${projectId}`,
    ),
  ])
  return { secrets, total: count?.total ?? 0 }
}

export const readSealed = (session: Session, projectId: string) =>
  session.rows<SealedSecret & { created_at: string; updated_at: string }>(sql`
    select name, value, created_at, updated_at from secrets where project_id = ${projectId} order by name`)

/** Of all sealed values but that of the name. */
export const bytesOfOthers = async (session: Session, projectId: string, name: string) =>
  (await session.row<{ bytes: number }>(sql`
      select coalesce(sum(length(value)), 0)::float8 as bytes from secrets
       where project_id = ${projectId} and name <> ${name}`))!.bytes

/** Undefined if the project has the most secrets it may have and none with this name. */
export const saveSecret = (
  control: Database,
  projectId: string,
  { name, value }: SealedSecret,
  most: number,
) =>
  control.transaction(async session => {
    // Concurrent requests would each see one secret less than the limit.
    await session.run(sql`select from projects where id = ${projectId} for no key update`)
    return session.row<Secret>(sql`
      insert into secrets (project_id, name, value)
      select ${projectId}, ${name}, ${value}
       where (select count(*) from secrets where project_id = ${projectId}) < ${most}
          or exists (select from secrets where project_id = ${projectId} and name = ${name})
      on conflict (project_id, name) do update set value = excluded.value, updated_at = now()
      returning ${shown}`)
  })

export const updateSecret = (control: Database, projectId: string, { name, value }: SealedSecret) =>
  control.row<Secret>(sql`
    update secrets set value = ${value}, updated_at = now()
     where project_id = ${projectId} and name = ${name} returning ${shown}`)

export const removeById = (control: Database, projectId: string, id: string) =>
  control.run(sql`delete from secrets where project_id = ${projectId} and id = ${id}`)

export const removeByName = (control: Database, projectId: string, name: string) =>
  control.run(sql`delete from secrets where project_id = ${projectId} and name = ${name}`)

export const removeAll = (session: Session, projectId: string) =>
  session.run(sql`delete from secrets where project_id = ${projectId}`)

export const insertSecret = (
  session: Session,
  projectId: string,
  { name, value }: SealedSecret,
  { created_at, updated_at }: { created_at: string; updated_at: string },
) =>
  session.run(sql`
    insert into secrets (project_id, name, value, created_at, updated_at)
    values (${projectId}, ${name}, ${value}, ${created_at}, ${updated_at})`)
