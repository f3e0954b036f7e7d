// Bytes of a resumable upload, sealed into the file's pieces as they come. How far they are on disk is noted in the
// control database after every piece and when the request ends, however it ends: the offset a client is told is what it
// need not send again.
import { bytesIn } from '#src/kernel/byte-source.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { RawRequest } from '#src/kernel/http/request.ts'
import type { FileWriter, Progress } from '#src/kernel/objects/file-writer.ts'
import { type FrameCipher, frameBytes } from '#src/kernel/objects/frames.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type Files, told } from './files.ts'
import { storageRefusal, tooLarge } from './refusals.ts'
import { arriving } from './upload-body.ts'
import type { UploadRow } from './upload-store.ts'
import * as uploads from './upload-store.ts'

/** Of a finished one the tail is gone. */
export const offsetOf = (upload: UploadRow) =>
  upload.is_finished ? upload.length! : upload.frames * frameBytes + upload.tail_bytes

export type Append = (
  tenant: Tenant,
  request: RawRequest,
  upload: UploadRow,
  holder: string,
  /** As long as its own length is not known. */
  maxBytes: number,
) => Promise<number>

/** The body of a request is appended under a hold; answers how far the upload is then. */
export function createAppend(control: Database, files: Files): Append {
  return async (tenant, request, upload, holder, maxBytes) => {
    const announced = Number(request.headers['content-length'] ?? 0)
    checkEnd(upload, maxBytes, offsetOf(upload) + announced)
    const cipher = await files.cipherOf(tenant.id, upload.version)
    const tail = upload.tail_bytes === 0 ? Buffer.alloc(0) : cipher.open(upload.frames, 'tail', upload.tail)
    const note = async ({ frames, tail }: Progress) => {
      // An upload that stands at its length is taken for complete: it does not until its object is there.
      const isAll = frames * frameBytes + tail.length === upload.length
      const noted = sealTail(cipher, { frames, tail: isAll ? tail.subarray(0, -1) : tail })
      if (!(await uploads.noteProgress(control, upload.id, holder, noted))) throw lostHold()
    }
    const writer = files.writer(tenant.id, upload.version, cipher, { frames: upload.frames, tail }, note)
    const hold = keepHold(control, upload.id, holder)
    try {
      await take(files, tenant, request, upload, writer, hold, maxBytes)
      await hold.renew()
      if (writer.size === upload.length) await writer.end()
      else await note(await writer.flush())
      return writer.size
    } catch (error) {
      // What has come so far has come.
      if (!hold.isLost)
        await writer
          .flush()
          .then(note)
          .catch(() => {})
      await writer.abort().catch(() => {})
      throw told(error)
    } finally {
      hold.stop()
    }
  }
}

async function take(
  files: Files,
  tenant: Tenant,
  { body }: RawRequest,
  upload: UploadRow,
  writer: FileWriter,
  hold: Hold,
  maxBytes: number,
): Promise<void> {
  let room = upload.length ?? writer.size
  try {
    for await (const chunks of arriving(body)) {
      if (hold.isLost) throw lostHold()
      const size = writer.size + bytesIn(chunks)
      checkEnd(upload, maxBytes, size)
      if (size > room) {
        await files.resize(tenant, upload.bucket, { version: upload.version, size })
        room = size
      }
      await writer.write(chunks)
    }
  } catch (error) {
    // Nobody is left to be told, but everything has come.
    if (error instanceof Refusal && error.code === 'client_closed_request' && writer.size === upload.length)
      return
    throw error
  }
}

function checkEnd({ length }: UploadRow, maxBytes: number, size: number): void {
  if (size > (length ?? maxBytes)) throw length === null ? tooLarge(maxBytes) : beyond(length)
}

/** What has arrived of the last frame is sealed, too: nothing is in the clear anywhere. */
const sealTail = (cipher: FrameCipher, { frames, tail }: Progress) => ({
  frames,
  tail: tail.length === 0 ? tail : Buffer.concat(cipher.seal(frames, 'tail', [tail])),
  tailBytes: tail.length,
})

interface Hold {
  /** Or not known to be held any more: then another may be writing. */
  readonly isLost: boolean
  /** Throws when it is lost. */
  renew(): Promise<void>
  stop(): void
}

function keepHold(control: Database, id: string, holder: string): Hold {
  let isLost = false
  let heldAt = performance.now()
  const renew = async () => {
    const askedAt = performance.now()
    if (await uploads.renewHold(control, id, holder)) heldAt = askedAt
    else isLost = true
  }
  const timer = setInterval(() => void renew().catch(() => {}), uploads.renewMs)
  return {
    get isLost() {
      return isLost || performance.now() - heldAt > uploads.trustMs
    },
    async renew() {
      await renew()
      if (isLost) throw lostHold()
    },
    stop: () => clearInterval(timer),
  }
}

export const beyond = (length: number) =>
  storageRefusal('EntityTooLarge', `The upload was announced with ${length} bytes, and these are more`)
const lostHold = () =>
  storageRefusal(
    'ResourceLocked',
    'Another request has taken over this upload; ask with HEAD where it stands',
  )
