// Removes backups beyond their retention, files that no backup contains any more, and what a crash has left in the store.
import { pieceNames } from '#src/kernel/objects/layout.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { removeArchive } from './archive/archive.ts'
import * as store from './store.ts'
import * as upkeep from './upkeep-store.ts'

const usualDays = 7
const batch = 100
const filesAtOnce = 500
/** Files of backups are named after its id, attempt and number; files of the project after their version. */
const pieceForm = /^[^/]+\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})([-.])/
/** A version is noted after all of it was copied. */
const copyMs = 86_400_000

const attemptForm = /^[^/]+\/.{36}-([0-9a-f]+)-/
/** Files of other attempts to make a backup that is done. */
const isOfOther = (attempt: number | undefined) => (name: string) =>
  attempt !== undefined && attemptForm.exec(name)?.[1] !== attempt.toString(16)

export function createRetention(control: Database, backups: Pieces) {
  async function remove(id: string, project: string): Promise<void> {
    // First, so that no one restores it meanwhile. What stays in the store is removed by the sweep.
    await upkeep.deleteBackup(control, id)
    await removeArchive(backups, project, id)
    await removeFiles(project)
  }

  async function removeFiles(project: string): Promise<void> {
    for (;;) {
      const files = await upkeep.takeUnneededFiles(control, project, filesAtOnce)
      await backups.remove(files.flatMap(({ version, size }) => pieceNames(project, version, size)))
      if (files.length < filesAtOnce) return
    }
  }

  async function sweepFolder(project: string): Promise<void> {
    const archives = new Map<string, string[]>()
    const versions = new Map<string, string[]>()
    for await (const { name, modifiedAt } of backups.list(project)) {
      const [, id, mark] = pieceForm.exec(name) ?? []
      if (id === undefined || (mark === '.' && Date.now() - modifiedAt.getTime() < copyMs)) continue
      const names = mark === '.' ? versions : archives
      names.set(id, [...(names.get(id) ?? []), name])
    }
    const kept = await upkeep.listKept(control, [...archives.keys()])
    const noted = await store.listNotedFiles(control, project, [...versions.keys()])
    for (const [id, names] of archives)
      await backups.remove(kept.has(id) ? names.filter(isOfOther(kept.get(id))) : names)
    for (const [version, stray] of versions) if (!noted.has(version)) await backups.remove(stray)
  }

  return {
    async prune(signal: AbortSignal): Promise<void> {
      for (;;) {
        const expired = await upkeep.listExpired(control, usualDays, batch)
        for (const { id, project_id: project } of expired) {
          if (signal.aborted) return
          await remove(id, project)
        }
        if (expired.length < batch) return
      }
    },
    /** Files of backups that no longer exist. */
    async sweep(signal: AbortSignal): Promise<void> {
      for await (const folder of backups.folders()) {
        if (signal.aborted) return
        await sweepFolder(folder)
      }
    },
  }
}
