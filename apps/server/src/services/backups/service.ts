import type {
  Backup,
  BackupKind,
  BackupSettings,
  MadeProject,
  NewProject,
  Restore,
} from '@plinth/contract/backups.ts'
import type { ArchiveReader } from '#src/archive/archive.ts'
import type { Watching } from '#src/archive/write-database.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { type Actor, isOperator, ownerIdOf } from '#src/planes/management/actor.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Lifecycle } from '#src/tenancy/lifecycle.ts'
import { insertNewProject } from '#src/tenancy/new-project.ts'
import { quotaRefusal } from './quota.ts'
import { type Replacement, type RestoreDeps, replaceProject } from './restore-backup.ts'
import * as restores from './restores-store.ts'
import { checkSpaceFor, type DiskSpace } from './space.ts'
import * as store from './store.ts'
import { countMissing } from './stored-files.ts'

interface BackupsDeps extends DiskSpace {
  control: Database
  owner: Pick<OwnerWork, 'tenant'>
  sealer: Sealer
  lifecycle: Pick<Lifecycle, 'begin'>
  baseUrl(): string
  wake(): void
  /** Begins a new task of the project, to which a verification gives way. */
  start(projectId: string): void
  snapshotBeforeUpgrade(projectId: string, watching: Watching): Promise<Backup>
  restoring: Omit<RestoreDeps, 'whileOurs' | 'hold'>
}

export type BackupsService = ReturnType<typeof backupsService>

export const usualSettings: BackupSettings = {
  enabled: false,
  interval_minutes: 1440,
  retain_days: null,
  retain_count: null,
  verify_enabled: true,
  verify_interval_minutes: 10_080,
}

export function backupsService(deps: BackupsDeps) {
  const { control, owner, wake, start, restoring } = deps
  /** The backups of a deleted project are those of the operator. */
  const isDeleted = async (actor: Actor, id: string): Promise<boolean> =>
    isOperator(actor) && (await store.hasBackups(control, id))

  async function known(actor: Actor, projectId: string): Promise<string> {
    const id = projectId.toLowerCase()
    return (await isDeleted(actor, id)) ? id : (await owner.tenant(id)).id
  }

  async function find(projectId: string, backupId: string): Promise<Backup> {
    return (await store.findBackup(control, projectId, backupId)) ?? throwNotFound()
  }

  async function begin(projectId: string, kind: BackupKind): Promise<Backup> {
    const backupId = orderedUuid()
    await control.transaction(async session => {
      await store.insertBackup(session, backupId, projectId, kind)
      if (!(await store.insertTask(session, { id: orderedUuid(), projectId, kind: 'backup', backupId })))
        throw busy()
    })
    start(projectId)
    return find(projectId, backupId)
  }

  return {
    /** Makes a backup now, and waits for it. Throws SnapshotFailed. */
    snapshotBeforeUpgrade: deps.snapshotBeforeUpgrade,
    async list(actor: Actor, projectId: string, paging: Paging) {
      const id = await known(actor, projectId)
      return { ...(await store.listBackups(control, id, paging)), ...paging }
    },
    async listDeleted(paging: Paging) {
      return { ...(await store.listDeletedProjects(control, paging, usualDays)), ...paging }
    },
    async create(projectId: string): Promise<Backup> {
      const { id } = await owner.tenant(projectId)
      const refusal = await quotaRefusal(control, id)
      if (refusal) throw refusal
      return begin(id, 'manual')
    },
    async settings(projectId: string): Promise<BackupSettings> {
      const { id } = await owner.tenant(projectId)
      return (await store.findSettings(control, id)) ?? usualSettings
    },
    async configure(projectId: string, change: Partial<BackupSettings>): Promise<BackupSettings> {
      const { id } = await owner.tenant(projectId)
      const saved = await control.transaction(async session => {
        await store.lockProject(session, id)
        const before = (await store.findSettings(session, id)) ?? usualSettings
        return store.saveSettings(session, id, { ...before, ...change })
      })
      wake()
      return saved!
    },
    async restores(actor: Actor, projectId: string, paging: Paging) {
      const id = await known(actor, projectId)
      return { ...(await restores.listRestores(control, id, paging)), ...paging }
    },
    async restore(actor: Actor, projectId: string, backupId: string): Promise<{ restore: Restore }> {
      if (await isDeleted(actor, projectId.toLowerCase()))
        throw new Refusal('project_not_found', 'The project is deleted: restore its backup as a new project')
      const { id, ref } = await owner.tenant(projectId)
      const backup = await find(id, backupId)
      if (backup.status !== 'done') throw unusable(backup)
      await checkSpaceFor(deps, backup, ref)
      const [restoreId, beforeId] = [orderedUuid(), orderedUuid()]
      await control.transaction(async session => {
        await store.insertBackup(session, beforeId, id, 'before_restore')
        await restores.insertRestore(session, { id: restoreId, projectId: id, backupId, beforeId })
        const task = { id: orderedUuid(), projectId: id, kind: 'restore' as const, backupId, restoreId }
        if (!(await store.insertTask(session, task))) throw busy()
      })
      start(id)
      return { restore: (await restores.findRestore(control, id, restoreId)) ?? throwNoRestore() }
    },
    async restoreAsNew(
      actor: Actor,
      projectId: string,
      backupId: string,
      { name, slug }: NewProject,
    ): Promise<{ restore: Restore; project: MadeProject }> {
      if (!isOperator(actor))
        throw new Refusal('insufficient_scope', 'Creating a project needs admin scope on the platform')
      const id = await known(actor, projectId)
      const backup = await find(id, backupId)
      if (backup.status !== 'done') throw unusable(backup)
      await checkSpaceFor(deps, backup)
      const [newId, restoreId] = [crypto.randomUUID(), orderedUuid()]
      const plan = {
        id: newId,
        name: name.trim(),
        slug,
        description: '',
        settings: {},
        quotas: {},
        ownerId: ownerIdOf(actor),
      }
      const { row, keys } = await insertNewProject(deps.sealer, plan, row =>
        deps.lifecycle.begin(row, async session => {
          await restores.insertRestore(session, {
            id: restoreId,
            projectId: id,
            backupId,
            newProjectId: newId,
          })
          const task = {
            id: orderedUuid(),
            projectId: newId,
            kind: 'new_project' as const,
            backupId,
            restoreId,
          }
          if (!(await store.insertTask(session, task))) throwNotFound()
        }),
      )
      wake()
      const project: MadeProject = {
        id: newId,
        name: row.name,
        slug: row.slug,
        status: 'creating',
        api_url: `${deps.baseUrl()}/v1/${newId}`,
        ...keys,
      }
      return { restore: (await restores.findRestore(control, id, restoreId)) ?? throwNoRestore(), project }
    },
    async undo(projectId: string, restoreId: string): Promise<{ restore: Restore }> {
      const { id } = await owner.tenant(projectId)
      const restore = (await restores.findRestore(control, id, restoreId)) ?? throwNoRestore()
      // The chore that forgets states before restores comes once an hour.
      const isOver = restore.undo_until === null || Date.parse(restore.undo_until) <= Date.now()
      if (restore.status !== 'done' || isOver) throw notUndoable(restore)
      const task = {
        id: orderedUuid(),
        projectId: id,
        kind: 'undo' as const,
        backupId: restore.before_backup_id!,
        restoreId,
      }
      if (!(await store.insertTask(control, task))) throw busy()
      start(id)
      return { restore: (await restores.findRestore(control, id, restoreId)) ?? throwNoRestore() }
    },
    async verify(projectId: string, backupId: string): Promise<Backup> {
      const { id } = await owner.tenant(projectId)
      const backup = await find(id, backupId)
      if (backup.status !== 'done') throw unusable(backup)
      const task = { id: orderedUuid(), projectId: id, kind: 'verification' as const, backupId }
      if (!(await store.insertTask(control, task)) && !(await store.isBeingVerified(control, backupId)))
        throw busy()
      wake()
      return find(id, backupId)
    },
    /** For states of a project that come from elsewhere. It can be undone like a restore. */
    replace: (replacement: Replacement, watching: Watching) =>
      replaceProject(restoring, replacement, watching),
    /** Records that a replacement has failed. */
    giveUp: (restoreId: string, error: string) => restores.recordNotRestored(control, restoreId, error),
    /** Files that neither the project nor its backups have. */
    countMissing: (archive: ArchiveReader, signal: AbortSignal) => countMissing(restoring, archive, signal),
  }
}

function notUndoable({ status, before_backup_id: before }: Restore): Refusal {
  const last = `Only the last restore can be undone, within 24 hours; restore the backup ${before}, which was made before it`
  const once = status === 'undone' ? 'This restore was undone already' : last
  const asNew = 'This restore made a new project and changed no other; delete the new project instead'
  return new Refusal('restore_not_undoable', before === null ? asNew : once)
}

/** For which backups are kept without a setting. */
export const usualDays = 7

const unusable = ({ status }: Backup) =>
  new Refusal(
    'backup_unusable',
    `The backup is ${status === 'running' ? 'still being made' : 'not complete'}`,
  )

const busy = () =>
  new Refusal(
    'project_busy',
    'A backup of this project is being made, verified or restored; wait until it has ended',
  )

function throwNotFound(): never {
  throw new Refusal('backup_not_found', 'The project has no backup with this id')
}

function throwNoRestore(): never {
  throw new Refusal('restore_not_found', 'The project has no restore with this id')
}
