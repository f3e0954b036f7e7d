// Database sizes of projects with the quota `max_database_size_mb`. The watchdog measures a few at each check on its own
// connection. Measuring walks all files of a database, so thousands of projects must not be measured at once, and a
// database with very many tables must not delay the other checks.
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { tenantLogin } from './logins.ts'

export interface DatabaseSizes {
  /** The last measurement. Undefined without the quota, and before the first measurement. */
  bytesOf(projectId: string): number | undefined
  /** To be called when a project, and so its quota, may have changed. */
  changed(): void
  /** Called by the watchdog at each check. */
  check(session: Session): Promise<void>
}

export const megabyte = 1024 * 1024

const listEveryMs = 10_000
const listAgainMs = 1000
const sessionsEveryMs = 1000
/** Only databases with connections can grow. The others are measured less often, in case a short session was missed. */
const busyEveryMs = 2000
const idleEveryMs = 60_000
const busyPerCheck = 20
const idlePerCheck = 2
/** A check stops after this time. */
const maxCheckMs = 100
/** Maximum fraction of time for measuring one database, so slow ones are measured less often. */
const costFactor = 20

const lockNotAvailable = '55P03'
const tookTooLong = '57014'

export interface Measured {
  readonly id: string
  readonly ref: string
  limitBytes: number
  bytes: number | undefined
  measuredAt: number
  /** The earliest time of the next measurement. */
  notBefore: number
}

interface Limited {
  id: string
  ref: string
  limit: string
}

const listLimited = sql`
  select id, ref, quotas ->> 'max_database_size_mb' as limit from projects
   where status in ('active', 'suspended') and quotas ? 'max_database_size_mb'`

const listBusy = sql`select distinct datname as ref from pg_stat_activity where usename ~ ${tenantLogin}`

const sizeOf = (ref: string) =>
  sql`select pg_database_size(oid)::text as bytes from pg_database where datname = ${ref}`

export function createDatabaseSizes(log: Log, now: () => number = () => performance.now()): DatabaseSizes {
  /** Ordered by the last measurement, oldest first. */
  let projects = new Map<string, Measured>()
  let busy: ReadonlySet<string> = new Set()
  let listedAt = Number.NEGATIVE_INFINITY
  let sessionsAt = Number.NEGATIVE_INFINITY
  let isStale = true

  async function list(session: Session): Promise<void> {
    isStale = false
    listedAt = now()
    const rows = await session.repeatRows<Limited>(listLimited)
    projects = relisted(projects, rows)
  }

  async function measure(session: Session, project: Measured): Promise<void> {
    const started = now()
    const rows = await session.repeatRows<{ bytes: string | null }>(sizeOf(project.ref)).catch(error => {
      if (sqlState(error) !== tookTooLong) throw error
      log.warn({ project: project.id }, 'timeout while measuring the size of a project database')
    })
    if (rows) project.bytes = rows[0]?.bytes ? Number(rows[0].bytes) : undefined
    project.measuredAt = now()
    project.notBefore = project.measuredAt + (project.measuredAt - started) * costFactor
    // Move to the end of the order.
    projects.delete(project.id)
    projects.set(project.id, project)
  }

  async function check(session: Session): Promise<void> {
    const started = now()
    if (started - listedAt >= (isStale ? listAgainMs : listEveryMs)) await list(session)
    if (projects.size === 0) return
    if (started - sessionsAt >= sessionsEveryMs) {
      sessionsAt = started
      busy = new Set((await session.repeatRows<{ ref: string }>(listBusy)).map(({ ref }) => ref))
    }
    for (const project of dueOf(projects.values(), busy, started)) {
      if (now() - started > maxCheckMs) return
      await measure(session, project)
    }
  }

  return {
    bytesOf: id => projects.get(id)?.bytes,
    changed() {
      isStale = true
    },
    // A lock on the table of projects must not stop the watchdog.
    check: session =>
      check(session).catch(error => {
        const code = sqlState(error)
        if (code !== lockNotAvailable && code !== tookTooLong) throw error
        isStale = true
      }),
  }
}

/** Measures one project now. Null after a timeout, or if the lock table is full. */
export const measureDatabase = (control: Database, projectId: string): Promise<number | null> =>
  control
    .transaction(async session => {
      await session.script(`set local statement_timeout = '2s'`)
      const row = await session.row<{ bytes: string | null }>(sql`
        select pg_database_size(d.oid)::text as bytes
          from projects p join pg_database d on d.datname = p.ref where p.id = ${projectId}`)
      return Number(row?.bytes ?? 0)
    })
    .catch(error => {
      if (sqlState(error) === tookTooLong || error instanceof Refusal) return null
      throw error
    })

/** Keeps known measurements. New projects and those with a changed limit are measured first. */
export function relisted(
  known: ReadonlyMap<string, Measured>,
  rows: readonly Limited[],
): Map<string, Measured> {
  const first: Measured[] = []
  const rest = new Set<string>()
  for (const { id, ref, limit } of rows) {
    const limitBytes = Number(limit) * megabyte
    const old = known.get(id)
    if (old?.limitBytes === limitBytes) rest.add(id)
    else
      first.push({
        id,
        ref,
        limitBytes,
        bytes: old?.bytes,
        measuredAt: Number.NEGATIVE_INFINITY,
        notBefore: old?.notBefore ?? Number.NEGATIVE_INFINITY,
      })
  }
  const kept = [...known.values()].filter(({ id }) => rest.has(id))
  return new Map([...first, ...kept].map(each => [each.id, each]))
}

/** The projects to measure now. Those with connections, or over their limit, are due more often. */
export function dueOf(projects: Iterable<Measured>, busy: ReadonlySet<string>, now: number): Measured[] {
  const soon: Measured[] = []
  const late: Measured[] = []
  for (const each of projects) {
    if (soon.length === busyPerCheck) break
    if (each.notBefore > now) continue
    const isNew = each.measuredAt === Number.NEGATIVE_INFINITY
    if (isNew || busy.has(each.ref) || (each.bytes ?? 0) > each.limitBytes) {
      if (now - each.measuredAt >= busyEveryMs) soon.push(each)
    } else if (now - each.measuredAt >= idleEveryMs && late.length < idlePerCheck) late.push(each)
  }
  return [...soon, ...late]
}
