// The files of a project in the store of backups: those of users, and the code of edge functions. A version of a file
// never changes, so each is copied once and shared by all backups that contain it. It stays encrypted with its key.
import type { KeyObject } from 'node:crypto'
import type { ArchiveName, ArchiveReader } from '#src/archive/archive.ts'
import { readLines } from '#src/archive/json-lines.ts'
import type { Watching } from '#src/archive/write-database.ts'
import { inBatches } from '#src/kernel/batches.ts'
import { chunksOf, sourceOf } from '#src/kernel/byte-source.ts'
import { openFile } from '#src/kernel/objects/file-reader.ts'
import { DamagedFile, frameCipher } from '#src/kernel/objects/frames.ts'
import { pieceCount, pieceName, storedPieceBytes } from '#src/kernel/objects/layout.ts'
import { MissingPiece, type Pieces } from '#src/kernel/objects/pieces.ts'
import { sizesIn } from '#src/kernel/objects/sizes.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { ExportedRow, ProjectData, ProjectFile } from '#src/tenancy/project-data.ts'
import type { DatabaseReader } from '#src/tenancy/project-reader.ts'
import type { FileDifference } from './differences.ts'
import { isDamaged, listCopied, noteDamaged, noteFiles } from './files-store.ts'
import { liveFiles } from './live-files.ts'

export interface FileStores {
  control: Database
  projectData: ProjectData
  /** Where the files of projects are. */
  live: Pieces
  backups: Pieces
}

const batch = 200
const referredBatch = 1000
const chunkBytes = 1 << 20

export interface CopiedFiles {
  count: number
  bytes: number
  storedBytes: number
  /** Files that were removed before they could be copied, or are not complete yet. */
  missing: number
}

/** Copies what the store does not have. */
export async function copyFiles(
  { control, projectData, live, backups }: FileStores,
  { project, backup }: Pick<ArchiveName, 'project' | 'backup'>,
  files: AsyncIterable<ProjectFile>,
  { signal, progress }: Watching,
): Promise<CopiedFiles> {
  const copied: CopiedFiles = { count: 0, bytes: 0, storedBytes: 0, missing: 0 }
  for await (const some of inBatches(files, batch)) {
    const present = await listCopied(control, project, some)
    const stored: (ProjectFile & { isDamaged: boolean })[] = []
    for (const file of some) {
      signal.throwIfAborted()
      let isLost = false
      if (!present.has(file.version))
        try {
          const folder = projectData.filesOf(file.service).folder(project, file.version)
          copied.storedBytes += await copyFile(
            { live: liveFiles(live), backups },
            folder,
            project,
            file,
            progress,
          )
        } catch (error) {
          if (!(error instanceof MissingPiece)) throw error
          // A backup with one damaged file is better than none.
          isLost = await isDamaged(control, project, file)
          if (!isLost) {
            copied.missing++
            continue
          }
        }
      stored.push({ ...file, isDamaged: isLost })
      copied.count++
      copied.bytes += file.size
    }
    // After their bytes, so that a noted version is always there.
    if (stored.length > 0) await noteFiles(control, backup, stored)
  }
  return copied
}

/**
 * Of these files, those that the project database refers to. The others are uploads that have not ended, even if their
 * pieces have the size that was reserved for them so far.
 */
export async function* onlyReferred(
  projectData: ProjectData,
  database: DatabaseReader,
  files: AsyncIterable<ProjectFile>,
): AsyncGenerator<ProjectFile> {
  for await (const some of inBatches(files, referredBatch))
    for (const [service, ofService] of Map.groupBy(some, file => file.service)) {
      const { referred } = projectData.filesOf(service)
      const versions = ofService.map(({ version }) => version)
      const named = referred && new Set(await referred(database, versions))
      for (const file of ofService) if (!named || named.has(file.version)) yield file
    }
}

async function copyFile(
  { live, backups }: { live: Pick<Pieces, 'open'>; backups: Pieces },
  folder: string,
  project: string,
  { version, size }: ProjectFile,
  progress: Watching['progress'],
): Promise<number> {
  let stored = 0
  for (let piece = 0; piece < pieceCount(size); piece++) {
    const bytes = storedPieceBytes(size, piece)
    const [from, to] = [pieceName(folder, version, piece), pieceName(project, version, piece)]
    await copyPiece(live, from, backups, to, bytes)
    progress('files', bytes)
    stored += bytes
  }
  return stored
}

async function copyPiece(
  from: Pick<Pieces, 'open'>,
  name: string,
  to: Pick<Pieces, 'write'>,
  newName: string,
  bytes: number,
): Promise<void> {
  const reader = await from.open(name, 0, bytes)
  try {
    // An upload that goes on has stored more since its size was read.
    if (reader.size !== bytes) throw new MissingPiece(name)
    const writer = await to.write(newName, 0)
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

/** The files that an archive lists. Those of the first release were all of users. */
async function* listed({ manifest, read }: ArchiveReader): AsyncGenerator<ProjectFile> {
  for await (const file of readLines<Partial<ProjectFile> & Omit<ProjectFile, 'service'>>(
    read(manifest.files),
  ))
    yield { service: 'storage', ...file }
}

/**
 * Copies the files of a backup that the project does not have. It may be another one than that of the backup. Throws
 * MissingPiece, unless told what to do.
 */
export async function putFilesBack(
  { projectData, live: pieces, backups }: FileStores,
  archive: ArchiveReader,
  to: string,
  { signal, progress }: Watching,
  onMissing?: (error: MissingPiece) => void,
): Promise<void> {
  const { id: project } = archive.manifest.project
  const live = liveFiles(pieces)
  let present = { folder: '', sizes: new Map<string, number>() }
  for await (const { service, version, size } of listed(archive)) {
    const folder = projectData.filesOf(service).folder(to, version)
    if (present.folder !== folder) present = { folder, sizes: await sizesIn(live, folder) }
    for (let piece = 0; piece < pieceCount(size); piece++) {
      signal.throwIfAborted()
      const name = pieceName(folder, version, piece)
      const bytes = storedPieceBytes(size, piece)
      if (present.sizes.get(name) === bytes) continue
      try {
        await copyPiece(backups, pieceName(project, version, piece), live, name, bytes)
      } catch (error) {
        if (!onMissing || !(error instanceof MissingPiece)) throw error
        onMissing(error)
      }
      progress('files', bytes)
    }
  }
}

/** How many files of an archive neither the project nor its backups have any more. */
export async function countMissing(
  { projectData, live, backups }: FileStores,
  archive: ArchiveReader,
  signal: AbortSignal,
): Promise<number> {
  const { id: project } = archive.manifest.project
  const backedUp = await sizesIn(backups, project)
  let present = { folder: '', sizes: new Map<string, number>() }
  let missing = 0
  for await (const { service, version, size } of listed(archive)) {
    signal.throwIfAborted()
    const folder = projectData.filesOf(service).folder(project, version)
    if (present.folder !== folder) present = { folder, sizes: await sizesIn(live, folder) }
    for (let piece = 0; piece < pieceCount(size); piece++) {
      const bytes = storedPieceBytes(size, piece)
      const isStored =
        present.sizes.get(pieceName(folder, version, piece)) === bytes ||
        backedUp.get(pieceName(project, version, piece)) === bytes
      if (isStored) continue
      missing++
      break
    }
  }
  return missing
}

/**
 * Reads all bytes of the files of a backup, and returns what is wrong. All backups of the project share a damaged
 * file, so the next one copies it again.
 */
export async function checkFiles(
  { control, projectData, backups }: Pick<FileStores, 'control' | 'projectData' | 'backups'>,
  archive: ArchiveReader,
  { signal, progress }: Watching,
): Promise<FileDifference[]> {
  const { id: project } = archive.manifest.project
  const keysOf = new Map<string, (version: string) => KeyObject>()
  const differences: FileDifference[] = []
  for await (const { service, version, size } of listed(archive)) {
    const keys = keysOf.get(service) ?? (await readKeys(projectData, archive, service))
    keysOf.set(service, keys)
    try {
      const range = {
        cipher: frameCipher(keys(version), version),
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
      await noteDamaged(control, project, { version, size })
      differences.push({ kind: 'files', text: `the file with the version ${version} is damaged or missing` })
    }
  }
  return differences
}

/** With the keys that a restore would use, which are in the archive. */
function readKeys(projectData: ProjectData, { manifest, read }: ArchiveReader, service: string) {
  const exported = manifest.services.find(each => each.service === service)
  if (!exported) throw new DamagedFile(`the archive has files of ${service} without their keys`)
  return projectData.filesOf(service).keys({
    from: manifest.project.id,
    rows: readLines<ExportedRow>(read(exported.file)),
  })
}
