// Checks quota and free disk space before each write, on both planes. The figures are in memory.
import type { NeedsSpace } from '@plinth/contract/route.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { type DatabaseSizes, megabyte } from './database-sizes.ts'
import type { Tenant } from './directory.ts'
import type { DiskReserve } from './disk-reserve.ts'

export interface SpaceCheck {
  /** The error for a write that must be rejected, or undefined. */
  refusal(needs: NeedsSpace, tenant?: Pick<Tenant, 'id' | 'quotas'>): Refusal | undefined
}

export const createSpaceCheck = (
  sizes: Pick<DatabaseSizes, 'bytesOf'>,
  disk: Pick<DiskReserve, 'isReached'>,
): SpaceCheck => ({
  refusal(needs, tenant) {
    if (disk.isReached()) return reserveReached()
    const limitMb = needs === 'database' ? tenant?.quotas.max_database_size_mb : undefined
    if (limitMb === undefined || limitMb === null) return
    const used = sizes.bytesOf(tenant!.id) ?? 0
    return used > limitMb * megabyte ? quotaExceeded(used, limitMb) : undefined
  },
})

const retrySeconds = 10

const reserveReached = () =>
  new Refusal(
    'disk_reserve_reached',
    'The platform is short of disk space and stores nothing more for now; reads and deletions work',
    {
      hint: 'The operator makes room, enlarges the disk or lowers PLATFORM_DISK_RESERVE_MB; GET /health/services has the figures.',
      headers: { 'retry-after': String(retrySeconds) },
    },
  )

const quotaExceeded = (used: number, limitMb: number) =>
  new Refusal(
    'database_quota_exceeded',
    `The database of this project takes ${used} bytes, and its quota is ${limitMb} MB; writes are refused`,
    {
      details: JSON.stringify({ used_bytes: used, limit_bytes: limitMb * megabyte }),
      hint: 'Delete rows and run VACUUM FULL on their tables, truncate or drop tables, or ask the operator to raise max_database_size_mb. Reads, DELETE, exec_sql and migrations work.',
    },
  )
