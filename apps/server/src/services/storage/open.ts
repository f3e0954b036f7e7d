// Opens the storage service. When a project is deleted, its data key is deleted first, so that its files are unreadable
// before they are removed.
import { storageApi } from '@plinth/contract/storage.ts'
import { queueDepth, workerMetrics } from '#src/kernel/metrics.ts'
import type { Opened } from '#src/planes/service.ts'
import { storageRoutes } from './data-routes.ts'
import { storagePlane, unknownStoragePaths } from './plane.ts'
import { storageData } from './project-data.ts'
import { type StorageDeps, type StorageService, storageService } from './service.ts'
import { countUnused } from './sweep-store.ts'
import { deleteArea } from './usage-store.ts'

export async function openStorage(deps: StorageDeps): Promise<Opened<StorageService>> {
  const service = await storageService(deps)
  deps.directory.onChange(id => void service.changed(id).catch(() => {}))
  return {
    name: 'storage',
    service,
    mount: to => to.data(storageApi, storageRoutes(service), storagePlane),
    unknownPaths: unknownStoragePaths,
    hooks: {
      async removed(projectId) {
        await deleteArea(deps.control, projectId)
        await deps.pieces.removeFolder(projectId)
      },
    },
    data: storageData(deps.sealer),
    metrics: [...workerMetrics('storage', service.sweeperUse), queueDepth('unused_files', countUnused)],
    close: service.close,
  }
}
