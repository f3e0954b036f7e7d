// Whether the disk of the databases has room for another copy of a project. If it filled up, writes of all projects would end.
import type { Backup } from '@plinth/contract/backups.ts'
import { type DatabaseContents, databaseBytes } from '#src/archive/manifest.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import * as store from './store.ts'

/** A restore fills a second database, builds its indexes and writes WAL, while the state before is kept. */
const spaceFactor = 2.2

export interface DiskSpace {
  /** Free bytes on the disk of the databases, or undefined if it is not known. */
  freeForDatabases(): Promise<number | undefined>
}

export class InsufficientSpace extends Error {
  constructor(free: number, needed: number) {
    super(
      `The disk of the database has ${free} bytes beyond PLATFORM_DISK_RESERVE_MB, and a copy from this backup needs ${needed}.`,
    )
    this.name = 'InsufficientSpace'
  }
}

/** Before a restore is begun. With a ref, also for the present state, which is kept for an undo. */
export async function checkSpaceFor(
  { control, freeForDatabases }: DiskSpace & { control: Session },
  backup: Backup,
  ref?: string,
): Promise<void> {
  const free = await freeForDatabases()
  if (free === undefined) return
  const sizes = [
    await store.findContentBytes(control, backup),
    ref === undefined ? 0 : await store.findDatabaseBytes(control, ref),
  ]
  const needed = Math.ceil(spaceFactor * Math.max(...sizes))
  if (free < needed)
    throw new Refusal(
      'insufficient_space',
      `The disk of the database has ${free} bytes beyond PLATFORM_DISK_RESERVE_MB, and a restore of this backup needs ${needed}; make room or enlarge the disk. Nothing was changed`,
    )
}

/** Before a database is created for these contents. */
export async function checkSpace({ freeForDatabases }: DiskSpace, contents: DatabaseContents): Promise<void> {
  const free = await freeForDatabases()
  const needed = Math.ceil(spaceFactor * databaseBytes(contents))
  if (free !== undefined && free < needed) throw new InsufficientSpace(free, needed)
}
