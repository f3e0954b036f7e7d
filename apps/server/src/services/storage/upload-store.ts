// Resumable uploads in the control database. Whoever appends holds the upload under a lease that ends by itself.
import type { Database } from '#src/kernel/postgres/database.ts'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import { storageRefusal } from './refusals.ts'

export interface UploadRow {
  id: string
  version: string
  bucket: string
  name: string
  length: number | null
  frames: number
  /** Sealed; nothing when there is none. */
  tail: Buffer
  tail_bytes: number
  is_finished: boolean
  content_type: string
  cache_control: string
  user_metadata: object | null
  upload_metadata: string
  is_upsert: boolean
  expires_at: string
}

interface Numbers {
  length: string | null
  frames: string
}

/** A process that dies while it appends keeps others away for that long. */
const leaseSeconds = 8
const until = sql`now() + make_interval(secs => ${leaseSeconds})`
export const renewMs = 2000
/** Without having heard of it for so long, whoever holds it stops. */
export const trustMs = 6000

const columns = sql`id, version, bucket, name, length, frames, tail, tail_bytes, is_finished, content_type,
  cache_control, user_metadata, upload_metadata, is_upsert, expires_at`

const uploadFrom = (row: (UploadRow & Numbers) | undefined): UploadRow | undefined =>
  row && { ...row, length: row.length === null ? null : Number(row.length), frames: Number(row.frames) }

const one = async (control: Database, statement: SqlFragment) =>
  uploadFrom(await control.row<UploadRow & Numbers>(statement))

export type NewUpload = Omit<UploadRow, 'frames' | 'tail' | 'tail_bytes' | 'is_finished' | 'expires_at'> & {
  project: string
  expiresAt: Date
}

/** Uploads of a project that can be under way at the same time. */
const mostUnderWay = 1000

export async function insertUpload(control: Database, upload: NewUpload): Promise<void> {
  const inserted = await control.run(sql`
    insert into storage_uploads (id, project_id, version, bucket, name, length, content_type, cache_control, user_metadata,
      upload_metadata, is_upsert, expires_at)
    select ${upload.id}, ${upload.project}, ${upload.version}, ${upload.bucket}, ${upload.name}, ${upload.length}::bigint,
      ${upload.content_type}, ${upload.cache_control}, ${upload.user_metadata && JSON.stringify(upload.user_metadata)}::jsonb,
      ${upload.upload_metadata}, ${upload.is_upsert}::boolean, ${upload.expiresAt}::timestamptz
     where (select count(*) from storage_uploads where project_id = ${upload.project} and not is_finished) < ${mostUnderWay}`)
  if (inserted === 0)
    throw storageRefusal(
      'SlowDown',
      `This project has ${mostUnderWay} uploads under way; finish or delete some of them`,
      { headers: { 'retry-after': '60' } },
    )
}

export const findUpload = (control: Database, project: string, id: string) =>
  one(
    control,
    sql`select ${columns} from storage_uploads where project_id = ${project} and id = ${id} and expires_at > now()`,
  )

/** Undefined when somebody else holds it, or it is not there. */
const holdUpload = (control: Database, project: string, id: string, holder: string) =>
  one(
    control,
    sql`update storage_uploads set holder = ${holder}, held_until = ${until}
         where project_id = ${project} and id = ${id} and expires_at > now() and held_until < now()
        returning ${columns}`,
  )

/** False when the hold was lost: then nothing may be written any more. */
export const renewHold = async (control: Database, id: string, holder: string): Promise<boolean> =>
  (await control.run(
    sql`update storage_uploads set held_until = ${until} where id = ${id} and holder = ${holder}`,
  )) === 1

export const noteProgress = async (
  control: Database,
  id: string,
  holder: string,
  { frames, tail, tailBytes }: { frames: number; tail: Buffer; tailBytes: number },
): Promise<boolean> =>
  (await control.run(sql`
    update storage_uploads set frames = ${frames}, tail = ${tail}, tail_bytes = ${tailBytes}, held_until = ${until}
     where id = ${id} and holder = ${holder}`)) === 1

export const setLength = (control: Database, id: string, holder: string, length: number) =>
  control.run(sql`
    update storage_uploads set length = ${length} where id = ${id} and holder = ${holder} and length is null`)

/** It stays for a while, for a client that has not heard the answer. */
export const markFinished = (control: Database, id: string) =>
  control.run(
    sql`update storage_uploads set is_finished = true, tail = '', held_until = '-infinity' where id = ${id}`,
  )

const letGo = (control: Database, id: string, holder: string) =>
  control.run(
    sql`update storage_uploads set holder = null, held_until = '-infinity' where id = ${id} and holder = ${holder}`,
  )

export const deleteUpload = (control: Database, id: string) =>
  control.run(sql`delete from storage_uploads where id = ${id}`)

/** Nobody else works on it meanwhile. */
export async function whileHeld<T>(
  control: Database,
  project: string,
  id: string,
  work: (upload: UploadRow, holder: string) => Promise<T>,
): Promise<T> {
  const holder = crypto.randomUUID()
  const upload = await holdUpload(control, project, id, holder)
  if (!upload)
    throw storageRefusal('ResourceLocked', 'Another request is working on this upload; try again shortly')
  try {
    return await work(upload, holder)
  } finally {
    await letGo(control, id, holder).catch(() => {})
  }
}
