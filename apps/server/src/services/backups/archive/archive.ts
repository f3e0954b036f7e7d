// The files of one backup in the store: packed, encrypted with a key of this backup, and numbered.
import { hkdfSync } from 'node:crypto'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { type PackedFile, readPacked, writePacked } from '#src/kernel/objects/packed-file.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { ArchivedFile, Manifest } from './manifest.ts'

export interface ArchiveWriter {
  /** Writes a file, and returns what is needed to read it. */
  add(fill: (write: (chunk: Buffer) => Promise<void> | void) => Promise<void>): Promise<ArchivedFile>
  /** Reads a file that was added. */
  read(file: ArchivedFile): AsyncIterable<Buffer>
  /** Writes the manifest, which must be the last file. */
  finish(manifest: Manifest): Promise<PackedFile>
  readonly storedBytes: number
}

/** The attempt to make the backup that has written the archive. */
export interface ArchiveName {
  project: string
  backup: string
  attempt: number
}

const manifestNumber = 0
const maxManifestBytes = 256 * 1024 * 1024

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
    fill: (write: (chunk: Buffer) => Promise<void> | void) => Promise<void>,
  ): Promise<PackedFile> {
    const writer = writePacked(pieces, key, project, versionOf(name, number))
    try {
      await fill(chunk => writer.write(chunk))
      const packed = await writer.end()
      storedBytes += packed.storedBytes
      return packed
    } catch (error) {
      await writer.abort().catch(() => {})
      throw error
    }
  }

  return {
    async add(fill) {
      const number = ++count
      return { number, ...(await write(number, fill)) }
    },
    read: file => readPacked(pieces, key, project, versionOf(name, file.number), file),
    finish: manifest =>
      write(manifestNumber, async put => void (await put(Buffer.from(JSON.stringify(manifest))))),
    get storedBytes() {
      return storedBytes
    },
  }
}

export interface ArchiveReader {
  readonly manifest: Manifest
  read(file: ArchivedFile): AsyncIterable<Buffer>
  /** For files that are known to be small. */
  readWhole(file: ArchivedFile): Promise<Buffer>
}

/** Throws DamagedFile or MissingPiece if the manifest is not what was written. */
export async function readArchive(
  pieces: Pieces,
  deriveKey: DeriveKey,
  name: ArchiveName,
  expected: PackedFile,
): Promise<ArchiveReader> {
  const key = keyOf(deriveKey, name.backup)
  const open = (number: number, file: PackedFile) =>
    readPacked(pieces, key, name.project, versionOf(name, number), file)
  if (expected.bytes > maxManifestBytes) throw new DamagedFile('the manifest is too large')
  const manifest = JSON.parse((await whole(open(manifestNumber, expected))).toString()) as Manifest
  if (manifest.format !== 1)
    throw new Error(`the backup has the format ${manifest.format}, which this version cannot read`)
  return {
    manifest,
    read: file => open(file.number, file),
    readWhole: file => whole(open(file.number, file)),
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
