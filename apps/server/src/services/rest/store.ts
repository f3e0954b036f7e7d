import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

/** All project databases are on the server of the control database, so they know the same names. */
export const readTimeZoneNames = async (control: Database): Promise<Set<string>> =>
  new Set(
    (await control.rows<{ name: string }>(sql`select name from pg_timezone_names limit 5000`)).map(
      ({ name }) => name,
    ),
  )
