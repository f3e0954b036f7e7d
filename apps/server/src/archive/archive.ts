// The files of one backup in the store: packed, encrypted with a key of this backup, and numbered.
import { hkdfSync } from 'node:crypto'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import { type ContentCheck, checkContent } from '#src/kernel/objects/content-proof.ts'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import {
  emptyPackedFile,
  type PackedFile,
  type PackedWriter,
  readPacked,
  writePacked,
} from '#src/kernel/objects/packed-file.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { writeLines } from './json-lines.ts'
import type { ArchivedFile, ControlManifest, DatabaseContents, Manifest } from './manifest.ts'
import { manifestLines, maxManifestBytes, readManifest } from './manifest-lines.ts'

export interface ArchiveWriter {
  /** Writes a file, and returns what is needed to read it. */
  add(fill: (write: PackedWriter['write']) => Promise<void>): Promise<ArchivedFile>
  /** Reads a file that was added. */
  read(file: ArchivedFile): AsyncIterable<Buffer>
  /** Writes the manifest, which must be the last file. */
  finish(manifest: Manifest | ControlManifest): Promise<PackedFile>
  readonly storedBytes: number
}

/** The attempt to make the backup that has written the archive. */
export interface ArchiveName {
  project: string
  backup: string
  attempt: number
}

const manifestNumber = 0

const keyOf = (deriveKey: DeriveKey, backup: string) =>
  Buffer.from(hkdfSync('sha256', deriveKey('backup'), backup, 'plinth backup', 32))
/** Piece names consist of hexadecimal digits and dashes. Attempts have files of their own, because two may overlap. */
const versionOf = ({ backup, attempt }: ArchiveName, number: number) =>
  `${backup}-${attempt.toString(16)}-${number.toString(16)}`

export function writeArchive(pieces: Pieces, deriveKey: DeriveKey, name: ArchiveName): ArchiveWriter {
  const { project } = name
  const key = keyOf(deriveKey, name.backup)
  let count = manifestNumber
  let storedBytes = 0

  async function write(
    number: number,
    fill: (write: PackedWriter['write']) => Promise<void>,
  ): Promise<PackedFile> {
    let writer: PackedWriter | undefined
    try {
      await fill((chunk, onTaken) => {
        writer ??= writePacked(pieces, key, project, versionOf(name, number))
        return writer.write(chunk, onTaken)
      })
      if (!writer) return emptyPackedFile(key, versionOf(name, number))
      const packed = await writer.end()
      storedBytes += packed.storedBytes
      return packed
    } catch (error) {
      await writer?.abort().catch(() => {})
      throw error
    }
  }

  return {
    async add(fill) {
      const number = ++count
      return { number, ...(await write(number, fill)) }
    },
    read: file => readPacked(pieces, key, project, versionOf(name, file.number), file),
    finish: manifest => write(manifestNumber, put => writeLines(manifestLines(manifest), put)),
    get storedBytes() {
      return storedBytes
    },
  }
}

export interface ArchiveReader<M = Manifest> {
  readonly manifest: M
  read(file: ArchivedFile): AsyncIterable<Buffer>
  /** For files that are known to be small. */
  readWhole(file: ArchivedFile): Promise<Buffer>
  /** Whether other bytes are those of the file. */
  check(file: ArchivedFile): ContentCheck
}

/** What a restore of the database needs of an archive. */
export interface DatabaseArchive extends Pick<ArchiveReader, 'read' | 'readWhole'> {
  readonly manifest: Pick<Manifest, 'database'>
}

/** Reads an archive that has no manifest, because it is removed after use. */
export const databaseArchive = (writer: ArchiveWriter, database: DatabaseContents): DatabaseArchive => ({
  manifest: { database },
  read: writer.read,
  readWhole: file => whole(writer.read(file)),
})

/** Throws DamagedFile or MissingPiece if the manifest is not what was written. */
export async function readArchive<M extends Pick<Manifest, 'database'> = Manifest>(
  pieces: Pieces,
  deriveKey: DeriveKey,
  name: ArchiveName,
  expected: PackedFile,
): Promise<ArchiveReader<M>> {
  const key = keyOf(deriveKey, name.backup)
  const open = (number: number, file: PackedFile) =>
    readPacked(pieces, key, name.project, versionOf(name, number), file)
  if (expected.bytes > maxManifestBytes) throw new DamagedFile('the manifest is too large')
  const manifest = await readManifest<M>(open(manifestNumber, expected))
  return {
    manifest,
    read: file => open(file.number, file),
    readWhole: file => whole(open(file.number, file)),
    check: file => checkContent(key, versionOf(name, file.number), file),
  }
}

/** Removes the files of a backup, except those of the attempt to keep. */
export async function removeArchive(
  pieces: Pieces,
  project: string,
  backup: string,
  keptAttempt?: number,
): Promise<void> {
  const kept = keptAttempt === undefined ? undefined : `${project}/${backup}-${keptAttempt.toString(16)}-`
  const names: string[] = []
  for await (const { name } of pieces.list(project))
    if (name.startsWith(`${project}/${backup}-`) && !(kept && name.startsWith(kept))) names.push(name)
  await pieces.remove(names)
}

async function whole(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = []
  for await (const chunk of chunks) all.push(chunk)
  return Buffer.concat(all)
}
