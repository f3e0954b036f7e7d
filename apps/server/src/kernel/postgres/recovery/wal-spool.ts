// The segments of WAL that are not in the archive yet, as local files. Bytes are appended as they arrive, encrypted in
// records that have an index. A process that is killed may leave an incomplete record at the end, which was never
// confirmed to the server and is cut off.
import { type FileHandle, open, readdir, rename, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { type FrameCipher, overheadBytes } from '#src/kernel/objects/frames.ts'

export interface SpoolFile {
  /** Bytes of WAL. */
  readonly bytes: number
  /** Bytes of the file. */
  readonly storedBytes: number
  append(chunks: readonly Buffer[]): Promise<void>
  sync(): Promise<void>
  close(): Promise<void>
}

/** Where a writer continues. */
export interface SpoolEnd {
  /** Bytes of WAL. */
  bytes: number
  records: number
  /** Bytes of the file. */
  storedBytes: number
}

const lengthBytes = 4
/** More than a receiver keeps in memory before it appends. */
const maxRecordBytes = 4 * 1024 * 1024
const emptySpool: SpoolEnd = { bytes: 0, records: 0, storedBytes: 0 }
const extension = '.partial'

export const spoolPath = (directory: string, segment: string) => join(directory, `${segment}${extension}`)

/** The names of the segments, in order. A missing directory has none. */
export async function spooledSegments(directory: string): Promise<string[]> {
  return (await entriesOf(directory))
    .filter(name => /^[0-9A-F]{24}\.partial$/.test(name))
    .map(name => name.slice(0, -extension.length))
    .sort()
}

const entriesOf = (directory: string) =>
  readdir(directory).catch(error => {
    if (isMissing(error)) return []
    throw error
  })

export const isMissing = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ENOENT'

export const removeSpool = (path: string) => rm(path, { force: true })

/** Until its first record is durable, a segment has another name. */
const newExtension = '.new'

/**
 * Begins a segment, also in the place of an older file. A power loss may leave the size of a record without its bytes. If that were
 * the first one, the file could not be told from one of another key, so it gets its name only afterwards.
 */
export async function beginSpool(
  path: string,
  cipher: FrameCipher,
  syncDirectory: () => Promise<void>,
): Promise<SpoolFile> {
  const file = await open(path + newExtension, 'w', 0o600)
  return spoolFile(file, cipher, emptySpool, async () => {
    await file.datasync()
    await rename(path + newExtension, path)
    await syncDirectory()
  })
}

/** Continues a segment that has a record. */
export const openSpool = async (path: string, cipher: FrameCipher, end: SpoolEnd): Promise<SpoolFile> =>
  spoolFile(await open(path, 'r+', 0o600), cipher, end)

function spoolFile(
  file: FileHandle,
  cipher: FrameCipher,
  end: SpoolEnd,
  onBegun?: () => Promise<void>,
): SpoolFile {
  let { bytes, records, storedBytes } = end
  return {
    get bytes() {
      return bytes
    },
    get storedBytes() {
      return storedBytes
    },
    async append(chunks) {
      const sealed = cipher.seal(records, 'tail', [Buffer.concat(chunks)])
      const length = Buffer.alloc(lengthBytes)
      const sealedBytes = total(sealed)
      length.writeUInt32LE(sealedBytes)
      await writeAll(file, Buffer.concat([length, ...sealed]), storedBytes)
      if (records === 0) await onBegun?.()
      records++
      storedBytes += lengthBytes + sealedBytes
      bytes += total(chunks)
    },
    sync: () => file.datasync(),
    close: () => file.close(),
  }
}

/** Removes what a process left that was killed while it began a segment. Not while one is received. */
export async function removeUnbegun(directory: string): Promise<void> {
  for (const name of await entriesOf(directory))
    if (name.endsWith(extension + newExtension)) await rm(join(directory, name), { force: true })
}

async function writeAll(file: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let written = 0; written < bytes.length; )
    written += (await file.write(bytes, written, bytes.length - written, at + written)).bytesWritten
}

const total = (chunks: readonly Buffer[]) => chunks.reduce((sum, { length }) => sum + length, 0)

/** The segment is no longer in the spool, because it was packed. */
export class NotSpooled extends Error {
  constructor(path: string, cause: unknown) {
    super(`${path} does not exist`, { cause })
    this.name = 'NotSpooled'
  }
}

/** Not even the first record can be decrypted. To take the file for an empty one would lose its WAL. */
export class UnreadableSpool extends Error {
  readonly path: string
  constructor(path: string) {
    super(
      `${path} cannot be decrypted: it is damaged, or of another CONTROL_PLANE_SECRET or cluster. Put the secret back, or move the file away; its WAL is then missing`,
    )
    this.name = 'UnreadableSpool'
    this.path = path
  }
}

/**
 * Yields the bytes of WAL up to the first record that is incomplete, and returns where that starts. Throws UnreadableSpool, and
 * NotSpooled, but neither after the first bytes: an open file can be read to its end.
 */
export async function* readSpool(path: string, cipher: FrameCipher): AsyncGenerator<Buffer, SpoolEnd> {
  const file = await open(path, 'r').catch(error => {
    throw isMissing(error) ? new NotSpooled(path, error) : error
  })
  const end = { ...emptySpool }
  try {
    for (;;) {
      const record = await readRecord(file, end.storedBytes)
      const plain = record && openRecord(cipher, end.records, record)
      if (record && !plain && end.records === 0) throw new UnreadableSpool(path)
      if (!plain) return end
      end.bytes += plain.length
      end.records++
      end.storedBytes += lengthBytes + record.length
      yield plain
    }
  } finally {
    await file.close()
  }
}

async function readRecord(file: FileHandle, at: number): Promise<Buffer | undefined> {
  const length = await readExactly(file, at, lengthBytes)
  const bytes = length?.readUInt32LE(0) ?? 0
  if (bytes <= overheadBytes || bytes > maxRecordBytes) return undefined
  return readExactly(file, at + lengthBytes, bytes)
}

async function readExactly(file: FileHandle, at: number, bytes: number): Promise<Buffer | undefined> {
  const buffer = Buffer.allocUnsafe(bytes)
  for (let filled = 0; filled < bytes; ) {
    const { bytesRead } = await file.read(buffer, filled, bytes - filled, at + filled)
    if (bytesRead === 0) return undefined
    filled += bytesRead
  }
  return buffer
}

/** Where the first record starts that cannot be read. */
export function endOfRecords(spool: Buffer, cipher: FrameCipher): number {
  let at = 0
  for (let index = 0; at + lengthBytes <= spool.length; index++) {
    const to = at + lengthBytes + spool.readUInt32LE(at)
    if (to > spool.length || !openRecord(cipher, index, spool.subarray(at + lengthBytes, to))) break
    at = to
  }
  return at
}

function openRecord(cipher: FrameCipher, index: number, record: Buffer): Buffer | undefined {
  try {
    return cipher.open(index, 'tail', record)
  } catch {
    return undefined
  }
}

/** Cuts off an incomplete record, so that a reader does not take its rest for part of a later one. */
export const cutSpool = (path: string, end: SpoolEnd) => truncate(path, end.storedBytes)
