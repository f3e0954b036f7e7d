// The files of a project in the store of backups. A version of a file never changes, so each is copied once and shared by
// all backups that contain it. It stays encrypted with the key of the project.
import type { KeyObject } from 'node:crypto'
import { inBatches } from '#src/kernel/batches.ts'
import { chunksOf, sourceOf } from '#src/kernel/byte-source.ts'
import { openFile } from '#src/kernel/objects/file-reader.ts'
import { DamagedFile, frameCipher } from '#src/kernel/objects/frames.ts'
import { pieceCount, pieceName, storedPieceBytes } from '#src/kernel/objects/layout.ts'
import { MissingPiece, type Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { listNotedFiles, noteFiles } from '../store.ts'
import type { Watching } from './write-database.ts'

export interface FileVersion {
  version: string
  size: number
}

export interface FileStores {
  control: Database
  /** Where the files of projects are. */
  live: Pieces
  backups: Pieces
}

const batch = 200
const chunkBytes = 1 << 20

export interface CopiedFiles {
  count: number
  bytes: number
  storedBytes: number
  /** Versions that were removed before they could be copied. */
  missing: string[]
}

/** Copies what the store does not have. `at` is the time of the backup. */
export async function copyFiles(
  { control, live, backups }: FileStores,
  project: string,
  files: AsyncIterable<FileVersion>,
  at: string,
  { signal, progress }: Watching,
): Promise<CopiedFiles> {
  const copied: CopiedFiles = { count: 0, bytes: 0, storedBytes: 0, missing: [] }
  for await (const some of inBatches(files, batch)) {
    const present = await listNotedFiles(
      control,
      project,
      some.map(({ version }) => version),
    )
    const stored: FileVersion[] = []
    for (const file of some) {
      signal.throwIfAborted()
      if (!present.has(file.version))
        try {
          copied.storedBytes += await copyFile(live, backups, project, file, progress)
        } catch (error) {
          if (!(error instanceof MissingPiece)) throw error
          copied.missing.push(file.version)
          continue
        }
      stored.push(file)
      copied.count++
      copied.bytes += file.size
    }
    // After their bytes, so that a noted version is always there.
    if (stored.length > 0) await noteFiles(control, project, stored, at)
  }
  return copied
}

async function copyFile(
  from: Pieces,
  to: Pieces,
  project: string,
  { version, size }: FileVersion,
  progress: Watching['progress'],
): Promise<number> {
  let stored = 0
  for (let piece = 0; piece < pieceCount(size); piece++) {
    const bytes = storedPieceBytes(size, piece)
    await copyPiece(from, to, pieceName(project, version, piece), bytes)
    progress('files', bytes)
    stored += bytes
  }
  return stored
}

async function copyPiece(from: Pieces, to: Pieces, name: string, bytes: number): Promise<void> {
  const reader = await from.open(name, 0, bytes)
  try {
    const writer = await to.write(name, 0)
    try {
      for (let at = 0; at < bytes; ) {
        const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, bytes - at))
        const filled = await reader.fill(chunk)
        if (filled < chunk.length) throw new MissingPiece(name)
        await writer.append([chunk])
        at += filled
      }
      await writer.finish()
    } finally {
      await writer.abort()
    }
  } finally {
    await reader.close()
  }
}

/** Copies the files of a backup that the project does not have any more. */
export async function putFilesBack(
  { live, backups }: FileStores,
  project: string,
  files: AsyncIterable<FileVersion>,
  { signal, progress }: Watching,
): Promise<void> {
  const sizes = new Map<string, number>()
  for await (const { name, size } of live.list(project)) sizes.set(name, size)
  for await (const { version, size } of files)
    for (let piece = 0; piece < pieceCount(size); piece++) {
      signal.throwIfAborted()
      const name = pieceName(project, version, piece)
      const bytes = storedPieceBytes(size, piece)
      if (sizes.get(name) === bytes) continue
      await copyPiece(backups, live, name, bytes)
      progress('files', bytes)
    }
}

/** Reads all bytes of the files, and returns what is wrong as sentences. */
export async function checkFiles(
  backups: Pieces,
  keyOf: (project: string) => Promise<KeyObject>,
  project: string,
  files: AsyncIterable<FileVersion>,
  { signal, progress }: Watching,
): Promise<string[]> {
  const differences: string[] = []
  let key: KeyObject | undefined
  for await (const { version, size } of files) {
    key ??= await keyOf(project)
    try {
      const range = {
        cipher: frameCipher(key, version),
        address: { project, version },
        size,
        from: 0,
        to: size,
      }
      const opened = await openFile({ pieces: backups, ...range })
      for await (const run of chunksOf(Buffer.isBuffer(opened) ? sourceOf([opened]) : opened)) {
        signal.throwIfAborted()
        for (const chunk of run) progress('files', chunk.length)
      }
    } catch (error) {
      if (!(error instanceof DamagedFile || error instanceof MissingPiece)) throw error
      differences.push(`the file with the version ${version} is damaged or missing`)
    }
  }
  return differences
}
