// Creates the parts of the storage service and connects them.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { createBuckets } from './buckets.ts'
import { createFiles } from './files.ts'
import { createImages } from './images.ts'
import { createKeptFiles } from './kept-files.ts'
import { createNeededVersions } from './needed-versions.ts'
import { createObjects } from './objects.ts'
import { createRemoval } from './removal.ts'
import { createRenderCache } from './render/cache.ts'
import { createRenderer } from './render/renderer.ts'
import { createRenderStore } from './render-store.ts'
import { createResumable } from './resumable.ts'
import { createSigned } from './signed.ts'
import { createStore } from './store.ts'
import { createSweeping } from './sweep.ts'
import { createUploads } from './uploads.ts'
import { createUsage } from './usage.ts'

export interface StorageDeps {
  control: Database
  sealer: Sealer
  databases: Databases
  directory: Directory
  pieces: Pieces
  /** How long the bytes of removed files are kept for recovery to a time. */
  keepRemovedDays: number
  /** For rendered images. */
  dataDir: string
  baseUrl(): string
  log: Log
}

export type StorageService = Awaited<ReturnType<typeof storageService>>

export async function storageService(deps: StorageDeps) {
  const { control, sealer, databases, directory, pieces, log } = deps
  const rendersDir = join(deps.dataDir, 'renders')
  const clearRenders = () => rm(rendersDir, { recursive: true, force: true })
  await clearRenders()

  const usage = createUsage(control, sealer)
  const store = createStore(databases)
  const kept = createKeptFiles(control, pieces, deps.keepRemovedDays, log)
  const needed = createNeededVersions(control, store)
  const removal = createRemoval({ pieces, usage, kept, directory, needed, log })
  const sweeping = createSweeping({ control, directory, store, usage, removal, needed, pieces, log })
  const files = createFiles({ pieces, usage, removal, sweep: sweeping.sweep })
  const uploads = createUploads(store, files)
  const renderer = createRenderer({ log })
  const renderPieces = await openDirectoryPieces(rendersDir, { isDurable: false })
  const cache = createRenderCache(createRenderStore(renderPieces, clearRenders), log)
  const objects = createObjects(store, files, uploads)
  const worker = sweeping.start()

  return {
    store,
    uploads,
    objects,
    signed: createSigned(store, objects, uploads),
    buckets: createBuckets(store, files),
    images: createImages(files, renderer, cache),
    resumable: createResumable({ control, store, files, objects: uploads, baseUrl: deps.baseUrl }),
    async usedBytes(project: string) {
      await removal.flush(project)
      return usage.usedBytes(project)
    },
    /** To be called when a project has changed or was deleted. */
    async changed(project: string) {
      usage.forget(project)
      if (!(await directory.read(project))) await cache.forget(project)
    },
    sweeperUse: worker.use,
    async close() {
      renderer.close()
      await worker.close()
      await removal.close()
      await kept.close()
      await clearRenders()
    },
  }
}
