// Turns the statements of an upload and a download of a small file into scripts for pgbench.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { keyring } from '../apps/server/src/kernel/crypto/keys.ts'
import { withClient } from '../apps/server/src/kernel/postgres/database.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { createLogins } from '../apps/server/src/tenancy/logins.ts'
import { type SentStatement, withStatementLog } from './sent-sql.ts'
import { engineIn, type StagedServer } from './stage.ts'
import { type StorageStage, send } from './storage-stage.ts'

/** Statements with the name of a value for each parameter, grouped by pipeline. */
export interface Script {
  pipelines: string[][]
  values: Record<string, string>
}

export interface SentForFiles {
  upload: SentStatement[][]
  download: SentStatement[][]
}

/** Statements of the platform's periodic work, independent of requests. */
const periodicStatement =
  /auth\.revocations|pg_stat_activity|pg_locks|storage_uploads|scheduled|set_config\('statement_timeout', '5000', true\)$/
const inControlDatabase = /\b(storage_areas|stored_files)\b/
const attempts = 20

/** Restarts the platform, because only new sessions are logged. */
export async function readSent(storage: StorageStage, small: Buffer): Promise<SentForFiles> {
  let platform = await storage.start()
  const { address } = storage.postgres()
  const databases = ['plinth', storage.database].map(database => ({ address, database }))
  const sent = await withStatementLog(storage.dataDir, databases[0]!, () =>
    withStatementLog(storage.dataDir, databases[1]!, async readStatements => {
      await platform.stop()
      platform = await storage.start()
      const upload = await readUndisturbed(readStatements, attempt =>
        put(storage, platform, `sent-${attempt}`, small),
      )
      const download = await readUndisturbed(readStatements, () => get(storage, platform, 'sent-0'))
      return { upload: toPipelines(upload), download: toPipelines(download) }
    }),
  )
  await platform.stop()
  return sent
}

/** Takes the last of several attempts, if nothing else was sent meanwhile. */
async function readUndisturbed(
  readStatements: () => SentStatement[],
  work: (attempt: number) => Promise<unknown>,
): Promise<SentStatement[]> {
  for (let attempt = 0; attempt < attempts; attempt++) {
    const before = readStatements().length
    await work(attempt)
    await sleep(200)
    const sent = readStatements().slice(before)
    if (attempt >= 5 && !sent.some(({ sql }) => periodicStatement.test(sql))) return sent
  }
  throw new Error('the platform keeps sending other statements')
}

/** Each of our pipelines begins with cleaning the session. Statements to the control database are sent alone. */
function toPipelines(sent: readonly SentStatement[]): SentStatement[][] {
  const pipelines: SentStatement[][] = []
  for (const statement of sent) {
    if (statement.sql === 'reset all') pipelines.push([])
    else if (inControlDatabase.test(statement.sql)) pipelines.push([statement])
    else pipelines.at(-1)!.push(statement)
  }
  return pipelines
}

export const put = ({ headers, pathOf }: StorageStage, { url }: StagedServer, name: string, bytes: Buffer) =>
  send('POST', url + pathOf(name), { ...headers, 'content-type': 'application/octet-stream' }, bytes)

export const get = async ({ headers, pathOf }: StorageStage, { url }: StagedServer, name: string) =>
  Buffer.from(await (await send('GET', url + pathOf(name), headers)).arrayBuffer())

/**
 * The same for pgbench. `replace` returns a replacement for values that must differ each time. The release of advisory locks is
 * omitted,
 * as in the other scripts.
 */
export function scriptOf(
  sent: readonly (readonly SentStatement[])[],
  replace: (value: string) => string | undefined,
): Script {
  const values: Record<string, string> = {}
  const write = ({ sql, values: given }: SentStatement, id: string): string =>
    sql
      .replace(/\s+and pg_advisory_unlock_all\(\) is not null/, '')
      // The platform retries a statement that times out; pgbench would stop.
      .replace(/(?<='statement_timeout', )('\d+'|\$\d+)/, "'8000'")
      // pgbench treats a colon and a letter as a variable, also in strings.
      .replace(/'[^']*'/g, literal => literal.replace(/:(?=\w)/g, ":' || '"))
      .replace(/\$(\d+)/g, (_, place: string) => {
        const value = given[Number(place) - 1]
        if (value === undefined || value === null) return 'null'
        const other = replace(value)
        if (other !== undefined) return other
        values[`${id}_${place}`] = value
        return `:${id}_${place}`
      })
  return {
    pipelines: sent.map((pipeline, at) =>
      pipeline.map((statement, index) => write(statement, `v${at}_${index}`)),
    ),
    values,
  }
}

export const textOf = ({ pipelines }: Script): string =>
  pipelines
    .map(statements => `\\startpipeline\n${statements.map(each => `${each};\n`).join('')}\\endpipeline\n`)
    .join('')

const ledgerMigration = new URL('../apps/server/migrations/platform/0007_storage.sql', import.meta.url)
const ledgerSchema = 'ledger'

/**
 * The login of pgbench for uploads, and its session settings. pgbench uses only one database, so the tables of the control
 * database that an upload writes to are also created in the project database.
 */
export async function createLedgerTables(storage: StorageStage): Promise<{
  address: ServerAddress
  settings: Record<string, string>
}> {
  const { address } = storage.postgres()
  await withClient(address, storage.database, {}, async session => {
    await session.script(`
      create schema ${ledgerSchema};
      set search_path = ${ledgerSchema};
      create table projects (id uuid primary key);
      ${readFileSync(ledgerMigration, 'utf8')};
      insert into projects values ('${storage.projectId}');
      insert into storage_areas (project_id, data_key, sweep_at) values ('${storage.projectId}', '', now() + '1 hour')`)
  })
  return { address, settings: { role: 'none', search_path: `public,extensions,pg_temp,${ledgerSchema}` } }
}

/** The login that the platform uses for callers. */
export function apiLogin(storage: StorageStage): ServerAddress {
  const { address, controlPlaneSecret } = engineIn(storage.dataDir)
  return createLogins(address, keyring(controlPlaneSecret)).address(storage.database, 'api')
}
