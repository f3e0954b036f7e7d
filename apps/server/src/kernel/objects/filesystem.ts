// Pieces as files of a directory: <root>/<folder>/<first two characters of the name>/<name>, for their owner alone.
import fs from 'node:fs'
import { mkdir, opendir, rm, stat } from 'node:fs/promises'
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
/** Half of the threads that files are worked on with: the rest go on serving. */
const removedAtOnce = 2
/** Directories remembered as being on disk; past that, all are forgotten and found again. */
const rememberedMax = 20_000

interface Options {
  /** Whether what was finished outlives a loss of power, and not only a crash of the process. */
  isDurable?: boolean
}

export async function openDirectoryPieces(root: string, { isDurable = true }: Options = {}): Promise<Pieces> {
  const syncs = new SharedSync()
  /** Whose own entry, and that of the folder around them, is on disk for sure. */
  const rooted = new Set<string>()
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
    rooted.delete(shardOf(name))
    await mkdir(shardOf(name), { recursive: true, mode: folderMode })
    return openFile(file, flags)
  }

  /** Until its entry is on disk, so are not those of the directories on the way to it. */
  async function syncEntry(name: string): Promise<void> {
    const shard = shardOf(name)
    if (rooted.has(shard)) return syncs.sync(shard)
    await Promise.all([syncs.sync(shard), syncs.sync(join(shard, '..')), syncs.sync(root)])
    if (rooted.size >= rememberedMax) rooted.clear()
    rooted.add(shard)
  }

  async function* list(folder: string): AsyncGenerator<PieceFound> {
    assertFolder(folder)
    for await (const shard of entriesOf(join(root, folder)))
      for await (const entry of entriesOf(join(root, folder, shard))) {
        const name = `${folder}/${entry}`
        if (!isName(name) || !entry.startsWith(shard)) continue
        const found = await stat(fileOf(name)).catch(unlessMissing)
        if (found) yield { name, size: found.size, modifiedAt: found.mtime }
      }
  }

  async function remove(names: readonly string[]): Promise<void> {
    names.forEach(assertName)
    let next = 0
    const inTurn = async () => {
      while (next < names.length) await unlink(fileOf(names[next++]!))
    }
    await Promise.all(Array.from({ length: Math.min(removedAtOnce, names.length) }, inTurn))
  }

  return {
    async write(name, at) {
      assertName(name)
      const fd = await openForWriting(name, at).catch(clearly)
      return createWriter(fd, at, {
        async sync(descriptor) {
          if (isDurable) await promised(done => fs.fdatasync(descriptor, done))
        },
        async syncEntry() {
          if (isDurable) await syncEntry(name)
        },
      })
    },
    async open(name, from, to) {
      assertName(name)
      const fd = await openFile(fileOf(name), O_RDONLY).catch(missing(name))
      try {
        const size = sizeOf(fd)
        return createReader(fd, size, from, Math.min(to, size))
      } catch (error) {
        closeFile(fd)
        throw error
      }
    },
    remove,
    async removeFolder(folder) {
      // A few at a time: a whole tree at once would hold up everyone else's reads.
      let batch: string[] = []
      for await (const { name } of list(folder)) {
        batch.push(name)
        if (batch.length < 256) continue
        await remove(batch)
        batch = []
      }
      await remove(batch)
      await rm(join(root, folder), { recursive: true, force: true, maxRetries: 3 })
    },
    async *folders() {
      for await (const entry of entriesOf(root)) if (isFolder(entry)) yield entry
    },
    list,
    close: async () => {},
  }
}

/** A piece of which `at` bytes are promised; whatever follows them is of an attempt that was given up. */
async function openAt(file: string, name: string, at: number): Promise<number> {
  const fd = await openFile(file, O_WRONLY).catch(missing(name))
  try {
    const size = sizeOf(fd)
    if (size < at) throw new Error(`${name} holds ${size} bytes, not the ${at} it should go on from`)
    if (size > at) await promised(done => fs.ftruncate(fd, at, done))
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

  /** A descriptor in use is not closed: its number might be another file's before the use ends. */
  async function close(): Promise<void> {
    if (!isOpen) return
    isOpen = false
    await underWay.catch(() => {})
    closeFile(fd)
  }
  function use<T>(work: () => Promise<T>): Promise<T> {
    if (!isOpen) return Promise.reject(new Error('the piece is written no more'))
    const used = work().catch(clearly)
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
          left = after(left, written)
        }
      }),
    async finish() {
      try {
        await use(() => sync(fd))
      } catch (error) {
        await close()
        throw error
      }
      await Promise.all([close(), syncEntry().catch(clearly)])
    },
    abort: close,
  }
}

const writeSome = (fd: number, chunks: readonly Buffer[], position: number): Promise<number> =>
  promised(done =>
    chunks.length === 1
      ? fs.write(fd, chunks[0]!, 0, chunks[0]!.length, position, done)
      : fs.writev(fd, chunks, position, done),
  )

/** What is left of them after so many bytes. */
function after(chunks: readonly Buffer[], bytes: number): readonly Buffer[] {
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
      const read = await promised<number>(done =>
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

/** Names of what is in a directory; of one that is not there, none. */
async function* entriesOf(directory: string): AsyncGenerator<string> {
  const entries = await opendir(directory, { bufferSize: 256 }).catch(unlessMissing)
  if (entries) for await (const { name } of entries) yield name
}

/** Callbacks rather than FileHandles: half the time for a small file. */
const promised = <T = void>(
  start: (done: (error: NodeJS.ErrnoException | null, value?: T) => void) => void,
): Promise<T> =>
  new Promise((resolve, reject) => start((error, value) => (error ? reject(error) : resolve(value as T))))

const openFile = (file: string, flags: number): Promise<number> =>
  promised(done => fs.open(file, flags, fileMode, done))
/** At once: neither waits for the disk, and a thread to do it would cost several times as much. */
const closeFile = (fd: number): void => fs.closeSync(fd)
const sizeOf = (fd: number): number => fs.fstatSync(fd).size
const unlink = (file: string): Promise<void> => promised(done => fs.unlink(file, done)).catch(unlessMissing)

const hasCode = (error: unknown, ...codes: string[]) =>
  codes.includes((error as NodeJS.ErrnoException).code ?? '')

function unlessMissing(error: unknown): undefined {
  // ENOTDIR: a stray file where a directory would be.
  if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw error
}

const missing = (name: string) => (error: unknown) => {
  throw hasCode(error, 'ENOENT') ? new MissingPiece(name, error) : error
}

function clearly(error: unknown): never {
  // EFBIG: the operator's limit on the size of files.
  throw hasCode(error, 'ENOSPC', 'EDQUOT', 'EFBIG') ? new NoSpace(error) : error
}
