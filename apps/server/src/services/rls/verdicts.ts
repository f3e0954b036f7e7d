// Evaluates each policy expression as the given role. The row is passed as values, so that it can be checked even if the role
// cannot see it. Subqueries in the expression run with the rights of the role.
import type { Command, Policy, Verdict } from '@plinth/contract/rls.ts'
import { qualified } from '#src/kernel/postgres/name.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'
import { type Ask, attemptError } from './attempts.ts'
import { populated, type TableShape } from './rows-store.ts'

/** For each policy, one verdict per row. */
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
      const { message } = attemptError(error)
      judged.push(rows.map(() => ({ policy: policy.name, using: null, with_check: null, error: message })))
    }
  }
  return judged
}

/** Postgres checks USING on the existing row, and WITH CHECK (or USING if there is none) on the new row. */
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

/** Only true passes; null does not. The subquery makes unqualified columns resolve to the table's columns. */
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
