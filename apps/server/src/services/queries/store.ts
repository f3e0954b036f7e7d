import type { HistoryEntry, SavedQuery } from '@plinth/contract/queries.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

const saved = sql`id, name, description, sql, created_at, updated_at`
// Cast the count, because the driver returns bigint as text.
const entry = sql`id::text as id, sql, status, duration_ms, row_count::float8 as row_count, error, executed_at`

export interface NewQuery {
  id: string | undefined
  name: string
  sql: string
  /** Undefined keeps the stored value. */
  description: string | undefined
}

export async function listSaved(
  control: Database,
  projectId: string,
  { limit, offset }: Paging,
): Promise<{ queries: SavedQuery[]; total: number }> {
  const [queries, count] = await Promise.all([
    control.rows<SavedQuery>(
      sql`select ${saved} from saved_queries where project_id = ${projectId} order by name, id limit ${limit} offset ${offset}`,
    ),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from saved_queries where project_id = ${projectId}`,
    ),
  ])
  return { queries, total: count?.total ?? 0 }
}

const replaced = (description: string | undefined) => sql`
  name = excluded.name, sql = excluded.sql, updated_at = now(),
  description = coalesce(${description ?? null}::text, saved_queries.description)`

/** Fails with 23505 on `saved_queries_name` if another query of the project has the name. */
export const saveById = (
  control: Database,
  projectId: string,
  { id, name, sql: text, description }: NewQuery,
) =>
  control.row<SavedQuery>(sql`
    insert into saved_queries (project_id, id, name, sql, description)
    values (${projectId}, ${id}, ${name}, ${text}, ${description ?? ''})
    on conflict (project_id, id) do update set ${replaced(description)} returning ${saved}`)

export const saveByName = (
  control: Database,
  projectId: string,
  { name, sql: text, description }: NewQuery,
) =>
  control.row<SavedQuery>(sql`
    insert into saved_queries (project_id, name, sql, description)
    values (${projectId}, ${name}, ${text}, ${description ?? ''})
    on conflict (project_id, name) do update set ${replaced(description)} returning ${saved}`)

export const removeSaved = (control: Database, projectId: string, id: string) =>
  control.run(sql`delete from saved_queries where project_id = ${projectId} and id = ${id}`)

export async function listHistory(
  control: Database,
  projectId: string,
  { limit, offset }: Paging,
): Promise<{ entries: HistoryEntry[]; total: number }> {
  const [entries, count] = await Promise.all([
    control.rows<HistoryEntry>(
      sql`select ${entry} from query_history where project_id = ${projectId}
           order by query_history.id desc limit ${limit} offset ${offset}`,
    ),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from query_history where project_id = ${projectId}`,
    ),
  ])
  return { entries, total: count?.total ?? 0 }
}

export const record = (control: Database, projectId: string, run: Omit<HistoryEntry, 'id' | 'executed_at'>) =>
  control.row<HistoryEntry>(sql`
    insert into query_history (project_id, sql, status, duration_ms, row_count, error)
    values (${projectId}, ${run.sql}, ${run.status}, ${run.duration_ms}, ${run.row_count}, ${run.error})
    returning ${entry}`)

export const forgetBeyond = (control: Database, projectId: string, kept: number) =>
  control.run(sql`
    delete from query_history where project_id = ${projectId} and id <= (
      select id from query_history where project_id = ${projectId} order by id desc offset ${kept} limit 1)`)
