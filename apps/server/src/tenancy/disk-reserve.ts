// Postgres stops for all projects if it cannot write its WAL. So the platform rejects writes while PLATFORM_DISK_RESERVE_MB
// is still free, and ends sessions that keep writing on direct connections.
import { createChore } from '#src/kernel/chores.ts'
import { freeBytes } from '#src/kernel/disk-space.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { megabyte } from './database-sizes.ts'
import { tenantLogin } from './logins.ts'
import { databasesOf } from './provision.ts'

export interface DiskReserve {
  /** Free space is below the reserve. */
  isReached(): boolean
  /** Warnings for the operator, as sentences. */
  warnings(): readonly string[]
  /** Called by the watchdog at each check. */
  check(session: Session): Promise<void>
  close(): void
}

/** A directory on a file system that stores data of projects. */
export interface Place {
  what: 'database' | 'files'
  path: string
}

interface DiskReserveOptions {
  places: readonly Place[]
  reserveMb: number
  log: Log
}

const measureEveryMs = 1000
const lockNotAvailable = '55P03'

/**
 * Tenant sessions in a transaction that has written. Transactions of any login count when they are old.
 * Transactions of owner sessions count when the session has been connected for a while, because many short
 * transactions on a direct connection also fill the disk. The management API opens a new owner connection
 * each time, so its work is not affected. A restore or a copy fills a database of its own as the owner.
 */
const endWriters = sql`
  select pg_terminate_backend(pid) from pg_stat_activity
   where usename ~ ${tenantLogin} and backend_xid is not null
     and datname in (select ref || suffix from projects cross join unnest(${databasesOf('')}::text[]) as s (suffix))
     and (least(xact_start, query_start) < now() - interval '5 seconds'
          or (usename ~ '_owner$' and backend_start < now() - interval '5 seconds'))`

export async function startDiskReserve({ places, reserveMb, log }: DiskReserveOptions): Promise<DiskReserve> {
  const reserve = reserveMb * megabyte
  /** Undefined if it cannot be measured. */
  const free = new Map<Place, number | undefined>()
  let isReached = false

  async function measureOne(place: Place): Promise<void> {
    try {
      free.set(place, await freeBytes(place.path))
    } catch (error) {
      const isNews = !free.has(place) || free.get(place) !== undefined
      free.set(place, undefined)
      if (isNews) log.warn({ err: error, path: place.path }, 'free disk space cannot be measured')
    }
  }

  const shortOf = (bytes: number) =>
    [...free].flatMap(([place, left]) => (left !== undefined && left < bytes ? [{ ...place, left }] : []))

  /**
   * At most one warning of a kind. The database may have two directories on one disk, and their measured
   * values differ a little.
   */
  function warningsOf(what: Place['what']): string[] {
    const measured = [...free].flatMap(([place, left]) => (place.what === what ? [left] : []))
    const least = Math.min(...measured.filter(left => left !== undefined))
    return [
      ...(measured.includes(undefined)
        ? [`The free space on the disk of the ${what} cannot be measured.`]
        : []),
      ...(least < reserve
        ? [
            `The disk of the ${what} has ${inMb(least)} MB left, less than PLATFORM_DISK_RESERVE_MB (${reserveMb}): writes are refused. Make room or enlarge the disk.`,
          ]
        : []),
    ]
  }

  async function measure(): Promise<void> {
    await Promise.all(places.map(measureOne))
    const short = shortOf(reserve)
    if (short.length > 0 === isReached) return
    isReached = short.length > 0
    const facts = {
      short: short.map(({ path, left }) => ({ path, free_mb: inMb(left) })),
      reserve_mb: reserveMb,
    }
    if (isReached) log.error(facts, 'free disk space is below the reserve; writes are refused')
    else log.info(facts, 'free disk space is above the reserve again; writes are accepted')
  }

  const measuring = createChore({ name: 'measure free disk space', everyMs: measureEveryMs, run: measure })
  if (reserveMb > 0 && places.length > 0) {
    await measure()
    measuring.start()
  }

  return {
    isReached: () => isReached,
    warnings: () => [...new Set(places.map(({ what }) => what))].flatMap(warningsOf),
    async check(session) {
      if (!shortOf(reserve / 2).some(({ what }) => what === 'database')) return
      const ended = await session.repeat(endWriters).catch(error => {
        if (sqlState(error) !== lockNotAvailable) throw error
        return 0
      })
      if (ended > 0)
        log.warn({ reason: 'the disk reserve is half used', ended }, 'the watchdog ended database sessions')
    },
    // Do not wait for the measurement: a hanging file system must not block the shutdown.
    close: () => void measuring.stop(),
  }
}

const inMb = (bytes: number) => Math.floor(bytes / megabyte)
