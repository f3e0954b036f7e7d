import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { allOf, sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { CredentialColumn } from '#src/tenancy/credentials.ts'

export interface ProjectRow {
  id: string
  name: string
  slug: string
  description: string
  status: 'active' | 'suspended'
  settings: Record<string, unknown>
  quotas: Record<string, unknown>
  anon_key: string
  created_at: string
  updated_at: string
}

const columns = sql`id, name, slug, description, status, settings, quotas, anon_key, created_at, updated_at`
const isVisible = sql`status in ('active', 'suspended')`

export const findProject = (session: Session, id: string) =>
  session.row<ProjectRow>(sql`select ${columns} from projects where id = ${id} and ${isVisible}`)

export const lockProject = (session: Session, id: string) =>
  session.row<ProjectRow>(sql`select ${columns} from projects where id = ${id} and ${isVisible} for update`)

export async function listProjects(
  control: Database,
  filter: { status: string | undefined; ids: string[] | undefined },
  { limit, offset }: Paging,
): Promise<{ rows: ProjectRow[]; total: number }> {
  const matches = allOf([
    isVisible,
    ...(filter.status ? [sql`status = ${filter.status}`] : []),
    ...(filter.ids ? [sql`id = any(${filter.ids}::uuid[])`] : []),
  ])
  const [rows, count] = await Promise.all([
    control.rows<ProjectRow>(
      sql`select ${columns} from projects where ${matches} order by created_at desc, id limit ${limit} offset ${offset}`,
    ),
    control.row<{ total: number }>(sql`select count(*)::int as total from projects where ${matches}`),
  ])
  return { rows, total: count?.total ?? 0 }
}

export const saveProject = (
  session: Session,
  {
    id,
    name,
    description,
    settings,
    quotas,
  }: Pick<ProjectRow, 'id' | 'name' | 'description' | 'settings' | 'quotas'>,
) =>
  session.row<ProjectRow>(sql`
    update projects set name = ${name}, description = ${description}, settings = ${JSON.stringify(settings)},
           quotas = ${JSON.stringify(quotas)}, updated_at = now()
     where id = ${id} returning ${columns}`)

/** Also for a project that is being created. */
export const restoreProject = (
  session: Session,
  id: string,
  settings: Readonly<Record<string, unknown>>,
  quotas: Readonly<Record<string, unknown>>,
) =>
  session.run(sql`
    update projects set settings = ${JSON.stringify(settings)}, quotas = ${JSON.stringify(quotas)}, updated_at = now()
     where id = ${id} and status <> 'deleted'`)

export const setStatus = (control: Database, id: string, status: 'active' | 'suspended') =>
  control.row<ProjectRow>(
    sql`update projects set status = ${status}, updated_at = now() where id = ${id} and ${isVisible} returning ${columns}`,
  )

export const findCredential = (control: Database, id: string, column: CredentialColumn) =>
  control.row<{ value: string }>(
    column === 'service_role_key'
      ? sql`select service_role_key as value from projects where id = ${id} and ${isVisible}`
      : column === 'anon_key'
        ? sql`select anon_key as value from projects where id = ${id} and ${isVisible}`
        : sql`select jwt_secret as value from projects where id = ${id} and ${isVisible}`,
  )

export const replaceJwtSecret = (session: Session, id: string, sealed: string) =>
  session.run(
    sql`update projects set jwt_secret = ${sealed}, updated_at = now() where id = ${id} and ${isVisible}`,
  )

export const replaceKeys = (control: Database, id: string, anonKey: string, serviceRoleKey: string) =>
  control.run(sql`
    update projects set anon_key = ${anonKey}, service_role_key = ${serviceRoleKey}, updated_at = now()
     where id = ${id} and ${isVisible}`)
