// Appends bytes to a resumable upload and encrypts them as they arrive. The offset is saved in the control database after
// every piece and at the end of the request, also when the request fails. So a client never has to send bytes again that
// are before the offset it reads.

import { bytesIn } from '#src/kernel/byte-source.ts'
import { startChore } from '#src/kernel/chores.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { RawRequest } from '#src/kernel/http/request.ts'
import type { FileWriter, Progress } from '#src/kernel/objects/file-writer.ts'
import { type FrameCipher, frameBytes } from '#src/kernel/objects/frames.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type Files, storageErrorFrom } from './files.ts'
import { storageRefusal, tooLarge } from './refusals.ts'
import { bodyChunks } from './upload-body.ts'
import type { UploadRow } from './upload-store.ts'
import * as uploads from './upload-store.ts'

/** A finished upload has no stored tail. */
export const offsetOf = (upload: UploadRow) =>
  upload.is_finished ? upload.length! : upload.frames * frameBytes + upload.tail_bytes

export type Append = (
  tenant: Tenant,
  request: RawRequest,
  upload: UploadRow,
  holder: string,
  /** Applies while the upload has no declared length. */
  maxBytes: number,
) => Promise<number>

/** Appends the request body while the caller holds the lease. Returns the new offset. */
export function createAppend(control: Database, files: Files): Append {
  return async (tenant, request, upload, holder, maxBytes) => {
    const declared = Number(request.headers['content-length'] ?? 0)
    checkEnd(upload, maxBytes, offsetOf(upload) + declared)
    const cipher = await files.cipherOf(tenant.id, upload.version)
    const tail = upload.tail_bytes === 0 ? Buffer.alloc(0) : cipher.open(upload.frames, 'tail', upload.tail)
    const save = async ({ frames, tail }: Progress) => {
      // Clients take an upload whose offset equals its length for complete. So the saved offset stays below the length
      // until the object row exists.
      const isAll = frames * frameBytes + tail.length === upload.length
      const sealed = sealTail(cipher, { frames, tail: isAll ? tail.subarray(0, -1) : tail })
      if (!(await uploads.saveProgress(control, upload.id, holder, sealed))) throw lostLease()
    }
    const writer = files.writer(tenant.id, upload.version, cipher, { frames: upload.frames, tail }, save)
    const lease = keepLease(control, upload.id, holder)
    try {
      await appendBody(files, tenant, request, upload, writer, lease, maxBytes)
      await lease.renew()
      if (writer.size === upload.length) await writer.end()
      else await save(await writer.flush())
      return writer.size
    } catch (error) {
      // Save what has arrived, so that the client can resume from there.
      if (!lease.isLost)
        await writer
          .flush()
          .then(save)
          .catch(() => {})
      await writer.abort().catch(() => {})
      throw storageErrorFrom(error)
    } finally {
      lease.stop()
    }
  }
}

async function appendBody(
  files: Files,
  tenant: Tenant,
  { body }: RawRequest,
  upload: UploadRow,
  writer: FileWriter,
  lease: Lease,
  maxBytes: number,
): Promise<void> {
  let reservedBytes = upload.length ?? writer.size
  try {
    for await (const chunks of bodyChunks(body)) {
      if (lease.isLost) throw lostLease()
      const size = writer.size + bytesIn(chunks)
      checkEnd(upload, maxBytes, size)
      if (size > reservedBytes) {
        await files.resize(tenant, upload.bucket, { version: upload.version, size })
        reservedBytes = size
      }
      await writer.write(chunks)
    }
  } catch (error) {
    // The client disconnected after the last byte, so the upload can still be finished.
    if (error instanceof Refusal && error.code === 'client_closed_request' && writer.size === upload.length)
      return
    throw error
  }
}

function checkEnd({ length }: UploadRow, maxBytes: number, size: number): void {
  if (size > (length ?? maxBytes)) throw length === null ? tooLarge(maxBytes) : longerThanDeclared(length)
}

/** The incomplete last frame is encrypted as well, because it is stored in the control database. */
const sealTail = (cipher: FrameCipher, { frames, tail }: Progress) => ({
  frames,
  tail: tail.length === 0 ? tail : Buffer.concat(cipher.seal(frames, 'tail', [tail])),
  tailBytes: tail.length,
})

interface Lease {
  /** Also true when the last renewal is too long ago, because another request may have the lease by now. */
  readonly isLost: boolean
  /** Throws when it is lost. */
  renew(): Promise<void>
  stop(): void
}

function keepLease(control: Database, id: string, holder: string): Lease {
  let isLost = false
  let renewedAt = performance.now()
  const renew = async () => {
    const startedAt = performance.now()
    if (await uploads.renewLease(control, id, holder)) renewedAt = startedAt
    else isLost = true
  }
  const renewing = startChore({ name: 'renew the lease on an upload', everyMs: uploads.renewMs, run: renew })
  return {
    get isLost() {
      return isLost || performance.now() - renewedAt > uploads.trustMs
    },
    async renew() {
      await renew()
      if (isLost) throw lostLease()
    },
    stop: () => void renewing.stop(),
  }
}

export const longerThanDeclared = (length: number) =>
  storageRefusal('EntityTooLarge', `The upload was announced with ${length} bytes, and these are more`)
const lostLease = () =>
  storageRefusal(
    'ResourceLocked',
    'Another request has taken over this upload; ask with HEAD where it stands',
  )
