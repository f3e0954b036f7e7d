import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export async function listenAddresses(control: Database): Promise<string[]> {
  const server = await control.row<{ addresses: string }>(
    sql`select current_setting('listen_addresses') as addresses`,
  )
  return (server?.addresses ?? '').split(',').map(host => host.trim())
}

export interface OwnerLogin {
  id: string
  ref: string
  verifier: string | null
}

/** The owners of all served projects, or of one, with the verifiers that Postgres has stored. */
export const listOwnerLogins = (control: Database, ref: string | null = null) =>
  control.rows<OwnerLogin>(sql`
    select p.id, p.ref, a.rolpassword as verifier
      from projects p join pg_catalog.pg_authid a on a.rolname = p.ref || '_owner'
     where p.status in ('active', 'suspended') and (${ref}::text is null or p.ref = ${ref})
     order by p.ref collate "C"`)
