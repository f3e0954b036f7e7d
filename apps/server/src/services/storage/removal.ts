// Removes the bytes of files. A file that this node is reading is removed after the last reader. The reserved quota is
// released after the bytes are removed.
import type { Log } from '#src/kernel/log.ts'
import { pieceNames } from '#src/kernel/objects/layout.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { KeptFiles } from './kept-files.ts'
import type { NeededVersions } from './needed-versions.ts'
import type { Usage } from './usage.ts'
import type { StoredFile } from './usage-store.ts'

export interface Removal {
  /** Delays the removal of the bytes on this node until the returned function is called. */
  pin(project: string, version: string): () => void
  /** Returns how many files were removed. Pinned files are removed when their last reader ends. */
  drop(project: string, files: readonly StoredFile[]): Promise<number>
  /** Logs a failure. The sweeper removes the files later. */
  tryDrop(project: string, files: readonly StoredFile[]): Promise<void>
  /** Reads the sizes from the control database, because the project owner can change those in storage.objects. */
  dropVersions(project: string, versions: readonly string[]): Promise<void>
  /** Removes a replaced version a little later, in a batch with others of the project. */
  dropLater(project: string, version: string): void
  /** Removes the versions that `dropLater` has collected. */
  flush(project: string): Promise<void>
  close(): Promise<void>
}

interface Pinned {
  count: number
  /** The file to remove after the last reader. */
  removeAfter: StoredFile | undefined
}

interface Replaced {
  versions: string[]
  timer: NodeJS.Timeout
}

/** Collects versions for one query of the usage, which costs more than the rest of a removal. */
const batchMs = 30

interface RemovalDeps {
  pieces: Pieces
  usage: Usage
  kept: KeptFiles
  directory: Pick<Directory, 'find'>
  needed: NeededVersions
  log: Log
}

export function createRemoval({ pieces, usage, kept, directory, needed, log }: RemovalDeps): Removal {
  const pinned = new Map<string, Pinned>()
  const replaced = new Map<string, Replaced>()
  const dropping = new Map<string, Promise<void>>()

  async function drop(project: string, files: readonly StoredFile[]): Promise<number> {
    const free: StoredFile[] = []
    for (const file of files) {
      const entry = pinned.get(`${project}/${file.version}`)
      if (entry) entry.removeAfter = file
      else free.push(file)
    }
    const unneeded = await kept.keep(project, free)
    // Remove the bytes first, so that no stored byte is missing in the usage.
    await pieces.remove(unneeded.flatMap(({ version, size }) => pieceNames(project, version, size)))
    await usage.release(
      project,
      free.map(({ version }) => version),
    )
    return free.length
  }

  const tryDrop = (project: string, files: readonly StoredFile[]) =>
    drop(project, files).then(
      () => {},
      error => log.warn({ err: error, project }, 'could not remove unreferenced files; the sweeper will'),
    )

  /** A restore, or its undo, may have brought the object back while its bytes were read. */
  async function dropAfterReaders(project: string, file: StoredFile): Promise<void> {
    try {
      const tenant = await directory.find(project)
      // The files of a deleted project are removed with it.
      if (!tenant || (await needed(tenant, [file.version])).size > 0) return
    } catch (error) {
      log.warn({ err: error, project }, 'could not remove a file that was read; the sweeper will')
      return
    }
    await tryDrop(project, [file])
  }

  async function dropVersions(project: string, versions: readonly string[]): Promise<void> {
    const known = versions.filter(isUuid)
    if (known.length > 0) await tryDrop(project, await usage.find(project, known))
  }

  /** Batches of a project run one after the other. The sweeper removes what fails here. */
  function dropReplaced(project: string): void {
    const batch = replaced.get(project)
    if (!batch) return
    replaced.delete(project)
    clearTimeout(batch.timer)
    const before = dropping.get(project) ?? Promise.resolve()
    const dropped = before
      .then(() => dropVersions(project, batch.versions))
      .catch(error => log.warn({ err: error, project }, 'could not remove replaced files; the sweeper will'))
      .finally(() => {
        if (dropping.get(project) === dropped) dropping.delete(project)
      })
    dropping.set(project, dropped)
  }

  async function flush(project: string): Promise<void> {
    dropReplaced(project)
    await dropping.get(project)
  }

  return {
    pin(project, version) {
      const key = `${project}/${version}`
      const entry = pinned.get(key) ?? { count: 0, removeAfter: undefined }
      pinned.set(key, entry)
      entry.count++
      return () => {
        entry.count--
        if (entry.count > 0) return
        pinned.delete(key)
        if (entry.removeAfter) void dropAfterReaders(project, entry.removeAfter)
      }
    },
    drop,
    tryDrop,
    dropVersions,
    dropLater(project, version) {
      const batch = replaced.get(project)
      if (batch) batch.versions.push(version)
      else
        replaced.set(project, {
          versions: [version],
          timer: setTimeout(() => dropReplaced(project), batchMs),
        })
    },
    flush,
    async close() {
      await Promise.all([...new Set([...replaced.keys(), ...dropping.keys()])].map(flush))
    },
  }
}
