// The physical replication slot of the archive. The server keeps WAL for it until the archive confirms it, but at most
// `max_slot_wal_keep_size`.
import { sqlState } from '../database-error.ts'
import type { ServerAddress } from '../server-address.ts'
import { openReplication, type ReplicationConnection } from './replication-connection.ts'
import { parseLsn } from './wal-position.ts'

const slot = 'plinth_archive'
const duplicateObject = '42710'
const undefinedObject = '42704'

/** Creates the slot if it is missing or has lost its WAL. Returns from where the server keeps WAL. */
export async function reserveWal(connection: ReplicationConnection): Promise<number> {
  await createSlot(connection)
  const kept = await restartOf(connection)
  if (kept !== undefined) return kept
  await connection.rows(`DROP_REPLICATION_SLOT ${slot} WAIT`)
  await createSlot(connection)
  const restart = await restartOf(connection)
  if (restart === undefined) throw new Error('the server reserves no WAL for the archive')
  return restart
}

/** Does nothing if it exists. */
async function createSlot(connection: ReplicationConnection): Promise<void> {
  try {
    await connection.rows(`CREATE_REPLICATION_SLOT ${slot} PHYSICAL RESERVE_WAL`)
  } catch (error) {
    if (sqlState(error) !== duplicateObject) throw error
  }
}

/** Undefined if the slot has lost its WAL. */
async function restartOf(connection: ReplicationConnection): Promise<number | undefined> {
  const [row] = await connection.rows(`READ_REPLICATION_SLOT ${slot}`)
  const restart = row?.[1]
  return restart ? parseLsn(restart) : undefined
}

export const startCommand = (lsn: string, timeline: number) =>
  `START_REPLICATION SLOT ${slot} PHYSICAL ${lsn} TIMELINE ${timeline}`

/** Without an archive, the slot would only keep WAL on the disk. False if there was none. */
export async function dropArchiveSlot(address: ServerAddress): Promise<boolean> {
  const connection = await openReplication(address)
  try {
    await connection.rows(`DROP_REPLICATION_SLOT ${slot} WAIT`)
    return true
  } catch (error) {
    if (sqlState(error) !== undefinedObject) throw error
    return false
  } finally {
    connection.close()
  }
}
