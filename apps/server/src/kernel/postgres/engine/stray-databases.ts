// Files of databases that were never completed. Postgres creates the directory of a database before the transaction commits,
// and leaves it there if it is killed meanwhile. Nothing refers to it afterwards.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { guardedSettings, withClient } from '../database.ts'
import type { ServerAddress } from '../server-address.ts'
import { sql } from '../sql.ts'
import type { EngineLog } from './start.ts'

/** Lower numbers are those of databases that come with Postgres. */
const firstOwnOid = 16_384

/** Only for a server on which nobody creates a database meanwhile: right after its start, before anything else uses it. */
export async function removeStrayDatabases(
  clusterDir: string,
  address: ServerAddress,
  log: EngineLog,
): Promise<void> {
  const base = join(clusterDir, 'base')
  const names = await readdir(base)
  const databases = await withClient(address, 'postgres', guardedSettings, session =>
    session.rows<{ oid: string }>(sql`select oid::text from pg_database`),
  )
  const known = new Set(databases.map(({ oid }) => oid))
  for (const name of names) {
    if (!/^[1-9]\d*$/.test(name) || Number(name) < firstOwnOid || known.has(name)) continue
    log.warn({ directory: name }, 'removing the files of a database that was never completed')
    await rm(join(base, name), { recursive: true, force: true })
  }
}
