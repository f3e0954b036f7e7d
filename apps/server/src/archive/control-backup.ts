// Backups of the control database, in the same store and with the same encryption as those of projects. They are found
// without a database, because one is needed when the database is not usable: each has a small file with what is needed
// to read it, which is written last.
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import { hmac } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { MissingPiece, ObjectsUnavailable, type Pieces } from '#src/kernel/objects/pieces.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import { version } from '#src/kernel/version.ts'
import { readArchive, removeArchive, writeArchive } from './archive.ts'
import { compareDatabase } from './compare-database.ts'
import { type ControlBackup, type ControlIndex, indexText, parseIndex } from './control-index.ts'
import { restoreControl } from './control-restore.ts'
import { type ControlManifest, databaseBytes } from './manifest.ts'
import { noRefs } from './refs.ts'
import { type DatabaseSource, type Watching, writeDatabase } from './write-database.ts'

interface DamagedBackup {
  id: string
  /** In the store of backups. */
  file: string
  /** What is wrong, and what to do. */
  error: string
}

type Found = { id: string; index: ControlIndex } | DamagedBackup
const isUsable = (found: Found) => 'index' in found

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

export function controlBackups(pieces: Pieces, deriveKey: DeriveKey, log: Pick<Log, 'warn'>) {
  const folder = folderOf(deriveKey)
  const indexOf = (id: string) => `${folder}/${id}${indexEnd}`
  const recordOf = (id: string) => `${folder}/${id}${recordEnd}`

  async function writeSmall(name: string, text: string): Promise<void> {
    const writer = await pieces.write(name, 0)
    try {
      await writer.append([Buffer.from(text)])
      await writer.finish()
    } catch (error) {
      await writer.abort().catch(() => {})
      throw error
    }
  }

  async function readSmall(name: string): Promise<string> {
    const reader = await pieces.open(name, 0, maxIndexBytes)
    try {
      if (reader.size > maxIndexBytes) throw new DamagedFile(`it has more than ${maxIndexBytes} bytes`)
      const bytes = Buffer.alloc(reader.size)
      const length = await reader.fill(bytes)
      return bytes.toString('utf8', 0, length)
    } finally {
      await reader.close()
    }
  }

  async function readIndex(id: string): Promise<Found | undefined> {
    const file = indexOf(id)
    try {
      return { id, index: parseIndex(await readSmall(file), id) }
    } catch (error) {
      if (error instanceof MissingPiece) return
      // Every file may be intact. Other errors, such as a bad sector, are about this one.
      if (error instanceof ObjectsUnavailable) throw error
      return { id, file, error: damageOf(`The index ${file}`, error as Error) }
    }
  }

  /** The newest first. Ids sort by time, and a damaged index has no other. */
  async function listIndexes(): Promise<Found[]> {
    const found: Found[] = []
    for await (const { name } of pieces.list(folder)) {
      const id = idIn(name)
      const each = isUuid(id) && name === indexOf(id) && (await readIndex(id))
      if (each) found.push(each)
    }
    return found.sort((a, b) => (a.id < b.id ? 1 : -1))
  }

  const idIn = (name: string) => name.slice(folder.length + 1, folder.length + 37)

  /** The index first, so that no backup without files is listed. */
  async function remove(id: string): Promise<void> {
    await pieces.remove([indexOf(id)])
    await removeArchive(pieces, folder, id)
  }

  /** Nothing can be restored from damaged ones, so they do not count. */
  async function removeOld(needed: readonly string[]): Promise<void> {
    const all = await listIndexes()
    for (const each of all) if (!isUsable(each)) log.warn({ file: each.file, backup: each.id }, each.error)
    const oldest = all.filter(isUsable)[kept - 1]
    if (oldest) for (const { id } of all) if (id < oldest.id && !needed.includes(id)) await remove(id)
  }

  async function removeStray(): Promise<void> {
    const known = new Set<string>()
    const old: string[] = []
    for await (const { name, modifiedAt } of pieces.list(folder)) {
      const id = idIn(name)
      if (name === indexOf(id)) known.add(id)
      else if (name.startsWith(`${folder}/${id}-`) && Date.now() - modifiedAt.getTime() > strayMs)
        old.push(name)
    }
    await pieces.remove(old.filter(name => !known.has(idIn(name))))
  }

  async function open(id: string) {
    const found = await readIndex(id)
    if (!found)
      throw new Error(
        `The store of backups has no backup ${id} of the control database that was made with this CONTROL_PLANE_SECRET.`,
      )
    if (!isUsable(found)) throw new Error(found.error)
    return readArchive<ControlManifest>(
      pieces,
      deriveKey,
      { project: folder, backup: id, attempt },
      found.index.manifest,
    )
  }

  async function write(id: string, source: DatabaseSource, watching: Watching): Promise<ControlBackup> {
    const created_at = new Date().toISOString()
    const archive = writeArchive(pieces, deriveKey, { project: folder, backup: id, attempt })
    const database = await writeDatabase(archive, source, watching, async () => {})
    const manifest = await archive.finish({ isControl: true, backup: id, platform: version, database })
    const backup = {
      id,
      created_at,
      version,
      bytes: databaseBytes(database),
      stored_bytes: archive.storedBytes,
    }
    await writeSmall(indexOf(id), indexText({ ...backup, manifest }))
    return backup
  }

  return {
    async list(): Promise<{ backups: ControlBackup[]; damaged: DamagedBackup[] }> {
      const all = await listIndexes()
      const backups = all.filter(isUsable).map(({ index: { manifest: _, ...backup } }) => backup)
      return { backups, damaged: all.filter(each => 'error' in each) }
    },

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
      const backup = await write(id, source, watching).catch(async error => {
        // If this fails, the sweep removes the files, unless the index is there: then the backup is complete.
        await remove(id).catch(() => {})
        throw error
      })
      await removeOld(needed)
        .then(removeStray)
        .catch(error =>
          log.warn(
            { err: error },
            'could not remove old backups of the control database; the next backup tries again',
          ),
        )
      return backup
    },

    remove,
    /** Files of backups whose making was killed: they have no index. */
    removeStray,

    /** Makes a new database of it and compares that with the archive. */
    async restore(id: string, target: DatabaseSource, watching: Watching): Promise<void> {
      try {
        const archive = await open(id)
        await restoreControl(archive, target, watching)
        const [difference] = await compareDatabase(archive, target, noRefs, watching)
        if (difference)
          throw new Error(`The backup of the control database cannot be restored: ${difference.text}.`)
      } catch (error) {
        if (!(error instanceof DamagedFile || error instanceof MissingPiece)) throw error
        throw new Error(damageOf(`A file of the backup ${id} of the control database`, error), {
          cause: error,
        })
      }
    },

    /** Keeps what an upgrade did beside the backups, so that it can be read without the database. */
    writeRecord: (id: string, record: unknown) => writeSmall(recordOf(id), JSON.stringify(record)),
    removeRecord: (id: string) => pieces.remove([recordOf(id)]),
  }
}

const damageOf = (what: string, { message }: Error) =>
  `${what} is damaged (${message}), so this backup cannot be restored. Put the file back from a copy of the store of backups, or restore another backup.`
