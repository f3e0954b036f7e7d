// The statements that the platform sends to Postgres for a request, read from the server's log, so that the reference does
// the same work. Statements are logged only during the reading.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { locate } from '../apps/server/src/kernel/postgres/engine/place.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { identifier } from '../apps/server/src/kernel/postgres/sql.ts'

export interface SentStatement {
  sql: string
  /** In order: `$1` is the first. */
  values: (string | null)[]
}

const logSettings = {
  log_min_messages: 'log',
  log_statement: 'all',
  log_parameter_max_length: '-1',
  log_error_verbosity: 'default',
}

/** Sessions opened while `work` runs are logged. Earlier sessions are not. */
export async function withStatementLog<T>(
  dataDir: string,
  { address, database }: { address: ServerAddress; database: string },
  work: (readStatements: () => SentStatement[]) => Promise<T>,
): Promise<T> {
  const { logFile } = locate(dataDir)
  const name = identifier(database)
  const alter = (changes: string[]) =>
    withClient(address, 'postgres', guardedSettings, session =>
      session.script(changes.map(each => `alter database ${name} ${each}`).join(';')),
    )
  await alter(Object.entries(logSettings).map(([setting, value]) => `set ${setting} = '${value}'`))
  try {
    return await work(() => statementsIn(readFileSync(logFile, 'utf8')))
  } finally {
    await alter(Object.keys(logSettings).map(setting => `reset ${setting}`))
  }
}

/** The statements of the last unit: from the one that sets the caller to the one that answers. */
export async function readLastUnit(readStatements: () => SentStatement[]): Promise<SentStatement[]> {
  await sleep(100)
  const all = readStatements()
  const start = all.findLastIndex(({ sql }) => sql.includes("set_config('role'"))
  if (start < 0) throw new Error('no statement set the caller')
  return all.slice(start).filter(({ sql }) => /^\s*(select|with|insert)\b/i.test(sql))
}

/** Entries start with a time and continue in lines that start with a tab. */
export function statementsIn(log: string): SentStatement[] {
  const found: SentStatement[] = []
  for (const entry of log.split(/\n(?!\t)/)) {
    const [, kind, message] = /^\S+ \S+ \S+ \[\d+\][^:]*?\b([A-Z]+): {2}([\s\S]*)$/.exec(entry) ?? []
    const whole = message?.replaceAll('\n\t', '\n')
    const sql = kind === 'LOG' ? /^execute [^:]+: ([\s\S]*)$/.exec(whole!)?.[1] : undefined
    if (sql !== undefined) found.push({ sql, values: [] })
    if (kind === 'DETAIL' && found.length > 0 && /^parameters: /i.test(whole!))
      found.at(-1)!.values = parametersIn(whole!)
  }
  return found
}

const parametersIn = (detail: string) =>
  [...detail.matchAll(/\$\d+ = (NULL|'(?:[^']|'')*')/g)].map(([, text]) =>
    text === 'NULL' ? null : text!.slice(1, -1).replaceAll("''", "'"),
  )

export interface PgbenchUnit {
  unit: string[]
  values: Record<string, string>
}

/** The same statements with pgbench's names for their values. The value `marker` becomes `:id`. */
export function asPgbench(statements: readonly SentStatement[], marker: string): PgbenchUnit {
  const values: Record<string, string> = {}
  const unit = statements.map(({ sql, values: given }, index) =>
    sql.replace(/\$(\d+)/g, (_, place: string) => {
      const value = given[Number(place) - 1]
      if (value === undefined || value === null) return 'null'
      if (value === marker) return ':id'
      if (value === '') return "''" // pgbench takes no empty value
      const name = `v${index}_${place}`
      values[name] = value
      return `:${name}`
    }),
  )
  return { unit, values }
}
