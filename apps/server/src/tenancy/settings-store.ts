// Reads and updates the encrypted settings of a project. Updates hold a row lock.
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export type Settings = Readonly<Record<string, unknown>>

const isThere = sql`status in ('active', 'suspended')`

export const findSettings = (control: Database, projectId: string) =>
  control.row<{ name: string; settings: Settings }>(
    sql`select name, settings from projects where id = ${projectId} and ${isThere}`,
  )

export const lockSettings = (session: Session, projectId: string) =>
  session.row<{ settings: Settings }>(
    sql`select settings from projects where id = ${projectId} and ${isThere} for update`,
  )

export const saveSettings = (session: Session, projectId: string, settings: Settings) =>
  session.run(
    sql`update projects set settings = ${JSON.stringify(settings)}, updated_at = now() where id = ${projectId}`,
  )
