// How large the databases are of projects with the quota `max_database_size_mb`. The watchdog measures them on its
// own connection, a few at each look: measuring walks all files of a database, so thousands of projects must not be
// measured at once, and one with very many tables must not keep the watchdog from its other work.
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { tenantLogin } from './logins.ts'

export interface DatabaseSizes {
  /** As last measured; undefined for a project without the quota, and until its first measurement. */
  bytesOf(projectId: string): number | undefined
  /** A project, and so its quota, may have changed. */
  changed(): void
  /** Called by the watchdog at each of its looks. */
  look(session: Session): Promise<void>
}

export const megabyte = 1024 * 1024

const listEveryMs = 10_000
const listAgainMs = 1000
const sessionsEveryMs = 1000
/** A database can only grow while somebody is connected; the others are measured in case a short session was missed. */
const busyEveryMs = 2000
const idleEveryMs = 60_000
const busyPerLook = 20
const idlePerLook = 2
/** A look ends early after this long. */
const lookMs = 100
/** A database that takes long to measure is measured less often: this part of the time at most. */
const costFactor = 20

const lockNotAvailable = '55P03'
const tookTooLong = '57014'

export interface Measured {
  readonly id: string
  readonly ref: string
  limitBytes: number
  bytes: number | undefined
  measuredAt: number
  /** Not measured before this, however busy it is. */
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
  /** In the order of their last measurement, the oldest first. */
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
      if (codeOf(error) !== tookTooLong) throw error
      log.warn({ project: project.id }, 'the size of a project database could not be measured in time')
    })
    if (rows) project.bytes = rows[0]?.bytes ? Number(rows[0].bytes) : undefined
    project.measuredAt = now()
    project.notBefore = project.measuredAt + (project.measuredAt - started) * costFactor
    // To the end of the order.
    projects.delete(project.id)
    projects.set(project.id, project)
  }

  async function look(session: Session): Promise<void> {
    const started = now()
    if (started - listedAt >= (isStale ? listAgainMs : listEveryMs)) await list(session)
    if (projects.size === 0) return
    if (started - sessionsAt >= sessionsEveryMs) {
      sessionsAt = started
      busy = new Set((await session.repeatRows<{ ref: string }>(listBusy)).map(({ ref }) => ref))
    }
    for (const project of dueOf(projects.values(), busy, started)) {
      if (now() - started > lookMs) return
      await measure(session, project)
    }
  }

  return {
    bytesOf: id => projects.get(id)?.bytes,
    changed() {
      isStale = true
    },
    // Whoever locks the table of projects does not stop the watchdog.
    look: session =>
      look(session).catch(error => {
        const code = codeOf(error)
        if (code !== lockNotAvailable && code !== tookTooLong) throw error
        isStale = true
      }),
  }
}

/** On demand, for one project; null when it takes too long, or when the server has no room for one more lock. */
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
      if (codeOf(error) === tookTooLong || error instanceof Refusal) return null
      throw error
    })

const codeOf = (error: unknown) => (error as { code?: string }).code

/** What is known of each project stays; a new one, or one with another limit, is measured before all others. */
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

/** The few whose turn it is: those somebody is connected to, or that are over their limit, come more often. */
export function dueOf(projects: Iterable<Measured>, busy: ReadonlySet<string>, now: number): Measured[] {
  const soon: Measured[] = []
  const late: Measured[] = []
  for (const each of projects) {
    if (soon.length === busyPerLook) break
    if (each.notBefore > now) continue
    const isNew = each.measuredAt === Number.NEGATIVE_INFINITY
    if (isNew || busy.has(each.ref) || (each.bytes ?? 0) > each.limitBytes) {
      if (now - each.measuredAt >= busyEveryMs) soon.push(each)
    } else if (now - each.measuredAt >= idleEveryMs && late.length < idlePerLook) late.push(each)
  }
  return [...soon, ...late]
}
