import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export const listServedProjects = async (control: Database): Promise<string[]> =>
  (
    await control.rows<{ id: string }>(sql`select id from projects where status in ('active', 'suspended')`)
  ).map(({ id }) => id)

export async function readStats(control: Database) {
  const counts = await control.row<{
    active_projects: number
    suspended_projects: number
    platform_users: number
    active_tokens: number
    audit_entries: number
  }>(sql`
    select (select count(*) from projects where status = 'active')::int as active_projects,
           (select count(*) from projects where status = 'suspended')::int as suspended_projects,
           (select count(*) from users)::int as platform_users,
           (select count(*) from tokens where revoked_at is null and (expires_at is null or expires_at > now()))::int as active_tokens,
           (select count(*) from audit)::int as audit_entries`)
  return { ...counts!, projects: counts!.active_projects + counts!.suspended_projects }
}
