// Backups of the control database, in the same store and with the same encryption as those of projects. They are found
// without a database, because one is needed when the database is not usable: each has a small file with what is needed
// to read it, which is written last.
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import { hmac } from '#src/kernel/crypto/keys.ts'
import type { PackedFile } from '#src/kernel/objects/packed-file.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import { version } from '#src/kernel/version.ts'
import { readArchive, removeArchive, writeArchive } from './archive.ts'
import { compareDatabase } from './compare-database.ts'
import { restoreControl } from './control-restore.ts'
import type { ControlManifest, DatabaseContents } from './manifest.ts'
import { noRefs } from './refs.ts'
import { type DatabaseSource, type Watching, writeDatabase } from './write-database.ts'

export interface ControlBackup {
  id: string
  created_at: string
  /** The release that made it. */
  version: string
  bytes: number
  stored_bytes: number
}

interface Index extends ControlBackup {
  format: 1
  manifest: PackedFile
}

export type ControlBackups = ReturnType<typeof controlBackups>

const kept = 5
const attempt = 1
const indexEnd = '.c'
const recordEnd = '.e'
const maxIndexBytes = 65_536
/** What a crash has left is removed after this time. Another node may be about to write it. */
const strayMs = 86_400_000

/** The folders of projects are their ids. Platforms that share a store have different secrets. */
const folderOf = (deriveKey: DeriveKey) =>
  `c-${hmac(deriveKey('control backups'), 'folder').toString('hex').slice(0, 40)}`
export const isControlFolder = (folder: string): boolean => folder.startsWith('c-')

export function controlBackups(pieces: Pieces, deriveKey: DeriveKey) {
  const folder = folderOf(deriveKey)

  async function writeSmall(name: string, value: unknown): Promise<void> {
    const writer = await pieces.write(name, 0)
    try {
      await writer.append([Buffer.from(JSON.stringify(value))])
      await writer.finish()
    } catch (error) {
      await writer.abort().catch(() => {})
      throw error
    }
  }

  async function readIndex(name: string, size: number): Promise<Index | undefined> {
    if (size > maxIndexBytes) return
    const reader = await pieces.open(name, 0, size)
    try {
      const bytes = Buffer.alloc(size)
      await reader.fill(bytes)
      const index = JSON.parse(bytes.toString()) as Index
      return index.format === 1 && isUuid(index.id) ? index : undefined
    } finally {
      await reader.close()
    }
  }

  /** The newest first. */
  async function listIndexes(): Promise<Index[]> {
    const found: Index[] = []
    for await (const { name, size } of pieces.list(folder))
      if (name.endsWith(indexEnd)) {
        const index = await readIndex(name, size)
        if (index) found.push(index)
      }
    return found.sort((a, b) => (a.created_at < b.created_at ? 1 : -1))
  }

  async function remove(id: string): Promise<void> {
    await pieces.remove([`${folder}/${id}${indexEnd}`])
    await removeArchive(pieces, folder, id)
  }

  async function removeOld(needed: readonly string[]): Promise<void> {
    const all = await listIndexes()
    for (const { id } of all.slice(kept)) if (!needed.includes(id)) await remove(id)
    const known = new Set(all.map(({ id }) => id))
    const stray: string[] = []
    for await (const { name, modifiedAt } of pieces.list(folder)) {
      const id = name.slice(folder.length + 1, folder.length + 37)
      const isOfArchive = name[folder.length + 37] === '-'
      if (isOfArchive && !known.has(id) && Date.now() - modifiedAt.getTime() > strayMs) stray.push(name)
    }
    await pieces.remove(stray)
  }

  async function open(id: string) {
    const index = (await listIndexes()).find(each => each.id === id)
    if (!index)
      throw new Error(
        `The store of backups has no backup ${id} of the control database that was made with this CONTROL_PLANE_SECRET.`,
      )
    return readArchive<ControlManifest>(
      pieces,
      deriveKey,
      { project: folder, backup: id, attempt },
      index.manifest,
    )
  }

  return {
    list: async (): Promise<ControlBackup[]> =>
      (await listIndexes()).map(({ format: _, manifest: __, ...backup }) => backup),

    /**
     * Works with the control database of any release. Removes old backups, but not those that are needed to undo an
     * upgrade.
     */
    async make(
      source: DatabaseSource,
      needed: readonly string[],
      watching: Watching,
    ): Promise<ControlBackup> {
      const id = orderedUuid()
      const created_at = new Date().toISOString()
      const archive = writeArchive(pieces, deriveKey, { project: folder, backup: id, attempt })
      try {
        const database = await writeDatabase(archive, source, watching, async () => {})
        const packed = await archive.finish({
          isControl: true,
          backup: id,
          platform: version,
          database,
        })
        const backup = {
          id,
          created_at,
          version,
          bytes: bytesOf(database),
          stored_bytes: archive.storedBytes,
        }
        await writeSmall(`${folder}/${id}${indexEnd}`, { format: 1, ...backup, manifest: packed })
        await removeOld(needed)
        return backup
      } catch (error) {
        await removeArchive(pieces, folder, id).catch(() => {})
        throw error
      }
    },

    remove,

    /** Makes a new database of it and compares that with the archive. */
    async restore(id: string, target: DatabaseSource, watching: Watching): Promise<void> {
      const archive = await open(id)
      await restoreControl(archive, target, watching)
      const [difference] = await compareDatabase(archive, target, noRefs, watching)
      if (difference !== undefined)
        throw new Error(`The backup of the control database cannot be restored: ${difference}.`)
    },

    /** Keeps what an upgrade did beside the backups, so that it can be read without the database. */
    writeRecord: (id: string, record: unknown) => writeSmall(`${folder}/${id}${recordEnd}`, record),
    removeRecord: (id: string) => pieces.remove([`${folder}/${id}${recordEnd}`]),
  }
}

const bytesOf = ({ schema, tables }: DatabaseContents) =>
  tables.reduce((sum, { file }) => sum + file.bytes, schema.bytes)
