// Executes an upgrade: backups of everything, then migrations. Until all backups are made, nothing is changed. An upgrade
// that did not complete is continued, with the prior release and the backups of before its first change.
import type { UpgradeManifest, UpgradePlan, UpgradeProgress } from '@plinth/contract/upgrade.ts'
import type { ControlBackups } from '#src/archive/control-backup.ts'
import type { Watching } from '#src/archive/write-database.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { version } from '#src/kernel/version.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import { noteRestorePoint } from '#src/tenancy/restore-points.ts'
import { SnapshotFailed, type Upgrades, whileUpgrading } from '#src/tenancy/upgrades.ts'
import { isPending, type Pending, readPlan } from './plan.ts'
import { withoutReasons } from './record.ts'
import * as store from './store.ts'

/** How backups are made and the control database is migrated depends on whether the platform serves already. */
export interface UpgradeStage {
  control: Database
  cluster: Cluster
  controlBackups: ControlBackups
  dataDir: string
  /** Upgrades no project in the background while the work runs. */
  hold<T>(work: () => Promise<T>): Promise<T>
  /** Passes what backs up a project. Without a backup of the control database, that of before the upgrade exists already. */
  takeSnapshots(
    controlBackupId: string | undefined,
    work: (take: (projectId: string) => Promise<string>) => Promise<void>,
    watching: Watching,
  ): Promise<void>
  /** Removes what `takeSnapshots` has made for an upgrade that has changed nothing. */
  discard(): Promise<void>
  /** Migrates the control database, records that in the same transaction, and passes what upgrades projects. */
  migrate<T>(
    record: (session: Session) => Promise<void>,
    work: (upgrades: Upgrades) => Promise<T>,
  ): Promise<T>
  log: Log
}

export interface Executed {
  plan: UpgradePlan
  manifest: UpgradeManifest
  /** Why the upgrade ended before the last project. */
  problem?: string
}

export type Report = (progress: UpgradeProgress) => void

export async function executeUpgrade(
  stage: UpgradeStage,
  signal: AbortSignal,
  report: Report,
): Promise<Executed> {
  const { control, cluster, controlBackups, log } = stage
  const startedAt = await store.readClock(control)
  const pending = await readPlan(control, cluster)
  const { plan, projects, unsaved } = pending
  const prior = await store.findRelease(control)
  if (!isPending(plan)) return { plan, manifest: newManifest(pending, prior, startedAt) }
  const outdated = projects.filter(project => project.is_outdated)
  let progress: UpgradeProgress = {
    step: 'control backup',
    project_id: null,
    done: 0,
    total: projects.length,
    bytes: 0,
  }
  const show = (change: Partial<UpgradeProgress>) => {
    progress = { ...progress, ...change }
    report(progress)
  }
  const watching: Watching = {
    signal,
    progress: (_, bytes) => show({ bytes: progress.bytes + bytes }),
  }
  show({})
  const manifest = beginManifest(pending, prior, startedAt)
  const isContinued = pending.continued !== undefined
  const id = manifest.id!
  let made: string | undefined

  async function discard(): Promise<void> {
    const removals = [
      () => stage.discard(),
      async () => made && (await controlBackups.remove(made)),
      async () => !isContinued && (await controlBackups.removeRecord(id)),
    ]
    for (const remove of removals)
      await remove().catch(error =>
        log.warn({ err: error }, 'could not remove what an upgrade has made that changed nothing'),
      )
  }

  try {
    if (manifest.control_backup_id === null) {
      const source = { address: cluster.address, database: cluster.control, dataDir: stage.dataDir }
      const needed = await store.listNeededBackups(control)
      made = (
        await controlBackups
          .make(source, needed, watching)
          .catch(error => throwUnchanged('The control database could not be backed up', error))
      ).id
      manifest.control_backup_id = made
    }
    show({ total: unsaved.length })
    await stage.takeSnapshots(
      made,
      async take => {
        for (const project of unsaved) {
          show({ step: 'backup', project_id: project.id, bytes: 0 })
          const backupId = await takeOne(stage, project, signal, take).catch(error =>
            throwUnchanged(`The project ${project.id} could not be backed up`, error),
          )
          if (backupId !== undefined) manifest.snapshots[project.id] = backupId
          show({ done: progress.done + 1 })
        }
      },
      watching,
    )
    await controlBackups
      .writeRecord(id, withoutReasons(manifest))
      .catch(error => throwUnchanged('The record could not be stored beside the backups', error))
    signal.throwIfAborted()
  } catch (error) {
    await discard()
    if (error instanceof Refusal && error.code === 'upgrade_snapshot_failed') throw error
    throwUnchanged('The backups could not be made', error)
  }
  show({ step: 'migration', project_id: null, done: 0, total: outdated.length, bytes: 0 })
  try {
    await stage.migrate(
      session => record(session, cluster, pending, prior, manifest),
      async upgrades => {
        for (const project of outdated) {
          const { id: projectId } = project
          signal.throwIfAborted()
          show({ project_id: projectId })
          const reason = await upgrades.upgradeNow(project)
          noteProject(manifest, projectId, reason)
          await store.recordProject(control, id, projectId, reason)
          show({ done: progress.done + 1 })
        }
      },
    )
  } catch (error) {
    log.error({ err: error, upgrade: id }, 'the upgrade ended early')
    const isUnrecorded = await store.findManifest(control, id).then(
      found => found === undefined,
      () => false,
    )
    if (isUnrecorded) {
      await discard()
      throwUnchanged('The control database could not be migrated', error)
    }
    return { plan, manifest: await finish(stage, manifest, 'failed'), problem: messageOf(error) }
  }
  return { plan, manifest: await finish(stage, manifest) }
}

function beginManifest(
  pending: Pending,
  prior: store.Release | undefined,
  startedAt: string,
): UpgradeManifest {
  const { continued, projects } = pending
  const outdated = projects.filter(project => project.is_outdated).map(({ id }) => id)
  const manifest = continued
    ? { ...continued, done: continued.done.filter(id => !outdated.includes(id)) }
    : { ...newManifest(pending, prior, startedAt), id: orderedUuid() }
  return { ...manifest, status: 'running', finished_at: null, failed: [], pending: outdated }
}

/** Another node may have upgraded the project since the plan was read. Its backup is the one of before that. */
const takeOne = (
  { control, cluster }: UpgradeStage,
  { id, is_outdated }: store.ServedProject,
  signal: AbortSignal,
  take: (projectId: string) => Promise<string>,
): Promise<string | undefined> =>
  whileUpgrading(cluster, id, signal, async () => {
    const found = await store.findSchemaVersion(control, id)
    if (found === undefined) return
    if (is_outdated && found === cluster.projectVersion)
      return store.findSnapshotBefore(control, id, cluster.projectVersion)
    return take(id)
  })

async function record(
  session: Session,
  cluster: Cluster,
  { plan, projects, continued }: Pending,
  prior: store.Release | undefined,
  manifest: UpgradeManifest,
): Promise<void> {
  const id = manifest.id!
  const controlBackupId = manifest.control_backup_id!
  await store.lockUpgrades(session)
  if (continued) await store.continueUpgrade(session, id, controlBackupId)
  else {
    await noteRestorePoint(session, 'upgrade', null)
    const startedAt = manifest.started_at
    await store.insertUpgrade(session, { id, version, prior, controlBackupId, startedAt })
  }
  const ids = projects.map(project => project.id)
  await store.insertProjects(session, id, continued ? manifest.pending : ids)
  await store.resetFailed(session, id)
  await store.recordUpgraded(session, id, cluster.projectVersion)
  for (const [projectId, backupId] of Object.entries(manifest.snapshots))
    await store.recordSnapshot(session, id, projectId, backupId)
  await store.saveRelease(session, { version, images: plan.images })
}

function noteProject(manifest: UpgradeManifest, projectId: string, reason: string | undefined): void {
  manifest.pending = manifest.pending.filter(id => id !== projectId)
  if (reason === undefined) manifest.done.push(projectId)
  else manifest.failed.push({ project_id: projectId, error: reason })
}

async function finish(
  { control, controlBackups, log }: UpgradeStage,
  known: UpgradeManifest,
  status?: 'failed',
): Promise<UpgradeManifest> {
  const id = known.id!
  const logFailure = (error: unknown) =>
    log.error({ err: error, upgrade: id }, 'could not store the record of the upgrade')
  const manifest = await readEnd(control, id, status).catch((error): UpgradeManifest => {
    // The record stays unfinished, so the next start or execution continues it.
    logFailure(error)
    return { ...known, status: 'failed', finished_at: new Date().toISOString() }
  })
  await controlBackups.writeRecord(id, withoutReasons(manifest)).catch(logFailure)
  return manifest
}

async function readEnd(control: Database, id: string, status?: 'failed'): Promise<UpgradeManifest> {
  const ended = status ?? ((await store.findOutcome(control, id)) === 'done' ? 'done' : 'failed')
  await store.finishUpgrade(control, id, ended)
  return (await store.findManifest(control, id))!
}

/** That of an execution with nothing to do, or as it begins. */
function newManifest(
  { plan, current }: Pending,
  prior: store.Release | undefined,
  startedAt: string,
): UpgradeManifest {
  return {
    id: null,
    status: 'done',
    started_at: startedAt,
    finished_at: startedAt,
    version: plan.target_version,
    prior_version: prior?.version ?? null,
    prior_images: prior?.images ?? null,
    snapshots: {},
    snapshot_bytes: {},
    control_backup_id: null,
    done: [...current],
    failed: [],
    pending: [],
  }
}

function throwUnchanged(what: string, error: unknown): never {
  const reason = error instanceof SnapshotFailed ? error.reason : messageOf(error)
  throw new Refusal('upgrade_snapshot_failed', `${what}, so nothing was changed: ${reason}`, { cause: error })
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
