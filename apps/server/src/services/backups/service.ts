import type { Backup, BackupKind, BackupSettings, Restore } from '@plinth/contract/backups.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import * as restores from './restores-store.ts'
import * as store from './store.ts'

interface BackupsDeps {
  control: Database
  owner: Pick<OwnerWork, 'tenant'>
  wake(): void
  /** Begins a new task of the project, to which a verification gives way. */
  start(projectId: string): void
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

export function backupsService({ control, owner, wake, start }: BackupsDeps) {
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
    async list(projectId: string, paging: Paging) {
      const { id } = await owner.tenant(projectId)
      return { ...(await store.listBackups(control, id, paging)), ...paging }
    },
    create: async (projectId: string): Promise<Backup> => begin((await owner.tenant(projectId)).id, 'manual'),
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
    async restores(projectId: string, paging: Paging) {
      const { id } = await owner.tenant(projectId)
      return { ...(await restores.listRestores(control, id, paging)), ...paging }
    },
    async restore(projectId: string, backupId: string): Promise<{ restore: Restore }> {
      const { id } = await owner.tenant(projectId)
      const backup = await find(id, backupId)
      if (backup.status !== 'done') throw unusable(backup)
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
    async undo(projectId: string, restoreId: string): Promise<{ restore: Restore }> {
      const { id } = await owner.tenant(projectId)
      const restore = (await restores.findRestore(control, id, restoreId)) ?? throwNoRestore()
      if (restore.status !== 'done' || restore.undo_until === null)
        throw new Refusal('restore_not_undoable', 'Only the last restore can be undone, within 24 hours', {
          hint: `Restore the backup ${restore.before_backup_id}, which was made before.`,
        })
      const task = {
        id: orderedUuid(),
        projectId: id,
        kind: 'undo' as const,
        backupId: restore.before_backup_id,
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
  }
}

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
