// What the platform really sends to Postgres for a request, read from the server's log, so that the reference
// does the same work. The log shows statements only for as long as this looks.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { locate } from '../apps/server/src/kernel/postgres/engine/place.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { identifier } from '../apps/server/src/kernel/postgres/sql.ts'

export interface SentStatement {
  sql: string
  /** By their place: `$1` is the first. */
  values: (string | null)[]
}

const revealing = {
  log_min_messages: 'log',
  log_statement: 'all',
  log_parameter_max_length: '-1',
  log_error_verbosity: 'default',
}

/** Sessions opened while `work` runs are logged; those there before are not. */
export async function whileRevealed<T>(
  dataDir: string,
  { address, database }: { address: ServerAddress; database: string },
  work: (sentSince: () => SentStatement[]) => Promise<T>,
): Promise<T> {
  const { logFile } = locate(dataDir)
  const name = identifier(database)
  const alter = (how: string[]) =>
    withClient(address, 'postgres', guardedSettings, session =>
      session.script(how.map(each => `alter database ${name} ${each}`).join(';')),
    )
  await alter(Object.entries(revealing).map(([setting, value]) => `set ${setting} = '${value}'`))
  try {
    return await work(() => statementsIn(readFileSync(logFile, 'utf8')))
  } finally {
    await alter(Object.keys(revealing).map(setting => `reset ${setting}`))
  }
}

/** The statements of the last unit: from the one that becomes the caller to the one that answers. */
export async function lastUnit(sentSince: () => SentStatement[]): Promise<SentStatement[]> {
  await sleep(100)
  const all = sentSince()
  const begin = all.findLastIndex(({ sql }) => sql.includes("set_config('role'"))
  if (begin < 0) throw new Error('nothing was sent that becomes the caller')
  return all.slice(begin).filter(({ sql }) => /^\s*(select|with|insert)\b/i.test(sql))
}

/** Entries begin with a time and go on in lines that begin with a tab. */
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

/** The same statements with pgbench's names for their values; a value that is `marker` becomes `:id`. */
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
