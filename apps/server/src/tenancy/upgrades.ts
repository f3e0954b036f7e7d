// Upgrades project databases after a release with new migrations. The platform listens first and upgrades a few projects at
// a time in the background. A request to a project moves it to the front of the queue and waits for its upgrade. Each
// project is backed up before its upgrade. A failed upgrade is retried with back-off and does not delay the others.
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { type Database, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { DatabaseError, sqlState } from '#src/kernel/postgres/database-error.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type Cluster, controlSettings } from './cluster.ts'
import type { Provisioner } from './provision.ts'

/**
 * Undefined when the project's database is current, which is decided from memory. Otherwise resolves once it is
 * upgraded, or rejects with a 503. Only the project's owners and servers get the reason of a failure.
 */
export type WhenUpgraded = (ref: string, audience: 'caller' | 'owner') => Promise<void> | undefined

/** What happens around the upgrade of a project. */
export interface UpgradeSteps {
  /** Backs the project up. If it fails, the project is not upgraded. */
  before(projectId: string, signal: AbortSignal): Promise<void>
  /** The reason is that of a failure, for the operator. */
  after(projectId: string, reason: string | undefined): Promise<void>
}

/** The project could not be backed up, so it was not upgraded. */
export class SnapshotFailed extends Error {
  readonly reason: string
  constructor(reason: string, cause: unknown) {
    super(`the backup before it could not be made: ${reason}`, { cause })
    this.name = 'SnapshotFailed'
    this.reason = reason
  }
}

export interface Upgrades {
  whenUpgraded: WhenUpgraded
  /** Starts the upgrades in the background. */
  start(steps: UpgradeSteps): void
  /** Starts no upgrade in the background while the work runs. Those that run end first. */
  hold<T>(work: () => Promise<T>): Promise<T>
  /** Upgrades one project without a backup. Returns the reason if that fails. */
  upgradeNow(project: { id: string; ref: string }): Promise<string | undefined>
  /** To be called when a project may have been deleted. */
  recheck(id: string): void
  /** Warnings for the operator, as sentences. */
  warnings(): readonly string[]
  close(): Promise<void>
}

interface UpgradesOptions {
  control: Database
  cluster: Cluster
  provisioner: Pick<Provisioner, 'upgrade'>
  log: Log
}

interface Outdated {
  readonly id: string
  readonly ref: string
  state: 'queued' | 'running' | 'failed'
  isCalled: boolean
  /** Settles after the next attempt. All requests to the project share it. */
  attempt: PromiseWithResolvers<void>
  failures: number
  /** It has a backup of before the upgrade. This process has let no one write to it since. */
  isBackedUp: boolean
  /** For the owner of the project. */
  reason: string
  /** For the operator. */
  recorded: string
  retryAt: number
  retry?: NodeJS.Timeout
}

/** Concurrent upgrades on this node, one connection each. One slot is reserved for projects with waiting requests. */
const maxConcurrent = { all: 4, uncalled: 3 }
/** Maximum time that a request waits for the upgrade of its project. */
const waitMs = 5000
const retryMs = { first: 1000, longest: 300_000 }
const namedInWarning = 5
/** The session of a killed node ends soon and releases its advisory lock. */
const lockSettings = { ...controlSettings, client_connection_check_interval: '2s' }

/**
 * The list is read once. A version that appears later was written by a node of a newer release, and this node must not
 * undo that.
 */
export async function openUpgrades(options: UpgradesOptions): Promise<Upgrades> {
  const { control, cluster, provisioner, log } = options
  const version = cluster.projectVersion
  const outdated = new Map<string, Outdated>()
  for (const { id, ref } of await listOutdated(control, version)) outdated.set(ref, outdatedProject(id, ref))
  const total = outdated.size
  const called: Outdated[] = []
  /** Projects without requests, in order. Entries that were requested or deleted meanwhile are skipped. */
  let uncalled: Outdated[] = []
  const running = new Set<Promise<void>>()
  const closing = new AbortController()
  /** Undefined until the start. */
  let steps: UpgradeSteps | undefined
  let holds = 0

  function next(): Outdated | undefined {
    const isWaiting = (project: Outdated | undefined) =>
      project?.state === 'queued' && outdated.get(project.ref) === project
    while (called.length > 0) {
      const project = called.shift()
      if (isWaiting(project)) return project
    }
    if (running.size >= maxConcurrent.uncalled) return
    while (uncalled.length > 0) {
      const project = uncalled.pop()
      if (isWaiting(project)) return project
    }
    return
  }

  function fill(): void {
    while (steps && holds === 0 && !closing.signal.aborted && running.size < maxConcurrent.all) {
      const project = next()
      if (!project) return
      const run = upgrade(project, steps).finally(() => {
        running.delete(run)
        fill()
      })
      running.add(run)
    }
  }

  async function upgrade(project: Outdated, around: UpgradeSteps | undefined): Promise<void> {
    project.state = 'running'
    try {
      const work = () => bringUpToDate(project, around)
      await whileUpgrading(cluster, project.id, closing.signal, work, {
        isInBackground: around !== undefined,
      })
      remove(project)
      await around?.after(project.id, undefined)
    } catch (error) {
      retryLaterOn(project, error)
      if (!closing.signal.aborted) await around?.after(project.id, project.recorded)
    }
    const { attempt } = project
    project.attempt = Promise.withResolvers()
    attempt.resolve()
  }

  async function bringUpToDate(project: Outdated, around: UpgradeSteps | undefined): Promise<void> {
    const { id, ref } = project
    const found = await findProject(control, id)
    if (found?.status === 'creating') throw new Error('another node is creating the project')
    // Deleted meanwhile, or upgraded by another node.
    if (!found || found.schema_version === version) return
    if (around && !project.isBackedUp) await around.before(id, closing.signal)
    project.isBackedUp = true
    await provisioner.upgrade({ id, ref }, closing.signal)
    await setVersion(control, id, version)
  }

  function remove(project: Outdated): void {
    clearTimeout(project.retry)
    if (!outdated.delete(project.ref) || outdated.size > 0) return
    log.info({ projects: total }, 'all project databases are up to date')
  }

  function retryLaterOn(project: Outdated, error: unknown): void {
    const { id } = project
    const delayMs = Math.min(retryMs.longest, retryMs.first * 2 ** project.failures++)
    project.state = 'failed'
    project.isCalled = false
    project.reason = reasonOf(error)
    project.recorded = recordedReason(error)
    project.retryAt = performance.now() + delayMs
    if (closing.signal.aborted) return
    log.error(
      { err: error, project: id, reason: project.recorded, retryInMs: delayMs },
      'a project database could not be upgraded',
    )
    project.retry = setTimeout(retryNow, delayMs, project).unref()
  }

  function retryNow(project: Outdated): void {
    clearTimeout(project.retry)
    project.state = 'queued'
    uncalled.unshift(project)
    fill()
  }

  function bringForward(project: Outdated): void {
    if (project.isCalled || project.state === 'running') return
    project.isCalled = true
    called.push(project)
    fill()
  }

  async function wait(project: Outdated, audience: 'caller' | 'owner'): Promise<void> {
    if (project.state === 'failed') throw failed(project, audience)
    const { promise } = project.attempt
    bringForward(project)
    if (await isLate(promise))
      throw retryLater('project_upgrading', 'The database of this project is being upgraded; try again', 2)
    if (outdated.get(project.ref) === project) throw failed(project, audience)
  }

  return {
    whenUpgraded(ref, audience) {
      if (outdated.size === 0) return
      const project = outdated.get(ref)
      return project && wait(project, audience)
    },

    start(given) {
      steps = given
      // `pop` takes from the end, so the oldest project comes first.
      uncalled = [...outdated.values()].reverse()
      if (total > 0) log.info({ projects: total }, 'upgrading project databases')
      fill()
    },

    async hold(work) {
      holds++
      try {
        await Promise.all(running)
        return await work()
      } finally {
        holds--
        fill()
      }
    },

    async upgradeNow({ id, ref }) {
      const project = outdated.get(ref) ?? outdatedProject(id, ref)
      outdated.set(ref, project)
      clearTimeout(project.retry)
      project.isBackedUp = true
      await upgrade(project, undefined)
      return outdated.get(project.ref) === project ? project.recorded : undefined
    },

    recheck(id) {
      for (const project of outdated.values())
        if (project.id === id && project.state === 'failed') retryNow(project)
    },

    warnings: () => warningsOf([...outdated.values()]),

    async close() {
      closing.abort()
      for (const project of outdated.values()) clearTimeout(project.retry)
      await Promise.all(running)
    },
  }
}

async function isLate(promise: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout
  const late = new Promise<boolean>(resolve => {
    timer = setTimeout(resolve, waitMs, true)
  })
  return Promise.race([promise.then(() => false), late]).finally(() => clearTimeout(timer))
}

const databasesOf = (projects: number) =>
  projects === 1 ? 'The database of 1 project' : `The databases of ${projects} projects`

function warningsOf(outdated: readonly Outdated[]): string[] {
  const failures = outdated.filter(({ failures }) => failures > 0)
  const pending = outdated.length - failures.length
  const names = failures.slice(0, namedInWarning).map(({ id }) => id)
  if (failures.length > names.length) names.push('…')
  return [
    ...(pending > 0
      ? [`${databasesOf(pending)} ${pending === 1 ? 'is' : 'are'} waiting to be upgraded.`]
      : []),
    ...(failures.length > 0
      ? [
          `${databasesOf(failures.length)} could not be upgraded; npx plinth upgrade has the reasons: ${names.join(', ')}`,
        ]
      : []),
  ]
}

const outdatedProject = (id: string, ref: string): Outdated => ({
  id,
  ref,
  state: 'queued',
  isCalled: false,
  attempt: Promise.withResolvers(),
  failures: 0,
  isBackedUp: false,
  reason: '',
  recorded: '',
  retryAt: 0,
})

/** Of nodes that start at once, one makes the backup and upgrades the project. */
export const whileUpgrading = <T>(
  { address, control }: Cluster,
  projectId: string,
  signal: AbortSignal,
  work: () => Promise<T>,
  { isInBackground = false } = {},
): Promise<T> =>
  withClient(
    address,
    control,
    lockSettings,
    async session => {
      if (isInBackground) await session.run(sql`select pg_advisory_lock_shared(${backgroundLock})`)
      await session.run(sql`select pg_advisory_lock(hashtextextended(${`plinth: upgrade ${projectId}`}, 0))`)
      return work()
    },
    { signal },
  )

const backgroundLock = sql`hashtext('plinth: upgrades in the background')`

/** Waits until no node upgrades a project in the background. None does until the session ends. */
export const lockBackground = (session: Session) =>
  session.run(sql`select pg_advisory_lock(${backgroundLock})`)

function failed({ reason, retryAt }: Outdated, audience: 'caller' | 'owner'): Refusal {
  const seconds = Math.max(1, Math.ceil((retryAt - performance.now()) / 1000))
  const why = audience === 'owner' ? `: ${reason}` : ''
  return new Refusal(
    'project_upgrade_failed',
    `The database of this project could not be upgraded to this release of the platform${why}`,
    {
      hint: 'The platform tries again by itself; the reason is in its log.',
      headers: { 'retry-after': String(seconds) },
    },
  )
}

/** Errors of the server itself may contain paths and settings of the machine, so only the log gets them. */
function reasonOf(error: unknown): string {
  const isOfStatement = error instanceof DatabaseError && !/^(53|58|XX)/.test(error.code)
  const isForOwner = isOfStatement || error instanceof Refusal || error instanceof SnapshotFailed
  return isForOwner ? error.message : 'the platform’s log has the reason'
}

/** Messages of class 22 contain row values, which must be neither logged nor recorded. */
function recordedReason(error: unknown): string {
  const code = sqlState(error instanceof SnapshotFailed ? error.cause : error)
  if (code?.startsWith('22')) return `a value in the database is not valid (SQLSTATE ${code})`
  return error instanceof Error ? error.message : String(error)
}

/** A project that another node is still creating may come from the template of the older release. */
const listOutdated = (control: Database, version: string) =>
  control.rows<{ id: string; ref: string }>(sql`
    select id, ref from projects
     where status in ('creating', 'active', 'suspended') and schema_version <> ${version} order by created_at`)

const findProject = (control: Database, id: string) =>
  control.row<{ status: 'creating' | 'active' | 'suspended'; schema_version: string }>(sql`
    select status, schema_version from projects
     where id = ${id} and status in ('creating', 'active', 'suspended')`)

const setVersion = (control: Database, id: string, version: string) =>
  control.run(sql`
    update projects set schema_version = ${version} where id = ${id} and status in ('active', 'suspended')`)
