// Upgrades project databases after a release with new migrations. The platform listens first and upgrades a few projects at
// a time in the background. A request to a project moves it to the front of the queue and waits for its upgrade. A failed
// upgrade is retried with back-off and does not delay the others.
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { DatabaseError, sqlState } from '#src/kernel/postgres/database-error.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Provisioner } from './provision.ts'

/**
 * Undefined when the project's database is current, which is decided from memory. Otherwise resolves once it is
 * upgraded, or rejects with a 503. Only the project's owners and servers get the reason of a failure.
 */
export type WhenUpgraded = (ref: string, audience: 'caller' | 'owner') => Promise<void> | undefined

export interface Upgrades {
  whenUpgraded: WhenUpgraded
  /** Starts the upgrades in the background. */
  start(): void
  /** To be called when a project may have been deleted. */
  recheck(id: string): void
  /** Warnings for the operator, as sentences. */
  warnings(): readonly string[]
  close(): Promise<void>
}

interface UpgradesOptions {
  control: Database
  provisioner: Pick<Provisioner, 'upgrade'>
  /** The version every project should have. */
  version: string
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
  reason: string
  retryAt: number
  retry?: NodeJS.Timeout
}

/** Concurrent upgrades on this node, one connection each. One slot is reserved for projects with waiting requests. */
const maxConcurrent = { all: 4, uncalled: 3 }
/** Maximum time that a request waits for the upgrade of its project. */
const waitMs = 5000
const retryMs = { first: 1000, longest: 300_000 }
const namedInWarning = 5

/**
 * The list is read once. A version that appears later was written by a node of a newer release, and this node must not
 * undo that.
 */
export async function openUpgrades(options: UpgradesOptions): Promise<Upgrades> {
  const { control, provisioner, version, log } = options
  const outdated = new Map<string, Outdated>()
  for (const { id, ref } of await listOutdated(control, version))
    outdated.set(ref, {
      id,
      ref,
      state: 'queued',
      isCalled: false,
      attempt: Promise.withResolvers(),
      failures: 0,
      reason: '',
      retryAt: 0,
    })
  const total = outdated.size
  const called: Outdated[] = []
  /** Projects without requests, in order. Entries that were requested or deleted meanwhile are skipped. */
  let uncalled: Outdated[] = []
  const running = new Set<Promise<void>>()
  const closing = new AbortController()

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
    while (!closing.signal.aborted && running.size < maxConcurrent.all) {
      const project = next()
      if (!project) return
      project.state = 'running'
      const run = upgrade(project).finally(() => {
        running.delete(run)
        fill()
      })
      running.add(run)
    }
  }

  async function upgrade(project: Outdated): Promise<void> {
    try {
      await bringUpToDate(project)
      remove(project)
    } catch (error) {
      retryLaterOn(project, error)
    }
    const { attempt } = project
    project.attempt = Promise.withResolvers()
    attempt.resolve()
  }

  async function bringUpToDate({ id, ref }: Outdated): Promise<void> {
    const found = await findProject(control, id)
    if (found?.status === 'creating') throw new Error('another node is creating the project')
    // Deleted meanwhile, or upgraded by another node.
    if (!found || found.schema_version === version) return
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
    project.retryAt = performance.now() + delayMs
    if (closing.signal.aborted) return
    log.error(
      { err: error, project: id, reason: loggedReason(error), retryInMs: delayMs },
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
    let timer: NodeJS.Timeout
    const late = new Promise<boolean>(resolve => {
      timer = setTimeout(resolve, waitMs, true)
    })
    const isLate = await Promise.race([promise.then(() => false), late]).finally(() => clearTimeout(timer))
    if (isLate)
      throw retryLater('project_upgrading', 'The database of this project is being upgraded; try again', 2)
    if (outdated.get(project.ref) === project) throw failed(project, audience)
  }

  return {
    whenUpgraded(ref, audience) {
      if (outdated.size === 0) return
      const project = outdated.get(ref)
      return project && wait(project, audience)
    },

    start() {
      // `pop` takes from the end, so the oldest project comes first.
      uncalled = [...outdated.values()].reverse()
      if (total > 0) log.info({ projects: total }, 'upgrading project databases')
      fill()
    },

    recheck(id) {
      for (const project of outdated.values())
        if (project.id === id && project.state === 'failed') retryNow(project)
    },

    warnings() {
      const failures = [...outdated.values()].filter(({ failures }) => failures > 0)
      const pending = outdated.size - failures.length
      const names = failures.slice(0, namedInWarning).map(({ id }) => id)
      if (failures.length > names.length) names.push('…')
      return [
        ...(pending > 0 ? [`The databases of ${pending} projects are waiting to be upgraded.`] : []),
        ...(failures.length > 0
          ? [
              `The databases of ${failures.length} projects could not be upgraded; the log has the reasons: ${names.join(', ')}`,
            ]
          : []),
      ]
    },

    async close() {
      closing.abort()
      for (const project of outdated.values()) clearTimeout(project.retry)
      await Promise.all(running)
    },
  }
}

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
  return isOfStatement || error instanceof Refusal ? error.message : 'the platform’s log has the reason'
}

/** Messages of class 22 contain row values, which must not be logged. */
function loggedReason(error: unknown): string | undefined {
  return error instanceof Error && !sqlState(error)?.startsWith('22') ? error.message : undefined
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
