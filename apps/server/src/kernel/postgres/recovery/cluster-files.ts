// Puts the files of a cluster in place for recovery: those of the wanted databases from a base backup, those of all others
// as sparse files of their size. Replay does not need the content of the others, because the first change of a page
// after the start of a base backup has the whole page in the WAL (full_page_writes). A record may also refer to a page that
// it does not change; see `invalid-pages.ts`.
import { chown, type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import type { OsUser } from '#src/kernel/child-processes/process.ts'
import { readPacked } from '#src/kernel/objects/packed-file.ts'
import { type ArchiveStore, baseFolder, commonPart, fileListVersion, partVersion } from './archive-layout.ts'
import { type BaseBackup, partOf } from './base-backup.ts'
import { TarReader } from './tar.ts'

export interface ClusterDirectory {
  /** Creates the directory with those above it. Paths are relative to the cluster. */
  directory(path: string): Promise<void>
  create(path: string): Promise<FileHandle>
}

/** Everything belongs to the user of the database and is private. */
export function clusterDirectory(root: string, user: OsUser | undefined): ClusterDirectory {
  const made = new Set(['.'])
  const place = (path: string) => {
    const normal = normalize(path).replace(/\/$/, '')
    if (normal.startsWith('..') || normal.startsWith('/'))
      throw new Error(`${path} is outside of the cluster`)
    return normal
  }
  async function directory(path: string): Promise<void> {
    const normal = place(path)
    if (made.has(normal)) return
    await directory(dirname(normal))
    made.add(normal)
    await mkdir(join(root, normal), { mode: 0o700 })
    if (user) await chown(join(root, normal), user.uid, user.gid)
  }
  return {
    directory,
    async create(path) {
      const normal = place(path)
      await directory(dirname(normal))
      const file = await open(join(root, normal), 'w', 0o600)
      if (user) await file.chown(user.uid, user.gid)
      return file
    },
  }
}

/** Template 1, template 0 and postgres, in every cluster. */
const systemDatabases = [1, 4, 5]

/** Whether the files of a part have their content, if these databases are wanted. */
export const isPlaced = (oid: number, databases: ReadonlySet<number>): boolean =>
  oid === commonPart || systemDatabases.includes(oid) || databases.has(oid)

export interface Placing {
  signal: AbortSignal
  /** Bytes that were read since the last call. */
  progress(bytes: number): void
}

export async function placeBaseFiles(
  store: ArchiveStore,
  backup: BaseBackup,
  databases: ReadonlySet<number>,
  to: ClusterDirectory,
  { signal, progress }: Placing,
): Promise<void> {
  const folder = baseFolder(store.systemId, backup.id)
  for (const { oid, ...packed } of backup.parts)
    if (isPlaced(oid, databases))
      await unpack(readPacked(store.pieces, store.dataKey, folder, partVersion(backup.id, oid), packed), to, {
        signal,
        progress,
      })
  const list = readPacked(store.pieces, store.dataKey, folder, fileListVersion(backup.id), backup.fileList)
  for await (const line of linesOf(list)) {
    signal.throwIfAborted()
    const [name = '', size = ''] = line.split(' ')
    if (!isPlaced(partOf(name), databases)) await placeSparse(name, Number(size), to)
  }
}

async function placeSparse(name: string, size: number, to: ClusterDirectory): Promise<void> {
  if (/^base\/\d+\/?$/.test(name)) return to.directory(name)
  const file = await to.create(name)
  try {
    await file.truncate(size)
  } finally {
    await file.close()
  }
}

async function unpack(
  source: AsyncIterable<Buffer>,
  to: ClusterDirectory,
  { signal, progress }: Placing,
): Promise<void> {
  const tar = new TarReader()
  let file: FileHandle | undefined
  try {
    for await (const chunk of source) {
      signal.throwIfAborted()
      progress(chunk.length)
      for (const part of tar.push(chunk)) {
        if (part.kind === 'content') await file?.writeFile(part.bytes)
        if (part.kind !== 'entry') continue
        await file?.close()
        file = undefined
        if (part.isDirectory) await to.directory(part.name)
        else file = await to.create(part.name)
      }
    }
    tar.end()
  } finally {
    await file?.close()
  }
}

async function* linesOf(source: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of source) {
    const lines = (rest + chunk.toString('latin1')).split('\n')
    rest = lines.pop()!
    yield* lines
  }
}
