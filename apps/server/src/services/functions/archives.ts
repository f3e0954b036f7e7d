// The code and the packages of functions in the object store, each as an encrypted tar archive. The bytes of an archive
// never change, because all backups that contain it share one copy of them.
import { createHash, createSecretKey, randomBytes, randomUUID } from 'node:crypto'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { chunksOf } from '#src/kernel/byte-source.ts'
import { startProcess } from '#src/kernel/child-processes/process.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { openFile } from '#src/kernel/objects/file-reader.ts'
import { openFileWriter } from '#src/kernel/objects/file-writer.ts'
import { frameCipher } from '#src/kernel/objects/frames.ts'
import { pieceNames, storedPieceBytes } from '#src/kernel/objects/layout.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { hasWayBack, wayBackDays } from '#src/tenancy/instance-cutover.ts'
import * as store from './archives-store.ts'
import { lockProject } from './store.ts'

export type Archives = ReturnType<typeof createArchives>

/** Archives that no version names are kept for this time, because a deployment may be about to name them. */
export const unusedSeconds = 3600
const batch = 100
const gigabyte = 1024 ** 3
/**
 * Compressed: the code and packages of all versions of a project's functions. As many bytes again of removed ones are kept
 * for a recovery to a time.
 */
const maxProjectBytes = 2 * gigabyte

/** The folder of the object store is that of the archive alone, so that an incomplete one can be removed as a whole. */
const folderOf = (projectId: string, id: string) =>
  `f-${createHash('sha256').update(`${projectId} ${id}`).digest('hex').slice(0, 40)}`
const contextOf = (id: string) => `function archive ${id}`

export interface ArchivesOptions {
  /** For how long removed code is kept, for a recovery to a time. */
  keepDays?: number
  /** How much of it, for each project. */
  keepBytes?: number
}

export function createArchives(
  control: Database,
  pieces: Pieces,
  sealer: Sealer,
  { keepDays = 0, keepBytes = maxProjectBytes }: ArchivesOptions = {},
) {
  const openKey = (id: string, sealed: string) =>
    createSecretKey(Buffer.from(sealer.open(sealed, contextOf(id)), 'base64'))

  /** Returns the number of bytes. */
  async function write(projectId: string, id: string, dataKey: string, directory: string): Promise<number> {
    const cipher = frameCipher(openKey(id, dataKey), id)
    const writer = openFileWriter({
      pieces,
      cipher,
      address: { project: folderOf(projectId, id), version: id },
    })
    try {
      await packTo(directory, async chunk => writer.write([chunk]))
      await writer.end()
    } catch (error) {
      await writer.abort().catch(() => {})
      throw error
    }
    return writer.size
  }

  async function isStored(projectId: string, { id, bytes }: store.ArchiveRow): Promise<boolean> {
    const folder = folderOf(projectId, id)
    const sizes = new Map<string, number>()
    for await (const { name, size } of pieces.list(folder)) sizes.set(name, size)
    return pieceNames(folder, id, bytes).every(
      (name, piece) => sizes.get(name) === storedPieceBytes(bytes, piece),
    )
  }

  /**
   * Removed code is pruned every hour, but not while the cluster before a recovery of the instance can be put back, or while the
   * object store fails. A project that deploys and deletes again and again is bounded nevertheless. What removed code may
   * take until it is pruned is as much as the code in use.
   */
  async function refuseIfFull(projectId: string): Promise<void> {
    const { used, stored } = await store.countBytes(control, projectId, unusedSeconds)
    if (used > maxProjectBytes)
      throw new Refusal(
        'packages_too_large',
        `The versions of all functions of the project take more than ${maxProjectBytes / gigabyte} GB`,
        { hint: 'Delete functions that are not used; old versions of the others go with each deployment.' },
      )
    const most = 2 * maxProjectBytes + keepBytes
    if (stored > most)
      throw new Refusal(
        'packages_too_large',
        `The functions of the project and code that was removed take more than ${most / gigabyte} GB`,
        {
          hint: `Removed code is pruned after one to two hours, or ${wayBackDays} days after a recovery of the instance. Deploy again then.`,
        },
      )
  }

  return {
    folderOf,
    openKey,
    /**
     * Stores a directory, unless an archive with this hash is stored. Returns the id of the archive. The bytes of a known one may
     * be gone, for example after a recovery to a time. The directory becomes a new archive then, and all versions that
     * name the known one work again.
     */
    async save(projectId: string, hash: string, directory: string): Promise<string> {
      const known = await store.reuseArchive(control, projectId, hash)
      if (known && (await isStored(projectId, known))) return known.id
      if (!known) await refuseIfFull(projectId)
      const id = randomUUID()
      const dataKey = sealer.seal(randomBytes(32).toString('base64'), contextOf(id))
      await store.insertArchive(control, projectId, { id, hash, data_key: dataKey })
      const bytes = await write(projectId, id, dataKey, directory)
      const completed = await control.transaction(async session => {
        if (known) await lockProject(session, projectId)
        const count = await store.completeArchive(session, projectId, id, bytes)
        if (known && count > 0) await store.replaceArchive(session, projectId, known.id, id)
        return count
      })
      if (completed === 0) {
        await pieces.removeFolder(folderOf(projectId, id))
        await store.deleteArchive(control, projectId, id)
        throw new Refusal('project_not_found', 'The project was deleted meanwhile')
      }
      return id
    },

    /** Unpacks an archive into an existing directory. */
    async unpack(projectId: string, id: string, directory: string): Promise<void> {
      const archive = await store.findArchive(control, projectId, id)
      if (!archive) throw new Error(`the archive ${id} does not exist`)
      const { bytes: size, data_key } = archive
      const opened = await openFile({
        pieces,
        cipher: frameCipher(openKey(id, data_key), id),
        address: { project: folderOf(projectId, id), version: id },
        size,
        from: 0,
        to: size,
      })
      await unpackFrom(Buffer.isBuffer(opened) ? [opened] : flattened(chunksOf(opened)), directory)
    },

    /** Removes archives that no version names any more, and that are not kept. */
    async removeUnused(): Promise<void> {
      if (await hasWayBack(control)) return
      const kept = { newSeconds: unusedSeconds, days: keepDays, bytes: keepBytes }
      let removed: number
      do {
        removed = await control.transaction(async session => {
          const unused = await store.takeUnused(session, kept, batch)
          // Before the commit, so that a crash leaves the row and not the bytes.
          for (const { project_id, id } of unused) await pieces.removeFolder(folderOf(project_id, id))
          return unused.length
        })
      } while (removed === batch)
    },

    /** Of a project whose deletion has begun. */
    async removeAll(projectId: string): Promise<void> {
      for (const id of await store.listAllIds(control, projectId))
        await pieces.removeFolder(folderOf(projectId, id))
      await store.deleteComplete(control, projectId)
    },
  }
}

async function* flattened(source: AsyncIterable<readonly Buffer[]>): AsyncGenerator<Buffer> {
  for await (const chunks of source) yield* chunks
}

// Every system that the platform runs on has tar. It compresses outside of the event loop.

const command = (args: readonly string[], cwd: string) => ({
  binary: 'tar',
  args,
  env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
  cwd,
})

async function packTo(directory: string, write: (chunk: Buffer) => Promise<void>): Promise<void> {
  const child = await startProcess({
    ...command(
      ['-cz', '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX,a-st', '-f', '-', '.'],
      directory,
    ),
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  for await (const chunk of child.process.stdout as Readable) await write(chunk as Buffer)
  await succeeded(child.closed)
}

async function unpackFrom(
  source: Iterable<Buffer> | AsyncIterable<Buffer>,
  directory: string,
): Promise<void> {
  const child = await startProcess({
    ...command(['-xz', '--no-same-owner', '-f', '-'], directory),
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  await pipeline(source, child.process.stdin as Writable)
  await succeeded(child.closed)
}

async function succeeded(closed: Promise<string>): Promise<void> {
  const how = await closed
  if (how !== 'code 0') throw new Error(`tar ended with ${how}`)
}
