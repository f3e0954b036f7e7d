// Stores pieces as files <root>/<folder>/<first two characters of the name>/<name>, which only their owner can read.
import fs from 'node:fs'
import { copyFile, link, mkdir, opendir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { SharedSync } from './filesystem-sync.ts'
import {
  assertFolder,
  assertName,
  isFolder,
  isName,
  MissingPiece,
  NoSpace,
  type PieceFound,
  type PieceReader,
  type Pieces,
  type PieceWriter,
} from './pieces.ts'

const { O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY } = fs.constants
const folderMode = 0o700
const fileMode = 0o600
/** Half of libuv's threads for file operations. The others stay free for reads and writes. */
const removeConcurrency = 2
/** Bounds the memory of `syncedShards`. At this size it is cleared and filled again. */
const maxSyncedShards = 20_000

interface Options {
  /** Whether finished pieces survive a power loss, and not only a crash of the process. */
  isDurable?: boolean
}

export async function openDirectoryPieces(root: string, { isDurable = true }: Options = {}): Promise<Pieces> {
  const syncs = new SharedSync()
  /** Shard directories whose own entry, and that of their folder, is synced to disk. */
  const syncedShards = new Set<string>()
  await mkdir(root, { recursive: true, mode: folderMode })

  const shardOf = (name: string) => {
    const slash = name.indexOf('/')
    return join(root, name.slice(0, slash), name.slice(slash + 1, slash + 3))
  }
  const fileOf = (name: string) => join(shardOf(name), name.slice(name.indexOf('/') + 1))

  async function openForWriting(name: string, at: number): Promise<number> {
    const file = fileOf(name)
    if (at > 0) return openAt(file, name, at)
    const flags = O_WRONLY | O_CREAT | O_TRUNC
    try {
      return await openFile(file, flags)
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
    syncedShards.delete(shardOf(name))
    await mkdir(shardOf(name), { recursive: true, mode: folderMode })
    return openFile(file, flags)
  }

  /** Syncs the entry of a file, and the entries of the directories above it unless they were synced before. */
  async function syncEntry(name: string): Promise<void> {
    const shard = shardOf(name)
    if (syncedShards.has(shard)) return syncs.sync(shard)
    await Promise.all([syncs.sync(shard), syncs.sync(join(shard, '..')), syncs.sync(root)])
    if (syncedShards.size >= maxSyncedShards) syncedShards.clear()
    syncedShards.add(shard)
  }

  async function* list(folder: string): AsyncGenerator<PieceFound> {
    assertFolder(folder)
    for await (const shard of entriesOf(join(root, folder)))
      for await (const entry of entriesOf(join(root, folder, shard))) {
        const name = `${folder}/${entry}`
        if (!isName(name) || !entry.startsWith(shard)) continue
        const found = await stat(fileOf(name)).catch(ignoreMissing)
        if (found) yield { name, size: found.size, modifiedAt: found.mtime }
      }
  }

  async function remove(names: readonly string[], signal?: AbortSignal): Promise<void> {
    names.forEach(assertName)
    let next = 0
    const removeNext = async () => {
      for (; next < names.length; signal?.throwIfAborted()) await unlink(fileOf(names[next++]!))
    }
    signal?.throwIfAborted()
    await Promise.all(Array.from({ length: Math.min(removeConcurrency, names.length) }, removeNext))
  }

  return {
    async write(name, at) {
      assertName(name)
      const fd = await openForWriting(name, at).catch(throwWriteError)
      return createWriter(fd, at, {
        async sync(descriptor) {
          if (isDurable) await fromCallback(done => fs.fdatasync(descriptor, done))
        },
        async syncEntry() {
          if (isDurable) await syncEntry(name)
        },
      })
    },
    async open(name, from, to) {
      assertName(name)
      const fd = await openFile(fileOf(name), O_RDONLY).catch(throwOpenError(name))
      try {
        const size = sizeOf(fd)
        return createReader(fd, size, from, Math.min(to, size))
      } catch (error) {
        closeFile(fd)
        throw error
      }
    },
    remove,
    async copy(from, to) {
      assertName(from)
      assertName(to)
      await mkdir(shardOf(to), { recursive: true, mode: folderMode })
      await linkOrCopy(fileOf(from), fileOf(to)).catch(throwOpenError(from))
      if (isDurable) await syncEntry(to)
    },
    async removeFolder(folder, signal) {
      // In batches: removing the whole tree with one `rm` would use all threads and delay every read.
      let batch: string[] = []
      for await (const { name } of list(folder)) {
        batch.push(name)
        if (batch.length < 256) continue
        await remove(batch, signal)
        batch = []
      }
      await remove(batch, signal)
      await rm(join(root, folder), { recursive: true, force: true, maxRetries: 3 })
    },
    async *folders() {
      for await (const entry of entriesOf(root)) if (isFolder(entry)) yield entry
    },
    list,
    close: async () => {},
  }
}

/** A hard link needs neither time nor space. It is not possible on every file system, and not any number of times. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return
    if (!hasCode(error, 'EMLINK', 'EPERM', 'ENOTSUP', 'EXDEV')) throw error
    await copyFile(from, to)
    await syncFile(to)
  }
}

async function syncFile(file: string): Promise<void> {
  const fd = await openFile(file, O_RDONLY)
  try {
    await fromCallback(done => fs.fdatasync(fd, done))
  } finally {
    closeFile(fd)
  }
}

/** Opens an existing piece to append after its first `at` bytes. Later bytes are from an aborted write and are cut off. */
async function openAt(file: string, name: string, at: number): Promise<number> {
  const fd = await openFile(file, O_WRONLY).catch(throwOpenError(name))
  try {
    const size = sizeOf(fd)
    if (size < at) throw new Error(`${name} has ${size} bytes, cannot continue after ${at}`)
    if (size > at) await fromCallback(done => fs.ftruncate(fd, at, done))
    return fd
  } catch (error) {
    closeFile(fd)
    throw error
  }
}

interface Durability {
  sync(fd: number): Promise<void>
  syncEntry(): Promise<void>
}

function createWriter(fd: number, at: number, { sync, syncEntry }: Durability): PieceWriter {
  let position = at
  let isOpen = true
  let underWay: Promise<unknown> = Promise.resolve()

  /** Waits for the current write: after a close, the descriptor's number could belong to another file. */
  async function close(): Promise<void> {
    if (!isOpen) return
    isOpen = false
    await underWay.catch(() => {})
    closeFile(fd)
  }
  function use<T>(work: () => Promise<T>): Promise<T> {
    if (!isOpen) return Promise.reject(new Error('the piece is closed'))
    const used = work().catch(throwWriteError)
    underWay = used
    return used
  }
  return {
    append: chunks =>
      use(async () => {
        let left = chunks
        while (left.length > 0) {
          const written = await writeSome(fd, left, position)
          position += written
          left = skipBytes(left, written)
        }
      }),
    async finish() {
      try {
        await use(() => sync(fd))
      } catch (error) {
        await close()
        throw error
      }
      await Promise.all([close(), syncEntry().catch(throwWriteError)])
    },
    abort: close,
  }
}

const writeSome = (fd: number, chunks: readonly Buffer[], position: number): Promise<number> =>
  fromCallback(done =>
    chunks.length === 1
      ? fs.write(fd, chunks[0]!, 0, chunks[0]!.length, position, done)
      : fs.writev(fd, chunks, position, done),
  )

/** The chunks without their first `bytes` bytes. */
function skipBytes(chunks: readonly Buffer[], bytes: number): readonly Buffer[] {
  let index = 0
  let skipped = bytes
  while (index < chunks.length && skipped >= chunks[index]!.length) skipped -= chunks[index++]!.length
  const left = chunks.slice(index)
  if (skipped > 0) left[0] = left[0]!.subarray(skipped)
  return left
}

function createReader(fd: number, size: number, from: number, to: number): PieceReader {
  let position = from
  let isOpen = true
  let underWay: Promise<unknown> = Promise.resolve()

  async function fill(buffer: Buffer): Promise<number> {
    const wanted = Math.min(buffer.length, Math.max(0, to - position))
    let filled = 0
    while (filled < wanted) {
      const read = await fromCallback<number>(done =>
        fs.read(fd, buffer, filled, wanted - filled, position, done),
      )
      if (read === 0) break
      filled += read
      position += read
    }
    return filled
  }
  return {
    size,
    fill(buffer) {
      if (!isOpen) return Promise.reject(new Error('the piece is closed'))
      const filled = fill(buffer)
      underWay = filled
      return filled
    },
    async close() {
      if (!isOpen) return
      isOpen = false
      await underWay.catch(() => {})
      closeFile(fd)
    },
  }
}

/** The names in a directory. A missing directory has none. */
async function* entriesOf(directory: string): AsyncGenerator<string> {
  const entries = await opendir(directory, { bufferSize: 256 }).catch(ignoreMissing)
  if (entries) for await (const { name } of entries) yield name
}

/** Wraps a callback API of `fs`. Compared with FileHandles, a small file takes half the time. */
const fromCallback = <T = void>(
  start: (done: (error: NodeJS.ErrnoException | null, value?: T) => void) => void,
): Promise<T> =>
  new Promise((resolve, reject) => start((error, value) => (error ? reject(error) : resolve(value as T))))

const openFile = (file: string, flags: number): Promise<number> =>
  fromCallback(done => fs.open(file, flags, fileMode, done))
/** Synchronous, like fstat: neither waits for the disk, and using the thread pool would take several times as long. */
const closeFile = (fd: number): void => fs.closeSync(fd)
const sizeOf = (fd: number): number => fs.fstatSync(fd).size
const unlink = (file: string): Promise<void> =>
  fromCallback(done => fs.unlink(file, done)).catch(ignoreMissing)

const hasCode = (error: unknown, ...codes: string[]) =>
  codes.includes((error as NodeJS.ErrnoException).code ?? '')

function ignoreMissing(error: unknown): undefined {
  // ENOTDIR: there is a file where a directory was expected.
  if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw error
}

const throwOpenError = (name: string) => (error: unknown) => {
  throw hasCode(error, 'ENOENT') ? new MissingPiece(name, error) : error
}

function throwWriteError(error: unknown): never {
  // EFBIG: the file exceeds the limit on file sizes of the process.
  throw hasCode(error, 'ENOSPC', 'EDQUOT', 'EFBIG') ? new NoSpace(error) : error
}
