// What an upload and a download of a small file really send to Postgres, made into scripts for pgbench.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { keyring } from '../apps/server/src/kernel/crypto/keys.ts'
import { withClient } from '../apps/server/src/kernel/postgres/database.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { createLogins } from '../apps/server/src/tenancy/logins.ts'
import { type SentStatement, whileRevealed } from './sent-sql.ts'
import { engineIn, type StagedServer } from './stage.ts'
import { type StorageStage, send } from './storage-stage.ts'

/** Statements with the name of a value for each place, by what they travel in: one pipeline each. */
export interface Script {
  pipelines: string[][]
  values: Record<string, string>
}

export interface SentForFiles {
  upload: SentStatement[][]
  download: SentStatement[][]
}

/** Sent by clocks of the platform, whoever asks for what. */
const byClocks =
  /auth\.revocations|pg_stat_activity|pg_locks|storage_uploads|scheduled|set_config\('statement_timeout', '5000', true\)$/
const inControl = /\b(storage_areas|stored_files)\b/
const attempts = 20

/** The platform is started anew, since only sessions opened from now on are logged. */
export async function readSent(storage: StorageStage, small: Buffer): Promise<SentForFiles> {
  let platform = await storage.start()
  const { address } = storage.postgres()
  const databases = ['plinth', storage.database].map(database => ({ address, database }))
  const sent = await whileRevealed(storage.dataDir, databases[0]!, () =>
    whileRevealed(storage.dataDir, databases[1]!, async sentSince => {
      await platform.stop()
      platform = await storage.start()
      const upload = await undisturbed(sentSince, turn => put(storage, platform, `sent-${turn}`, small))
      const download = await undisturbed(sentSince, () => get(storage, platform, 'sent-0'))
      return { upload: named(upload), download: named(download) }
    }),
  )
  await platform.stop()
  return sent
}

/** The last of a few times, when nothing else was sent meanwhile. */
async function undisturbed(
  sentSince: () => SentStatement[],
  work: (turn: number) => Promise<unknown>,
): Promise<SentStatement[]> {
  for (let turn = 0; turn < attempts; turn++) {
    const before = sentSince().length
    await work(turn)
    await sleep(200)
    const sent = sentSince().slice(before)
    if (turn >= 5 && !sent.some(({ sql }) => byClocks.test(sql))) return sent
  }
  throw new Error('the platform sends something else all the time')
}

/** Each pipeline of ours begins by cleaning the session; what goes to the control database is alone. */
function named(sent: readonly SentStatement[]): SentStatement[][] {
  const pipelines: SentStatement[][] = []
  for (const statement of sent) {
    if (statement.sql === 'reset all') pipelines.push([])
    else if (inControl.test(statement.sql)) pipelines.push([statement])
    else pipelines.at(-1)!.push(statement)
  }
  return pipelines
}

export const put = ({ headers, pathOf }: StorageStage, { url }: StagedServer, name: string, bytes: Buffer) =>
  send('POST', url + pathOf(name), { ...headers, 'content-type': 'application/octet-stream' }, bytes)

export const get = async ({ headers, pathOf }: StorageStage, { url }: StagedServer, name: string) =>
  Buffer.from(await (await send('GET', url + pathOf(name), headers)).arrayBuffer())

/**
 * The same for pgbench. `instead` says what stands for a value that is to be another each time. That our sessions
 * release advisory locks besides is left out, as in the other scripts.
 */
export function scriptOf(
  sent: readonly (readonly SentStatement[])[],
  instead: (value: string) => string | undefined,
): Script {
  const values: Record<string, string> = {}
  const write = ({ sql, values: given }: SentStatement, id: string): string =>
    sql
      .replace(/,\s*pg_advisory_unlock_all\(\)/, '')
      // What runs out of time is asked again by the platform; pgbench would end.
      .replace(/(?<='statement_timeout', )('\d+'|\$\d+)/, "'8000'")
      // pgbench takes a colon and a letter for a variable, in texts as well.
      .replace(/'[^']*'/g, literal => literal.replace(/:(?=\w)/g, ":' || '"))
      .replace(/\$(\d+)/g, (_, place: string) => {
        const value = given[Number(place) - 1]
        if (value === undefined || value === null) return 'null'
        const other = instead(value)
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

const ledgerFile = new URL('../apps/server/migrations/platform/0007_storage.sql', import.meta.url)
const ledgerSchema = 'ledger'

/**
 * The login pgbench has for uploads, and what its sessions are set to. pgbench knows one database only, so the tables
 * of the control database that an upload writes to are made in the project's, too.
 */
export async function withLedger(storage: StorageStage): Promise<{
  address: ServerAddress
  settings: Record<string, string>
}> {
  const { address } = storage.postgres()
  await withClient(address, storage.database, {}, async session => {
    await session.script(`
      create schema ${ledgerSchema};
      set search_path = ${ledgerSchema};
      create table projects (id uuid primary key);
      ${readFileSync(ledgerFile, 'utf8')};
      insert into projects values ('${storage.projectId}');
      insert into storage_areas (project_id, data_key, sweep_at) values ('${storage.projectId}', '', now() + '1 hour')`)
  })
  return { address, settings: { role: 'none', search_path: `public,extensions,pg_temp,${ledgerSchema}` } }
}

/** The login the platform reads with for callers. */
export function apiLogin(storage: StorageStage): ServerAddress {
  const { address, controlPlaneSecret } = engineIn(storage.dataDir)
  return createLogins(address, keyring(controlPlaneSecret)).address(storage.database, 'api')
}
