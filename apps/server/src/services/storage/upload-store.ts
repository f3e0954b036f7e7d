// Resumable uploads in the control database. A request that appends holds a lease, which expires if the process crashes.
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
  /** Encrypted; empty if there is no incomplete frame. */
  tail: Buffer
  tail_bytes: number
  is_finished: boolean
  content_type: string
  cache_control: string
  user_metadata: object | null
  upload_metadata: string
  is_upsert: boolean
  expires_at: string
  /** False if the sweeper has removed its bytes. */
  is_stored: boolean
}

interface Numbers {
  length: string | null
  frames: string
}

/** After a crash, other requests get the lease this much later. */
const leaseSeconds = 8
const until = sql`now() + make_interval(secs => ${leaseSeconds})`
export const renewMs = 2000
/** The holder stops writing if its last renewal is older. Shorter than the lease, so that two requests never write at once. */
export const trustMs = 6000

const columns = sql`id, version, bucket, name, length, frames, tail, tail_bytes, is_finished, content_type,
  cache_control, user_metadata, upload_metadata, is_upsert, expires_at,
  exists (select from stored_files f where f.project_id = storage_uploads.project_id
                                       and f.version = storage_uploads.version) as is_stored`

const uploadFrom = (row: (UploadRow & Numbers) | undefined): UploadRow | undefined =>
  row && { ...row, length: row.length === null ? null : Number(row.length), frames: Number(row.frames) }

const one = async (control: Database, statement: SqlFragment) =>
  uploadFrom(await control.row<UploadRow & Numbers>(statement))

export type NewUpload = Omit<
  UploadRow,
  'frames' | 'tail' | 'tail_bytes' | 'is_finished' | 'expires_at' | 'is_stored'
> & {
  project: string
  expiresAt: Date
}

/** Maximum number of unfinished uploads of a project. */
const maxUnfinished = 1000

export async function insertUpload(control: Database, upload: NewUpload): Promise<void> {
  const inserted = await control.run(sql`
    insert into storage_uploads (id, project_id, version, bucket, name, length, content_type, cache_control, user_metadata,
      upload_metadata, is_upsert, expires_at)
    select ${upload.id}, ${upload.project}, ${upload.version}, ${upload.bucket}, ${upload.name}, ${upload.length}::bigint,
      ${upload.content_type}, ${upload.cache_control}, ${upload.user_metadata && JSON.stringify(upload.user_metadata)}::jsonb,
      ${upload.upload_metadata}, ${upload.is_upsert}::boolean, ${upload.expiresAt}::timestamptz
     where (select count(*) from storage_uploads where project_id = ${upload.project} and not is_finished) < ${maxUnfinished}`)
  if (inserted === 0)
    throw storageRefusal(
      'SlowDown',
      `This project has ${maxUnfinished} uploads under way; finish or delete some of them`,
      { headers: { 'retry-after': '60' } },
    )
}

export const findUpload = (control: Database, project: string, id: string) =>
  one(
    control,
    sql`select ${columns} from storage_uploads where project_id = ${project} and id = ${id} and expires_at > now()`,
  )

/** Undefined if another request holds the lease, or the upload does not exist. */
const leaseUpload = (control: Database, project: string, id: string, holder: string) =>
  one(
    control,
    sql`update storage_uploads set holder = ${holder}, held_until = ${until}
         where project_id = ${project} and id = ${id} and expires_at > now() and held_until < now()
        returning ${columns}`,
  )

/** False if the lease is lost. Then the caller must not write any more. */
export const renewLease = async (control: Database, id: string, holder: string): Promise<boolean> =>
  (await control.run(
    sql`update storage_uploads set held_until = ${until} where id = ${id} and holder = ${holder}`,
  )) === 1

export const saveProgress = async (
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

/** Also releases the lease. The row stays until it expires, for clients that missed the answer. */
export const markFinished = (control: Database, id: string) =>
  control.run(sql`
    update storage_uploads set is_finished = true, tail = '', holder = null, held_until = '-infinity' where id = ${id}`)

const releaseLease = (control: Database, id: string, holder: string) =>
  control.run(
    sql`update storage_uploads set holder = null, held_until = '-infinity' where id = ${id} and holder = ${holder}`,
  )

export const deleteUpload = (control: Database, id: string) =>
  control.run(sql`delete from storage_uploads where id = ${id}`)

/** Runs the work while this request holds the lease of the upload. */
export async function withLease<T>(
  control: Database,
  project: string,
  id: string,
  work: (upload: UploadRow, holder: string) => Promise<T>,
): Promise<T> {
  const holder = crypto.randomUUID()
  const upload = await leaseUpload(control, project, id, holder)
  if (!upload)
    throw storageRefusal('ResourceLocked', 'Another request is working on this upload; try again shortly')
  const wasFinished = upload.is_finished
  try {
    return await work(upload, holder)
  } finally {
    // Finishing the upload has released the lease.
    if (upload.is_finished === wasFinished) await releaseLease(control, id, holder).catch(() => {})
  }
}
