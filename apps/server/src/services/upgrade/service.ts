// Plans and executes upgrades on request, and records those that the start of a new release begins.

import type { UpgradeAnswer, UpgradeManifest, UpgradeProgress } from '@plinth/contract/upgrade.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { withClient } from '#src/kernel/postgres/database.ts'
import { version } from '#src/kernel/version.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'
import { noteRestorePoint } from '#src/tenancy/restore-points.ts'
import { lockBackground, type UpgradeSteps } from '#src/tenancy/upgrades.ts'
import { currentImages, whyNewer } from './control-migration.ts'
import { readPlan } from './plan.ts'
import { withoutReasons } from './record.ts'
import { type Executed, executeUpgrade, type UpgradeStage } from './runner.ts'
import * as store from './store.ts'
import { checkTarget } from './target.ts'

export type UpgradeService = ReturnType<typeof upgradeService>

export interface Outcome {
  status: 200 | 500
  body: UpgradeAnswer & { error?: { code: string; message: string } }
}

/** `whenDone` runs after a successful execution, before its answer. */
export function upgradeService(stage: UpgradeStage, whenDone: () => Promise<void> = async () => {}) {
  const { control, cluster, controlBackups, log } = stage
  const closing = new AbortController()
  let progress: UpgradeProgress | null = null
  let running: Promise<Executed> | undefined

  /**
   * On no node a project is upgraded in the background meanwhile, so the plan stays true. The session of a killed node
   * ends, and so do its locks.
   */
  const whileAlone = (work: () => Promise<Executed>): Promise<Executed> =>
    withClient(
      cluster.address,
      cluster.control,
      controlSettings,
      async session => {
        if (!(await store.tryLockRun(session))) throw busy()
        progress = { step: 'waiting', project_id: null, done: 0, total: 0, bytes: 0 }
        return stage.hold(async () => {
          await lockBackground(session)
          return work()
        })
      },
      { signal: closing.signal },
    )

  async function checkRelease(target: string | undefined): Promise<void> {
    checkTarget(target, version)
    const why = await whyNewer(control, cluster)
    if (why !== undefined)
      throw new Refusal('invalid_target', `There is no upgrade to an older release. ${why}`)
  }

  /** Returns why the platform does not serve after the upgrade, if it does not. */
  async function execute(
    onEnd: (manifest: UpgradeManifest) => Promise<void>,
  ): Promise<Executed & { unserved?: string }> {
    if (running) throw busy()
    running = whileAlone(() =>
      executeUpgrade(stage, closing.signal, now => {
        progress = now
      }),
    )
    try {
      const executed = await running
      await onEnd(executed.manifest)
      if (executed.problem !== undefined) return executed
      return await whenDone().then(
        () => executed,
        error => {
          log.error({ err: error }, 'the databases are upgraded, but the platform could not begin to serve')
          return { ...executed, unserved: (error as Error).message }
        },
      )
    } finally {
      running = undefined
      progress = null
    }
  }

  async function recordStart(): Promise<void> {
    const startedAt = await store.readClock(control)
    const projects = await store.listOutdated(control, cluster.projectVersion)
    const release = { version, images: await currentImages(control) }
    const id = await control.transaction(async session => {
      await store.lockUpgrades(session)
      // That of another node, of this one before it was killed, or one in which projects failed.
      const unfinished = await store.findUnfinished(session, version)
      const id = unfinished ?? (projects.length > 0 ? orderedUuid() : undefined)
      if (id !== undefined && projects.length > 0) {
        if (!unfinished) {
          await noteRestorePoint(session, 'upgrade', null)
          const prior = await store.findRelease(session)
          await store.insertUpgrade(session, { id, version, prior, controlBackupId: undefined, startedAt })
          await store.insertAudit(session, id)
        }
        const ids = projects.map(project => project.id)
        await store.insertProjects(session, id, ids)
        // One in which all other projects failed has ended, although they are retried.
        if ((await store.findOutcome(session, id)) === 'running')
          await store.continueUpgrade(session, id, undefined)
      }
      await store.saveRelease(session, release)
      return id
    })
    if (id !== undefined) await finishIfEnded(id)
  }

  async function recordEnd(projectId: string, reason: string | undefined): Promise<void> {
    const id = await store.findLast(control)
    if (!id) return
    await store.recordProject(control, id, projectId, reason)
    await finishIfEnded(id)
  }

  async function finishIfEnded(id: string): Promise<void> {
    // A crash after the upgrade of a project can lose the record of it.
    await store.recordUpgraded(control, id, cluster.projectVersion)
    const outcome = await store.findOutcome(control, id)
    if (outcome === 'running' || !(await store.finishUpgrade(control, id, outcome))) return
    await controlBackups.writeRecord(id, withoutReasons((await store.findManifest(control, id))!))
  }

  return {
    async plan(target: string | undefined): Promise<UpgradeAnswer> {
      await checkRelease(target)
      return { executed: false, plan: (await readPlan(control, cluster)).plan, manifest: null }
    },

    /**
     * Goes on to its end if the client disconnects. `onEnd` runs before the answer. The manifest has no id if nothing was
     * pending.
     */
    async execute(
      target: string | undefined,
      onEnd: (manifest: UpgradeManifest) => Promise<void>,
    ): Promise<Outcome> {
      await checkRelease(target)
      const { plan, manifest, problem, unserved } = await execute(onEnd)
      const body = { executed: true, plan, manifest }
      const count = manifest.failed.length + manifest.pending.length
      const messages = [
        problem !== undefined && `The upgrade ended early: ${problem}`,
        problem === undefined &&
          count > 0 &&
          `${count} of ${count + manifest.done.length} projects were not upgraded`,
        problem === undefined &&
          count === 0 &&
          manifest.status === 'failed' &&
          'Every project is upgraded, but that could not be recorded; the next start of the platform does it',
        unserved !== undefined &&
          `The databases are upgraded, but the platform could not begin to serve: ${unserved}`,
      ].filter(message => message !== false)
      if (messages.length === 0) return { status: 200, body }
      return { status: 500, body: { ...body, error: incomplete(messages.join('. ')) } }
    },

    isRunning: () => running !== undefined,

    read: async () => ({ manifest: (await store.findManifest(control)) ?? null, progress }),

    /** Records the upgrade that a start begins, if something is outdated. Returns what happens around that of a project. */
    async begin(
      takeSnapshot: (projectId: string, signal: AbortSignal) => Promise<string>,
    ): Promise<UpgradeSteps> {
      await recordStart()
      return {
        async before(projectId, signal) {
          const id = await store.findLast(control)
          // The way back is the state before the first attempt.
          if (id && (await store.findSnapshots(control, id)).has(projectId)) return
          const backupId = await takeSnapshot(projectId, signal)
          if (id) await store.recordSnapshot(control, id, projectId, backupId)
        },
        async after(projectId, reason) {
          await recordEnd(projectId, reason).catch(error =>
            log.error({ err: error, project: projectId }, 'could not record an upgrade'),
          )
        },
      }
    },

    async close(): Promise<void> {
      closing.abort(new Error('the platform stops'))
      await running?.catch(() => {})
    },
  }
}

const busy = () =>
  new Refusal('upgrade_running', 'An upgrade is being executed; GET /admin/platform/upgrade has its progress')

const incomplete = (message: string) => ({ code: 'upgrade_incomplete', message })
