// Restores a backup as a new project, which has its own keys, roles and database. The project of the backup is not touched
// and may have been deleted. The new project is served once its database was compared with the archive.
import type { Restore } from '@plinth/contract/backups.ts'
import { finishRestored, readCatalogVersion, restoredSettings } from '#src/archive/database-store.ts'
import type { Watching } from '#src/archive/write-database.ts'
import { withClient } from '#src/kernel/postgres/database.ts'
import type { Lifecycle } from '#src/tenancy/lifecycle.ts'
import type { Provisioner } from '#src/tenancy/provision.ts'
import { openArchive, type RestoreDeps, restoreControl } from './restore-backup.ts'
import * as restores from './restores-store.ts'
import * as store from './store.ts'
import { putFilesBack } from './stored-files.ts'
import { checkRestored } from './verify-backup.ts'

export interface NewProjectDeps extends RestoreDeps {
  lifecycle: Pick<Lifecycle, 'make' | 'complete' | 'remove'>
  provisioner: Pick<Provisioner, 'createLogins'>
}

/** Can be repeated after a crash. */
export async function makeProject(
  deps: NewProjectDeps,
  projectId: string,
  restore: Restore,
  watching: Watching,
): Promise<void> {
  const { control, cluster, lifecycle } = deps
  if (restore.status !== 'running') return
  const archive = await openArchive(deps, restore.project_id, restore.backup_id)
  await lifecycle.make(projectId, async deleted => {
    const watched = { ...watching, signal: AbortSignal.any([watching.signal, deleted]) }
    const project = (await store.findUnmade(control, projectId))!
    await deps.provisioner.createLogins(project.ref)
    const differences = await checkRestored(deps, archive, project, project.ref, watched)
    if (differences) throw new Error(`the backup cannot be restored: ${differences.text}`)
    await putFilesBack(deps, archive, projectId, watched)
    await deps.renew(project.ref, project.ref)
    await deps.projectData.reseal(cluster.address, project.ref, archive.manifest.project.id, projectId)
    await withClient(cluster.address, project.ref, restoredSettings, async session =>
      finishRestored(session, await readCatalogVersion(session)),
    )
    watched.signal.throwIfAborted()
    await lifecycle.complete(projectId, async session => {
      await restoreControl(deps, session, projectId, archive)
      await restores.recordMade(session, restore.id, projectId, cluster.projectVersion)
    })
  })
}
