import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export async function listenAddresses(control: Database): Promise<string[]> {
  const server = await control.row<{ addresses: string }>(
    sql`select current_setting('listen_addresses') as addresses`,
  )
  return (server?.addresses ?? '').split(',').map(host => host.trim())
}
