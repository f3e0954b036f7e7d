import type { OwnSession } from '#src/kernel/postgres/database.ts'

/** The rows of the last statement of a script, with values in the text format of Postgres. */
export async function lastRows(session: OwnSession, script: string): Promise<(string | null)[][]> {
  let rows: (string | null)[][] = []
  await session.results(script, {
    begin() {
      rows = []
    },
    row(values) {
      rows.push([...values])
    },
  })
  return rows
}
