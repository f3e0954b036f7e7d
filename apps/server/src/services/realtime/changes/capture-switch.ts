// Enables the capture triggers of tables that have subscribers, and disables the others. Runs as superuser, because tables
// have different owners. No tenant code runs on this connection.
import { guardedSettings, type OwnSession, withClient } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'
import * as store from './capture-store.ts'

export interface CaptureSwitch {
  /**
   * Enables or disables triggers on all tables of a project, except the excluded ones. Tables that another session has
   * locked are left for the next call. So are all tables if another node holds the advisory lock for too long.
   */
  adjust(ref: string, excluded?: readonly string[]): Promise<Adjusted>
}

export interface Adjusted {
  readonly isDone: boolean
  /** Relids of tables that another session has locked. */
  readonly locked: readonly string[]
}

/** How long to wait for a table lock. Other writers queue behind our lock request, so this is short. */
const lockTimeoutMs = 100
/** How long to wait for the advisory lock. A tenant can take it, too, but delays only its own project. */
const nodeLockTimeoutMs = 1000
const eventTriggersCanBeOff = 170000
const triggers = ['plinth_insert', 'plinth_update', 'plinth_delete']
const lockNotAvailable = '55P03'
const undefinedTable = '42P01'

export const createCaptureSwitch = ({ address }: Cluster, whenUpgraded: WhenUpgraded): CaptureSwitch => ({
  async adjust(ref, excluded = []) {
    await whenUpgraded(ref, 'caller')
    return withClient(address, ref, guardedSettings, async session => {
      await session.script(`set lock_timeout = ${nodeLockTimeoutMs}; set statement_timeout = 5000`)
      if (!(await takeNodeLock(session))) return { isDone: false, locked: [] }
      // Enabling a trigger changes no definition that caches depend on, so event triggers need not run.
      if ((await store.serverVersion(session)) >= eventTriggersCanBeOff)
        await session.script('set event_triggers = off')
      await session.script(`set lock_timeout = ${lockTimeoutMs}`)
      const locked: string[] = []
      for (const table of await store.listTriggerMismatches(session))
        if (excluded.includes(table.oid) || !(await switchTriggers(session, table))) locked.push(table.oid)
      return { isDone: locked.length === 0, locked }
    })
  },
})

/** Serializes nodes, so that each decides on the state that the one before has committed. */
async function takeNodeLock(session: OwnSession): Promise<boolean> {
  try {
    await store.lockCaptures(session)
    return true
  } catch (error) {
    if (sqlState(error) === lockNotAvailable) return false
    throw error
  }
}

async function switchTriggers(
  session: OwnSession,
  { oid, name, isWanted, isAttached }: store.TriggerMismatch,
): Promise<boolean> {
  const action = isWanted ? 'enable' : 'disable'
  try {
    if (isWanted && !isAttached) await store.attachCapture(session, oid)
    await session.script(
      `alter table only ${name} ${triggers.map(each => `${action} trigger ${each}`).join(', ')}`,
    )
    return true
  } catch (error) {
    const code = sqlState(error)
    if (code === lockNotAvailable) return false
    // The table was dropped meanwhile, or some triggers are missing and the table needs none.
    if (code === undefinedTable || code === '42704') return true
    throw error
  }
}
