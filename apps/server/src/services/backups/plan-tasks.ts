// Tasks for backups and verifications that are due.
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { quotaRefusal } from './quota.ts'
import { usualSettings } from './service.ts'
import * as store from './store.ts'

/** Returns projects whose backup begins. A verification of the project gives way to it. */
export const planTasks = (control: Database, limit: number): Promise<string[]> =>
  control.transaction(async session => {
    const begun: string[] = []
    for (const { project_id: projectId } of await store.takeDue(session, limit)) {
      const backupId = orderedUuid()
      await store.insertBackup(session, backupId, projectId, 'scheduled')
      const refusal = await quotaRefusal(session, projectId)
      if (refusal) {
        await store.recordFailed(session, backupId, refusal.message)
        const target = { backup_id: backupId, project_id: projectId }
        await store.insertAudit(session, 'backups.failed', target, refusal.message)
        continue
      }
      const task = { id: orderedUuid(), projectId, kind: 'backup' as const, backupId }
      if (await store.insertTask(session, task)) begun.push(projectId)
      // Another task of the project has begun meanwhile.
      else await store.deleteNewBackup(session, backupId)
    }
    const { verify_interval_minutes: usualMinutes } = usualSettings
    const unverified = await store.listDueVerifications(session, limit, usualMinutes)
    for (const { project_id: projectId, backup_id: backupId } of unverified)
      await store.insertTask(session, { id: orderedUuid(), projectId, kind: 'verification', backupId })
    return begun
  })
