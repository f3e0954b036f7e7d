import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { LogLine, LogQuery, StoredLine } from './line.ts'

/** Ids ascend in the order of commits, because each transaction waits for the one before it in the same project. */
export const insertLines = (control: Database, projectId: string, lines: readonly LogLine[]) =>
  control.transaction(async session => {
    await session.run(sql`select pg_advisory_xact_lock(hashtextextended(${`logs ${projectId}`}, 0))`)
    await session.run(sql`
      insert into project_logs (project_id, source, name, at, level, event, message, request_id, facts)
      select projects.id, line.source, line.name, line.at, line.level, line.event, line.message, line.request_id, line.facts
        from projects, json_to_recordset(${JSON.stringify(lines)}::json)
          as line(source text, name text, at timestamptz, level text, event text, message text, request_id text, facts jsonb)
       where projects.id = ${projectId} and projects.status <> 'deleted'`)
  })

export async function readLines(
  control: Database,
  projectId: string,
  { source, name, after, level, requestId, limit }: LogQuery,
): Promise<StoredLine[]> {
  const lines = await control.rows<StoredLine>(sql`
    select id::text, name, at, level, event, message, request_id, facts from project_logs
     where project_id = ${projectId} and source = ${source} and name = ${name}
       and id > ${after ?? '0'}::bigint
       and (${level ?? null}::text is null or level = ${level ?? null})
       and (${requestId ?? null}::text is null or request_id = ${requestId ?? null})
     order by case when ${after !== undefined} then id else -id end limit ${limit}`)
  return after === undefined ? lines.reverse() : lines
}

export const removeLines = (control: Database, projectId: string, source: string, name: string) =>
  control.run(sql`
    delete from project_logs where project_id = ${projectId} and source = ${source} and name = ${name}`)

export const removeOld = (control: Database, days: number) =>
  control.run(sql`
    delete from project_logs where (project_id, id) in (
      select project_id, id from project_logs where at < now() - make_interval(days => ${days}) limit 10000)`)

/** Keeps the latest lines of a project that take at most so many bytes. */
export const trim = (control: Database, projectId: string, maxBytes: number) =>
  control.run(sql`
    delete from project_logs where project_id = ${projectId} and id <= coalesce((
      select max(id) from (
        select id, sum(octet_length(message) + 200) over (order by id desc) as bytes
          from project_logs where project_id = ${projectId}) as counted
       where bytes > ${maxBytes}), 0)`)
