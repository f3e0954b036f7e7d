// A Postgres that cannot write its log stops for all projects. So the platform refuses writes while there is still
// free space, PLATFORM_DISK_RESERVE_MB, and ends sessions that write past it on a direct connection.
import { freeBytes } from '#src/kernel/disk-space.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { megabyte } from './database-sizes.ts'
import { tenantLogin } from './logins.ts'

export interface DiskReserve {
  /** Free space is below the reserve. */
  isReached(): boolean
  /** What an operator should know, as sentences. */
  warnings(): readonly string[]
  /** Called by the watchdog at each of its looks. */
  look(session: Session): Promise<void>
  close(): void
}

/** A directory whose file system fills up with what projects store. */
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
 * Sessions of tenants in a transaction that has written: those of some age, however they came, and of owners all that
 * have been connected for a while, because short transactions on a direct connection fill a disk just as well. What
 * the management API does as an owner has a fresh connection and ends soon.
 */
const endWriters = sql`
  select pg_terminate_backend(pid) from pg_stat_activity
   where usename ~ ${tenantLogin} and datname in (select ref from projects) and backend_xid is not null
     and (least(xact_start, query_start) < now() - interval '5 seconds'
          or (usename ~ '_owner$' and backend_start < now() - interval '5 seconds'))`

export async function startDiskReserve({ places, reserveMb, log }: DiskReserveOptions): Promise<DiskReserve> {
  const reserve = reserveMb * megabyte
  /** Undefined where it cannot be measured. */
  const free = new Map<Place, number | undefined>()
  let isReached = false
  let isMeasuring = false

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

  /** At most one of a kind, also when the database has two directories: their figures may differ by a little. */
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

  /** A file system that does not answer is asked once, not over and over. */
  function measureAgain(): void {
    if (isMeasuring) return
    isMeasuring = true
    void measure().finally(() => {
      isMeasuring = false
    })
  }

  let timer: NodeJS.Timeout | undefined
  if (reserveMb > 0 && places.length > 0) {
    await measure()
    timer = setInterval(measureAgain, measureEveryMs).unref()
  }

  return {
    isReached: () => isReached,
    warnings: () => [...new Set(places.map(({ what }) => what))].flatMap(warningsOf),
    async look(session) {
      if (!shortOf(reserve / 2).some(({ what }) => what === 'database')) return
      const ended = await session.repeat(endWriters).catch((error: { code?: string }) => {
        if (error.code !== lockNotAvailable) throw error
        return 0
      })
      if (ended > 0)
        log.warn({ reason: 'the disk reserve is half used', ended }, 'the watchdog ended database sessions')
    },
    close: () => clearInterval(timer),
  }
}

const inMb = (bytes: number) => Math.floor(bytes / megabyte)
