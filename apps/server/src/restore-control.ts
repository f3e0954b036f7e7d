// Puts a backup of the control database in its place while the platform is stopped. Upgrades make such backups. What is
// replaced is kept as a database of its own, until the next time.
import { type ControlBackups, controlBackups } from '#src/archive/control-backup.ts'
import { copyBackupRecords, forgetRemovedBackups } from '#src/archive/control-store.ts'
import type { Config } from '#src/config.ts'
import { ConfigError } from '#src/config-error.ts'
import { openDatabaseServer } from '#src/database-server.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { lockDataDirectory } from '#src/kernel/data-directory.ts'
import { createLog } from '#src/kernel/log.ts'
import { openBackupPieces } from '#src/kernel/objects/open-pieces.ts'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'
import { checkStoredSecret } from '#src/tenancy/secret-proof.ts'

/** Without an id it lists the backups. Returns what was done, as JSON. */
export async function restoreControlDatabase(config: Config, args: readonly string[]): Promise<string> {
  const [id, ...rest] = args
  if (rest.length > 0 || (id !== undefined && !isUuid(id)))
    throw new ConfigError('restore-control needs the id of a backup; without one it lists them.')
  const directory = lockDataDirectory(config.dataDir)
  try {
    const log = createLog('silent')
    const database = await openDatabaseServer(config, directory, log)
    try {
      const { address, control } = database.server
      const deriveKey = keyring(database.controlPlaneSecret)
      // The backups of another secret have another folder, so it would seem that there are none.
      if (await withClient(address, 'postgres', guardedSettings, session => hasDatabase(session, control)))
        await withClient(address, control, controlSettings, session => checkStoredSecret(session, deriveKey))
      const pieces = await openBackupPieces(config)
      try {
        const backups = controlBackups(pieces, deriveKey, log)
        if (id === undefined) return JSON.stringify(await backups.list())
        const kept = await replace(backups, id.toLowerCase(), { address, control, dataDir: config.dataDir })
        return JSON.stringify({ restored: id, kept_as: kept })
      } finally {
        await pieces.close()
      }
    } finally {
      await database.stop()
    }
  } finally {
    directory.release()
  }
}

interface Target {
  address: ServerAddress
  control: string
  dataDir: string
}

/** Returns the name of the database that was replaced. */
async function replace(
  backups: ControlBackups,
  id: string,
  { address, control, dataDir }: Target,
): Promise<string> {
  const [made, kept] = [`${control}_restored`, `${control}_replaced`]
  const onServer = <T>(work: (session: Session) => Promise<T>) =>
    withClient(address, 'postgres', guardedSettings, work)
  const drop = (name: string) => `drop database if exists ${identifier(name)} with (force)`
  await onServer(async session => {
    if (await isUsed(session, control))
      throw new ConfigError('The platform still runs on this database; stop all of its nodes first.')
    await session.script(drop(made))
  })
  const watching = { signal: new AbortController().signal, progress() {} }
  await backups.restore(id, { address, database: made, dataDir }, watching)
  const exists = await onServer(session => hasDatabase(session, control))
  // Backups that were made since can be restored afterwards, too. Those that were removed cannot.
  if (exists)
    await withClient(address, control, controlSettings, from =>
      withClient(address, made, controlSettings, async to => {
        await copyBackupRecords(from, to)
        await forgetRemovedBackups(from, to)
      }),
    )
  await onServer(async session => {
    await session.script(drop(kept))
    await session.script(`
      ${exists ? `alter database ${identifier(control)} rename to ${identifier(kept)};` : ''}
      alter database ${identifier(made)} rename to ${identifier(control)};`)
  })
  return kept
}

const hasDatabase = async (session: Session, name: string) =>
  (await session.row(sql`select from pg_database where datname = ${name}`)) !== undefined

const isUsed = async (session: Session, name: string) =>
  (await session.row(
    sql`select from pg_stat_activity where datname = ${name} and backend_type = 'client backend' limit 1`,
  )) !== undefined
