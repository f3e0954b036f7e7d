// Each policy's expression, evaluated as the role in question. The row is given as values, so that it can be judged
// although the role does not see it; what the expression looks up elsewhere it sees as the role does.
import type { Command, Policy, Verdict } from '@plinth/contract/rls.ts'
import { qualified } from '#src/kernel/postgres/name.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'
import { type Ask, complaintOf } from './attempts.ts'
import { populated, type TableShape } from './rows.ts'

/** Per policy, a verdict for each of the rows. */
export async function verdictsOn(
  ask: Ask,
  shape: TableShape,
  command: Command,
  policies: readonly Policy[],
  rows: readonly string[],
  given: Record<string, unknown>,
): Promise<Verdict[][]> {
  const judged: Verdict[][] = []
  for (const policy of policies) {
    const { using, check } = askedOf(policy, command)
    try {
      const before = using === null ? [] : await evaluate(ask, shape, using, rows, {})
      const after = check === null ? [] : await evaluate(ask, shape, check, rows, given)
      judged.push(
        rows.map((_, place) => ({
          policy: policy.name,
          using: before[place] ?? null,
          with_check: after[place] ?? null,
          error: null,
        })),
      )
    } catch (error) {
      const { message } = complaintOf(error)
      judged.push(rows.map(() => ({ policy: policy.name, using: null, with_check: null, error: message })))
    }
  }
  return judged
}

/** What Postgres asks of a policy: its USING of the row as it is, its WITH CHECK, or else its USING, as it becomes. */
function askedOf({ command, using, with_check }: Policy, wanted: Command) {
  const becomes = command === 'SELECT' ? using : (with_check ?? using)
  switch (wanted) {
    case 'INSERT':
      return { using: null, check: becomes }
    case 'UPDATE':
      return { using, check: becomes }
    case 'SELECT':
    case 'DELETE':
      return { using, check: null }
  }
}

/** Nothing but true lets a row pass. Within the parentheses the table's own columns are the nearest ones. */
async function evaluate(
  ask: Ask,
  { schema, table }: TableShape,
  expression: string,
  rows: readonly string[],
  change: Record<string, unknown>,
): Promise<boolean[]> {
  const type = qualified(schema, table)
  const answer = await ask(
    `select (select (${expression}) from ${populated(type, 'each_row.row || $2::jsonb')} as ${identifier(table)})
       from pg_catalog.jsonb_array_elements($1::jsonb) with ordinality as each_row(row, place) order by each_row.place`,
    [`[${rows.join(',')}]`, JSON.stringify(change)],
  )
  return answer.rows.map(([verdict]) => verdict?.toString() === 't')
}
