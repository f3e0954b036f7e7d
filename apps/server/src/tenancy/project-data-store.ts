// Export and restore of a table in the control database whose rows belong to projects and contain no sealed values.
import { inBatches } from '#src/kernel/batches.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import type { ExportedRow, ProjectDataHooks } from './project-data.ts'

/** Rows per INSERT. */
const batchRows = 500

export function tableDataHooks(table: string, columns: readonly string[]): ProjectDataHooks {
  const name = raw(table)
  const list = raw(columns.join(', '))
  return {
    async *export(session, projectId) {
      const rows = await session.rows<{ row: ExportedRow }>(sql`
        select to_jsonb(exported) as row from (select ${list} from ${name} where project_id = ${projectId}) exported`)
      for (const { row } of rows) yield row
    },
    async restore(session, projectId, { rows }) {
      await session.run(sql`delete from ${name} where project_id = ${projectId}`)
      for await (const batch of inBatches(rows, batchRows))
        await session.run(sql`
          insert into ${name} (project_id, ${list})
          select ${projectId}, ${list} from jsonb_populate_recordset(null::${name}, ${JSON.stringify(batch)})`)
    },
  }
}
