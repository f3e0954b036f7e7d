// Removes backups beyond their retention, files that no backup contains any more, and what a crash has left in the store.

import { randomUUID } from 'node:crypto'
import { removeArchive } from '#src/archive/archive.ts'
import { inBatches } from '#src/kernel/batches.ts'
import { pieceNames } from '#src/kernel/objects/layout.ts'
import type { PieceFound, Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import { hasWayBack } from '#src/tenancy/instance-cutover.ts'
import * as files from './files-store.ts'
import { usualDays } from './service.ts'
import * as upkeep from './upkeep-store.ts'

const batch = 100
const filesAtOnce = 500
const piecesAtOnce = 1000
/** Backups of the project wait so long for a node that was killed while it removed files. */
const leaseSeconds = 60
/** For one request. The rest of the lease is for what the store still does after it. */
const removeMs = 30_000
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
    if (!(await upkeep.deleteBackup(control, id))) return
    await removeArchive(backups, project, id)
    await removeFiles(project)
  }

  async function extend(session: Session, removal: files.FileRemoval): Promise<void> {
    if (!(await files.extendRemoval(session, removal, leaseSeconds)))
      throw new Error('the removal of files took too long; the next one goes on')
  }

  /** Ends before the lease does, after which a backup may copy the same versions again. */
  async function removeLeased(removal: files.FileRemoval, names: readonly string[]): Promise<void> {
    for (let start = 0; start < names.length; start += piecesAtOnce) {
      const signal = AbortSignal.timeout(removeMs)
      await extend(control, removal)
      await backups.remove(names.slice(start, start + piecesAtOnce), signal)
    }
  }

  /**
   * A backup that begins meanwhile waits: it would find a version that is about to be removed in the list of those that the
   * store has, or copy it just before. Does nothing if one is being made. The next sweep comes back. The store may take long or
   * hang, so no transaction is open meanwhile. After a failure the lease stays: the store may still remove what it was asked to.
   */
  async function whileNoneIsMade(
    projectId: string,
    work: (removal: files.FileRemoval) => Promise<void>,
  ): Promise<void> {
    const removal = { id: randomUUID(), projectId }
    if (!(await files.beginRemoval(control, removal, leaseSeconds))) return
    await work(removal)
    await files.endRemoval(control, removal)
  }

  /** Their rows are deleted first, because a version that is noted must be there. */
  const removeFiles = (project: string): Promise<void> =>
    whileNoneIsMade(project, async removal => {
      for (;;) {
        const unneeded = await control.transaction(async session => {
          await extend(session, removal)
          return files.takeUnneededFiles(session, project, filesAtOnce)
        })
        await removeLeased(
          removal,
          unneeded.flatMap(({ version, size }) => pieceNames(project, version, size)),
        )
        if (unneeded.length < filesAtOnce) return
      }
    })

  async function removeStray(project: string, found: readonly PieceFound[]): Promise<void> {
    const archives = new Map<string, string[]>()
    const versions = new Map<string, string[]>()
    for (const { name, modifiedAt } of found) {
      const [, id, mark] = pieceForm.exec(name) ?? []
      if (id === undefined || (mark === '.' && Date.now() - modifiedAt.getTime() < copyMs)) continue
      const names = mark === '.' ? versions : archives
      names.set(id, [...(names.get(id) ?? []), name])
    }
    const kept = await upkeep.listKept(control, [...archives.keys()])
    for (const [id, names] of archives)
      await backups.remove(kept.has(id) ? names.filter(isOfOther(kept.get(id))) : names)
    if (versions.size === 0) return
    await whileNoneIsMade(project, async removal => {
      const noted = await files.listNotedFiles(control, project, [...versions.keys()])
      const stray = [...versions].filter(([version]) => !noted.has(version))
      await removeLeased(
        removal,
        stray.flatMap(([, names]) => names),
      )
    })
  }

  return {
    async prune(signal: AbortSignal): Promise<void> {
      await upkeep.failAbandoned(control, 'the platform stopped meanwhile')
      if (await hasWayBack(control)) return
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
      if (await hasWayBack(control)) return
      for await (const folder of backups.folders()) {
        if (signal.aborted) return
        // Folders of control backups and of the archive for recovery to a time have other names.
        if (!isUuid(folder)) continue
        for await (const found of inBatches(backups.list(folder), piecesAtOnce))
          await removeStray(folder, found)
        // Those of a backup that was removed while another one was being made.
        await removeFiles(folder)
      }
    },
  }
}
