// The bytes of objects. An upload reserves quota, stores encrypted bytes under a new version id, and the bytes are removed
// when no object references the version any more. A complete version never changes.
import { type ByteSource, bytesIn, chunksOf } from '#src/kernel/byte-source.ts'
import { openFile } from '#src/kernel/objects/file-reader.ts'
import { type FileWriter, openFileWriter, type Progress } from '#src/kernel/objects/file-writer.ts'
import { DamagedFile, type FrameCipher, frameCipher } from '#src/kernel/objects/frames.ts'
import { MissingPiece, NoSpace, ObjectsUnavailable, type Pieces } from '#src/kernel/objects/pieces.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { quotaExceeded, storageRefusal, tooLarge } from './refusals.ts'
import type { Removal } from './removal.ts'
import { defaultQuotaMegabytes, type Usage } from './usage.ts'
import type { StoredFile } from './usage-store.ts'

export interface Intake {
  tenant: Tenant
  bucket: string
  source: AsyncIterable<readonly Buffer[]>
  /** The declared size. It is only used to reserve quota in advance; the actual bytes are counted. */
  announcedBytes: number | undefined
  maxBytes: number
  tooLargeHint?: string | undefined
}

export type Files = ReturnType<typeof createFiles>

const megabyte = 1024 * 1024
/** Quota is reserved in steps of this size for uploads without a declared size. */
const stepBytes = megabyte
/** Direct uploads end earlier than this, so the sweeper does not remove a file that is still being uploaded. */
const uploadMs = 15 * 60_000
/** Extends the time for copies, which may have any size. */
const slowestBytesPerMs = 1000

export const quotaBytes = ({ quotas }: Tenant) =>
  (quotas.max_storage_size_mb ?? defaultQuotaMegabytes) * megabyte

interface FilesDeps {
  pieces: Pieces
  usage: Usage
  removal: Removal
  /** Removes unreferenced files. False if the project was swept a moment ago. */
  sweep(tenant: Tenant): Promise<boolean>
}

export function createFiles({ pieces, usage, removal, sweep }: FilesDeps) {
  const cipherOf = async (project: string, version: string): Promise<FrameCipher> =>
    frameCipher(await usage.dataKey(project), version)

  /** Retries the reservation after removing unreferenced files, then throws `storage_quota_exceeded`. */
  async function reserveOrThrow(
    tenant: Tenant,
    bucket: string,
    reserve: () => Promise<boolean>,
  ): Promise<void> {
    if (await reserve()) return
    await removal.flush(tenant.id)
    if (await reserve()) return
    if ((await sweep(tenant)) && (await reserve())) return
    throw quotaExceeded(bucket, await usage.usedBytes(tenant.id), quotaBytes(tenant))
  }

  async function reserve(tenant: Tenant, bucket: string, file: StoredFile, until: Date): Promise<void> {
    // Creates the usage row of the project together with its data key.
    await usage.dataKey(tenant.id)
    await reserveOrThrow(tenant, bucket, () => usage.reserve(tenant.id, file, until, quotaBytes(tenant)))
  }

  const resize = (tenant: Tenant, bucket: string, file: StoredFile) =>
    reserveOrThrow(tenant, bucket, () => usage.resize(tenant.id, file, quotaBytes(tenant)))

  /** Reserves a step in advance if the quota allows it, else exactly what is needed. */
  async function grow(tenant: Tenant, bucket: string, version: string, needed: number, preferred: number) {
    const size = Math.max(needed, preferred)
    if (await usage.resize(tenant.id, { version, size }, quotaBytes(tenant))) return size
    await resize(tenant, bucket, { version, size: needed })
    return needed
  }

  async function receive({ tenant, bucket, source, announcedBytes, maxBytes, tooLargeHint }: Intake) {
    if ((announcedBytes ?? 0) > maxBytes) throw tooLarge(maxBytes, tooLargeHint)
    const version = crypto.randomUUID()
    let reservedBytes = announcedBytes ?? 0
    const until = new Date(Date.now() + uploadMs + reservedBytes / slowestBytesPerMs)
    await reserve(tenant, bucket, { version, size: reservedBytes }, until)
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
        if (size > reservedBytes) {
          reservedBytes = await grow(
            tenant,
            bucket,
            version,
            size,
            Math.min(reservedBytes + stepBytes, maxBytes),
          )
        }
        await writer.write(chunks)
      }
      await writer.end()
      if (writer.size !== reservedBytes) await resize(tenant, bucket, { version, size: writer.size })
      return { version, size: writer.size }
    } catch (error) {
      await writer?.abort().catch(() => {})
      await removal.tryDrop(tenant.id, [{ version, size: Math.max(reservedBytes, writer?.size ?? 0) }])
      throw storageErrorFrom(error)
    }
  }

  async function open(
    project: string,
    file: StoredFile,
    from: number,
    to: number,
  ): Promise<Buffer | ByteSource> {
    const { version, size } = file
    const unpin = removal.pin(project, version)
    try {
      const cipher = await cipherOf(project, version)
      const opened = await openFile({ pieces, cipher, address: { project, version }, size, from, to })
      if (!Buffer.isBuffer(opened)) return pinnedUntilClosed(opened, unpin)
      unpin()
      return opened
    } catch (error) {
      unpin()
      throw storageErrorFrom(error)
    }
  }

  /** Reads the whole file. It is opened on the first read. */
  async function* read(project: string, file: StoredFile): AsyncGenerator<readonly Buffer[]> {
    const opened = await open(project, file, 0, file.size)
    if (Buffer.isBuffer(opened)) yield [opened]
    else yield* chunksOf(opened)
  }

  return {
    receive,
    reserve,
    resize,
    cipherOf,
    open,
    read,
    pin: removal.pin,

    writer: (
      project: string,
      version: string,
      cipher: FrameCipher,
      from: Progress,
      onPiece: (progress: Progress) => Promise<void>,
    ): FileWriter => openFileWriter({ pieces, cipher, address: { project, version }, from, onPiece }),

    /** For versions that no object references any more. */
    dropVersions: removal.dropVersions,
    dropLater: removal.dropLater,
    tryDrop: removal.tryDrop,
  }
}

const pinnedUntilClosed = (source: ByteSource, unpin: () => void): ByteSource => ({
  get hasMore() {
    return source.hasMore
  },
  next: () => source.next(),
  close: () => source.close().finally(unpin),
})

/** Translates errors of the object store for clients. */
export function storageErrorFrom(error: unknown): unknown {
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
