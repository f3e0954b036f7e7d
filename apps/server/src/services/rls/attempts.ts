// Executes a command as a role with claims, and rolls back.
import type { Command } from '@plinth/contract/rls.ts'
import { qualified } from '#src/kernel/postgres/name.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Answer } from '#src/kernel/postgres/wire/unit.ts'
import { sqlErrorDetails } from '#src/planes/management/database-refusal.ts'
import { type Caller, type Databases, statement } from '#src/tenancy/databases.ts'
import { insertRow, populated, type StoredRow, selectRows, type TableShape } from './rows-store.ts'

export interface AttemptError {
  code: string
  message: string
}
export interface Attempted {
  /** The stored row, or the given one. */
  text: string
  allowed: boolean
  error: AttemptError | null
}
export interface Outcome {
  rows: Attempted[]
  /** Set if the command could not be tried per row. */
  error: AttemptError | null
}
export type Ask = (sql: string, values: readonly string[]) => Promise<Answer>

const methods: Record<Command, string> = { SELECT: 'GET', INSERT: 'POST', UPDATE: 'PATCH', DELETE: 'DELETE' }

export const asks =
  (databases: Databases, caller: Caller, command: Command, { table }: TableShape): Ask =>
  (sql, values) => {
    const facts = { method: methods[command], path: `/${table}`, headers: '{}', rollsBack: true }
    return databases.asCaller(caller, facts, statement(sql, false), values)
  }

export async function attempt(
  ask: Ask,
  command: Command,
  shape: TableShape,
  before: readonly StoredRow[],
  given: Record<string, unknown>,
  limit: number,
): Promise<Outcome> {
  if (command === 'SELECT') return look(ask, shape, before, limit)
  const table = qualified(shape.schema, shape.table)
  const names = Object.keys(given)
  const values = command === 'DELETE' ? [] : [JSON.stringify(given)]
  const rows: Attempted[] = []
  for (const { text, tableoid, ctid } of before) {
    const place = [tableoid, ctid]
    if (command === 'INSERT') {
      const insert = insertRow(shape, names, '$1::jsonb')
      rows.push({ text, ...(await tried(ask, insert, names.length > 0 ? values : [])) })
    } else if (command === 'UPDATE') {
      const list = names.map(identifier).join(', ')
      const update = `update ${table} set (${list}) = (select ${list} from ${populated(table, '$1::jsonb')})`
      rows.push({ text, ...(await tried(ask, `${update} where ${isAt(2)}`, [...values, ...place])) })
    } else rows.push({ text, ...(await tried(ask, `delete from ${table} where ${isAt(1)}`, place)) })
  }
  return { rows, error: null }
}

const isAt = (first: number) => `tableoid = $${first}::oid and ctid = $${first + 1}::tid`

/** The rows visible to the role, and the rows of the owner's sample that are not. */
async function look(
  ask: Ask,
  shape: TableShape,
  before: readonly StoredRow[],
  limit: number,
): Promise<Outcome> {
  const table = qualified(shape.schema, shape.table)
  try {
    const seen = rowsOf(await ask(selectRows(shape, limit), []))
    const tids = `{${before.map(({ ctid }) => `"${ctid}"`).join(',')}}`
    const among = rowsOf(
      await ask(`select tableoid::text, ctid::text from ${table} where ctid = any($1::tid[])`, [tids]),
    )
    const visible = new Set([...seen, ...among].map(placeOf))
    const hidden = before.filter(row => !visible.has(placeOf(row)))
    return {
      rows: [
        ...seen.map(({ text }) => ({ text, allowed: true, error: null })),
        ...hidden.map(({ text }) => ({ text, allowed: false, error: null })),
      ],
      error: null,
    }
  } catch (error) {
    return {
      rows: before.map(({ text }) => ({ text, allowed: false, error: null })),
      error: attemptError(error),
    }
  }
}

async function tried(ask: Ask, sql: string, values: readonly string[]): Promise<Omit<Attempted, 'text'>> {
  try {
    const { tag } = await ask(sql, values)
    return { allowed: tag.endsWith(' 1'), error: null }
  } catch (error) {
    return { allowed: false, error: attemptError(error) }
  }
}

/** Errors that are not about the statement are thrown, not reported in the answer. */
export function attemptError(error: unknown): AttemptError {
  const sqlError = sqlErrorDetails(error)
  if (!sqlError) throw error
  return { code: sqlError.sqlState, message: sqlError.message }
}

const rowsOf = ({ rows }: Answer): StoredRow[] =>
  rows.map(([tableoid, ctid, text]) => ({
    tableoid: String(tableoid),
    ctid: String(ctid),
    text: text ? text.toString() : '',
  }))

const placeOf = ({ tableoid, ctid }: StoredRow) => `${tableoid} ${ctid}`
