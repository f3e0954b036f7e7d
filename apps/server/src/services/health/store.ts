import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export const ping = (control: Database) => control.row(sql`select 1`)
