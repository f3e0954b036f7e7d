// The bytes behind objects: room is taken, they are stored sealed under a version of their own, and they go when nothing
// names them any more. A version is never changed once it is complete.
import { type ByteSource, bytesIn, chunksOf } from '#src/kernel/byte-source.ts'
import { openFile } from '#src/kernel/objects/file-reader.ts'
import { type FileWriter, openFileWriter, type Progress } from '#src/kernel/objects/file-writer.ts'
import { DamagedFile, type FrameCipher, frameCipher } from '#src/kernel/objects/frames.ts'
import { MissingPiece, NoSpace, ObjectsUnavailable, type Pieces } from '#src/kernel/objects/pieces.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Ledger, StoredFile } from './ledger.ts'
import { quotaExceeded, storageRefusal, tooLarge } from './refusals.ts'
import type { Removal } from './removal.ts'

export interface Intake {
  tenant: Tenant
  bucket: string
  source: AsyncIterable<readonly Buffer[]>
  /** As announced; it is not believed. */
  announcedBytes: number | undefined
  maxBytes: number
  tooLargeHint?: string | undefined
}

export type Files = ReturnType<typeof createFiles>

const megabyte = 1024 * 1024
const defaultQuotaMegabytes = 1024
/** Taken at a time for uploads that do not say how long they are. */
const stepBytes = megabyte
/** No direct upload goes on for that long. */
const uploadMs = 15 * 60_000
/** A copy may be of any size. */
const slowestBytesPerMs = 1000

export const quotaBytes = ({ quotas }: Tenant) =>
  (quotas.max_storage_size_mb ?? defaultQuotaMegabytes) * megabyte

interface FilesDeps {
  pieces: Pieces
  ledger: Ledger
  removal: Removal
  /** Makes room by removing what nothing names; false when there was no use in trying. */
  sweep(tenant: Tenant): Promise<boolean>
}

export function createFiles({ pieces, ledger, removal, sweep }: FilesDeps) {
  const cipherOf = async (project: string, version: string): Promise<FrameCipher> =>
    frameCipher(await ledger.dataKey(project), version)

  /** Throws when it does not fit, even after what nothing needs has been removed. */
  async function insist(tenant: Tenant, bucket: string, take: () => Promise<boolean>): Promise<void> {
    if (await take()) return
    await removal.settled(tenant.id)
    if (await take()) return
    if ((await sweep(tenant)) && (await take())) return
    throw quotaExceeded(bucket, await ledger.usedBytes(tenant.id), quotaBytes(tenant))
  }

  async function take(tenant: Tenant, bucket: string, file: StoredFile, until: Date): Promise<void> {
    // Where the room is counted comes into being with the key.
    await ledger.dataKey(tenant.id)
    await insist(tenant, bucket, () => ledger.take(tenant.id, file, until, quotaBytes(tenant)))
  }

  const resize = (tenant: Tenant, bucket: string, file: StoredFile) =>
    insist(tenant, bucket, () => ledger.resize(tenant.id, file, quotaBytes(tenant)))

  /** Some room in advance where there is some, else just what is needed. */
  async function grow(tenant: Tenant, bucket: string, version: string, needed: number, wished: number) {
    const size = Math.max(needed, wished)
    if (await ledger.resize(tenant.id, { version, size }, quotaBytes(tenant))) return size
    await resize(tenant, bucket, { version, size: needed })
    return needed
  }

  async function receive({ tenant, bucket, source, announcedBytes, maxBytes, tooLargeHint }: Intake) {
    if ((announcedBytes ?? 0) > maxBytes) throw tooLarge(maxBytes, tooLargeHint)
    const version = crypto.randomUUID()
    let taken = announcedBytes ?? 0
    const until = new Date(Date.now() + uploadMs + taken / slowestBytesPerMs)
    await take(tenant, bucket, { version, size: taken }, until)
    let writer: FileWriter | undefined
    try {
      writer = openFileWriter({
        pieces,
        cipher: await cipherOf(tenant.id, version),
        address: { project: tenant.id, version },
      })
      for await (const chunks of source) {
        const size = writer.size + bytesIn(chunks)
        if (size > maxBytes) throw tooLarge(maxBytes, tooLargeHint)
        if (size > taken) {
          taken = await grow(tenant, bucket, version, size, Math.min(taken + stepBytes, maxBytes))
        }
        await writer.write(chunks)
      }
      await writer.end()
      if (writer.size !== taken) await resize(tenant, bucket, { version, size: writer.size })
      return { version, size: writer.size }
    } catch (error) {
      await writer?.abort().catch(() => {})
      await removal.dropInPeace(tenant.id, [{ version, size: Math.max(taken, writer?.size ?? 0) }])
      throw told(error)
    }
  }

  async function open(
    project: string,
    file: StoredFile,
    from: number,
    to: number,
  ): Promise<Buffer | ByteSource> {
    const { version, size } = file
    const leave = removal.hold(project, version)
    try {
      const cipher = await cipherOf(project, version)
      const opened = await openFile({ pieces, cipher, address: { project, version }, size, from, to })
      if (!Buffer.isBuffer(opened)) return heldUntilClosed(opened, leave)
      leave()
      return opened
    } catch (error) {
      leave()
      throw told(error)
    }
  }

  /** The whole file, opened when its first bytes are asked for. */
  async function* read(project: string, file: StoredFile): AsyncGenerator<readonly Buffer[]> {
    const opened = await open(project, file, 0, file.size)
    if (Buffer.isBuffer(opened)) yield [opened]
    else yield* chunksOf(opened)
  }

  return {
    receive,
    find: async (project: string, version: string) => (await ledger.find(project, [version]))[0],
    take,
    resize,
    cipherOf,
    open,
    read,
    hold: removal.hold,

    writer: (
      project: string,
      version: string,
      cipher: FrameCipher,
      from: Progress,
      onPiece: (progress: Progress) => Promise<void>,
    ): FileWriter => openFileWriter({ pieces, cipher, address: { project, version }, from, onPiece }),

    /** Nothing names these any more. */
    dropVersions: removal.dropVersions,
    dropSoon: removal.dropSoon,
    dropInPeace: removal.dropInPeace,
  }
}

const heldUntilClosed = (source: ByteSource, leave: () => void): ByteSource => ({
  get hasMore() {
    return source.hasMore
  },
  next: () => source.next(),
  close: () => source.close().finally(leave),
})

/** What goes wrong with bytes, as whoever asked for them is told. */
export function told(error: unknown): unknown {
  if (error instanceof NoSpace)
    return storageRefusal('StorageFull', 'There is no room left on the machine for this file', {
      cause: error,
    })
  if (error instanceof ObjectsUnavailable)
    return storageRefusal('FilesUnavailable', 'Files cannot be reached right now; try again shortly', {
      cause: error,
      headers: { 'retry-after': '1' },
    })
  if (error instanceof DamagedFile || error instanceof MissingPiece)
    return storageRefusal('FileDamaged', 'What is stored of this file is not what was written', {
      cause: error,
    })
  return error
}
