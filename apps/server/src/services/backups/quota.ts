// How much the backups of a project may take. Those before a restore or an upgrade are always made.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { readUse } from './upkeep-store.ts'

const megabyte = 1_048_576

/** Undefined if another backup may be made. */
export async function quotaRefusal(session: Session, projectId: string): Promise<Refusal | undefined> {
  const { bytes, megabytes } = await readUse(session, projectId)
  if (megabytes === null || bytes < megabytes * megabyte) return
  return new Refusal(
    'backup_quota_exceeded',
    `The backups of this project take ${bytes} bytes, and its quota max_backup_size_mb is ${megabytes} MB. Keep fewer of them (retain_days, retain_count), or ask the operator to raise it`,
  )
}
