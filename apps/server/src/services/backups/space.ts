// Whether the disk of the databases has room for another copy of a project. If it filled up, writes of all projects would end.
import type { DatabaseContents } from '#src/archive/manifest.ts'

/** A restore fills a second database, builds its indexes and writes WAL, while the state before is kept. */
export const spaceFactor = 2.2

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

/** Bytes of the schema, the rows and the large objects. */
export const bytesOf = ({ schema, tables, largeObjectsFile }: DatabaseContents) =>
  tables.reduce((sum, { file }) => sum + file.bytes, schema.bytes + (largeObjectsFile?.bytes ?? 0))

/** Before a database is created for these contents. */
export async function checkSpace({ freeForDatabases }: DiskSpace, contents: DatabaseContents): Promise<void> {
  const free = await freeForDatabases()
  const needed = Math.ceil(spaceFactor * bytesOf(contents))
  if (free !== undefined && free < needed) throw new InsufficientSpace(free, needed)
}
