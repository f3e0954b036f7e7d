import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { StoredFile } from './usage-store.ts'

/** As many as fit into another quota of the project. Returns their versions. */
export async function insertKept(
  control: Database,
  project: string,
  files: readonly StoredFile[],
  defaultMegabytes: number,
): Promise<Set<string>> {
  const rows = await control.rows<{ version: string }>(sql`
    insert into kept_files (project_id, version, size)
    select p.id, g.version, g.size
      from (select version, size, sum(size) over (order by version) as total
              from json_to_recordset(${JSON.stringify(files)}::json) as f (version uuid, size bigint)) g
      join projects p on p.id = ${project}
     where g.total + (select coalesce(sum(k.size), 0) from kept_files k where k.project_id = p.id)
             <= coalesce((p.quotas ->> 'max_storage_size_mb')::float8, ${defaultMegabytes}) * 1048576
    on conflict (project_id, version) do update set size = excluded.size, removed_at = now()
    returning version`)
  return new Set(rows.map(({ version }) => version))
}

export const findKept = async (control: Database, project: string, versions: readonly string[]) =>
  new Set(
    (
      await control.rows<{ version: string }>(sql`
        select version from kept_files where project_id = ${project} and version = any(${versions}::uuid[])`)
    ).map(({ version }) => version),
  )

/** Files whose time is over. Those that a recovery has brought back are forgotten, and not returned. */
export async function takeOver(control: Database, days: number, limit: number) {
  await control.run(sql`
    delete from kept_files k using stored_files s where s.project_id = k.project_id and s.version = k.version`)
  const rows = await control.rows<{ project: string; version: string; size: string }>(sql`
    delete from kept_files where (project_id, version) in (
      select project_id, version from kept_files where removed_at <= now() - make_interval(days => ${days}) limit ${limit})
    returning project_id as project, version, size::text as size`)
  return rows.map(({ size, ...file }) => ({ ...file, size: Number(size) }))
}
