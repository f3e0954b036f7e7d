// Switches the triggers that note changes: on where somebody listens, off where nobody does. As the superuser, because
// tables belong to whoever made them; nothing of a tenant's runs.
import { guardedSettings, type OwnSession, withClient } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Cluster } from './cluster.ts'
import type { WhenUpgraded } from './upgrades.ts'

export interface CaptureSwitch {
  /**
   * Brings all tables of a project to where they should be, but for those that are left out. Answers which ones somebody
   * held on to: they are left for another time, and so is everything when another node is at it for long.
   */
  adjust(ref: string, without?: readonly string[]): Promise<Adjusted>
}

export interface Adjusted {
  readonly isDone: boolean
  /** Their relids. */
  readonly held: readonly string[]
}

interface Misplaced {
  oid: string
  name: string
  isWanted: boolean
  isAttached: boolean
}

/** A writer is waited for no longer than this, since other writers wait behind us. */
const lockTimeoutMs = 100
/** Another node is waited for so long, or a tenant who has taken the lock, for nobody's harm but its own. */
const turnTimeoutMs = 1000
const eventTriggersCanBeOff = 170000
const triggers = ['plinth_insert', 'plinth_update', 'plinth_delete']
const lockNotAvailable = '55P03'
const gone = '42P01'

const misplaced = sql`
  select * from (
    select c.oid::text, c.oid::regclass::text as name,
           coalesce(t.cdc_enabled, true) and exists (
             select from platform.listening l where l.relid = c.oid and l.until > clock_timestamp()) as "isWanted",
           count(g.oid) = 3 as "isAttached",
           count(g.oid) filter (where g.tgenabled <> 'D') as enabled
      from pg_class c
      left join platform.realtime_tables t on t.relid = c.oid
      left join pg_trigger g on g.tgrelid = c.oid and g.tgname in ('plinth_insert', 'plinth_update', 'plinth_delete')
     where c.relkind in ('r', 'p')
       and (c.relnamespace = to_regnamespace('public') or c.oid = to_regclass('realtime.messages') or g.oid is not null)
     group by c.oid, t.cdc_enabled) s
   where enabled <> case when "isWanted" then 3 else 0 end`

export const createCaptureSwitch = ({ address }: Cluster, whenUpgraded: WhenUpgraded): CaptureSwitch => ({
  async adjust(ref, without = []) {
    await whenUpgraded(ref, 'caller')
    return withClient(address, ref, guardedSettings, async session => {
      await session.script(`set lock_timeout = ${turnTimeoutMs}; set statement_timeout = 5000`)
      if (!(await takesTurn(session))) return { isDone: false, held: [] }
      const { version } = (await session.row<{ version: number }>(
        sql`select current_setting('server_version_num')::int as version`,
      ))!
      // No definition changes that anybody has remembered.
      if (version >= eventTriggersCanBeOff) await session.script('set event_triggers = off')
      await session.script(`set lock_timeout = ${lockTimeoutMs}`)
      const held: string[] = []
      for (const table of await session.rows<Misplaced>(misplaced))
        if (without.includes(table.oid) || !(await turn(session, table))) held.push(table.oid)
      return { isDone: held.length === 0, held }
    })
  },
})

/** Of two nodes, the second decides on what the first has left. */
async function takesTurn(session: OwnSession): Promise<boolean> {
  try {
    await session.run(sql`select pg_advisory_lock(hashtext('plinth: capture'))`)
    return true
  } catch (error) {
    if ((error as { code?: string }).code === lockNotAvailable) return false
    throw error
  }
}

async function turn(session: OwnSession, { oid, name, isWanted, isAttached }: Misplaced): Promise<boolean> {
  const way = isWanted ? 'enable' : 'disable'
  try {
    if (isWanted && !isAttached) await session.run(sql`select platform.attach_capture(${oid}::oid)`)
    await session.script(
      `alter table only ${name} ${triggers.map(each => `${way} trigger ${each}`).join(', ')}`,
    )
    return true
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === lockNotAvailable) return false
    // Dropped meanwhile, or some of the triggers are gone and nobody wants them.
    if (code === gone || code === '42704') return true
    throw error
  }
}
