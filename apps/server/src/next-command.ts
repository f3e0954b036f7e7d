// What the operator does next when the platform has started.
import type { App } from '#src/app.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

/** Arguments of the command line, or null. There is no app while the platform waits for the operator to upgrade it. */
export async function nextCommand(app: App | undefined): Promise<string | null> {
  if (!app) return 'upgrade'
  const project = await app.control.row(
    sql`select from projects where status in ('creating', 'active', 'suspended') limit 1`,
  )
  return project ? null : 'projects create my-app'
}
