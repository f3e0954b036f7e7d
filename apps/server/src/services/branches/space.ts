// Free space for the copy of a database, on the disk of an embedded Postgres. That of an external one is not known.
import { Refusal } from '#src/kernel/errors.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { readSize } from './store.ts'

interface SpaceDeps {
  control: Database
  /** Free bytes on the disk of the databases, or undefined if it is not known. */
  freeForDatabases(): Promise<number | undefined>
}

/** The rows, their indexes, and the WAL of both. */
const spaceFactor = 2.2

/** Throws if a copy that shares no blocks with the parent does not fit. */
export async function checkSpace(
  { control, freeForDatabases }: SpaceDeps,
  { parentRef, schemaOnly }: { parentRef: string; schemaOnly: boolean },
): Promise<void> {
  if (schemaOnly) return
  const free = await freeForDatabases()
  if (free === undefined) return
  const needed = Math.ceil(spaceFactor * ((await readSize(control, parentRef)) ?? 0))
  if (free < needed)
    throw new Refusal(
      'insufficient_space',
      `The disk of the database has ${free} bytes beyond PLATFORM_DISK_RESERVE_MB, and a copy of this project needs ${needed}; make room or enlarge the disk, or create the branch with schema_only`,
    )
}
