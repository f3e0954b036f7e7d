// Names in an archive begin with the ref of its project. A database of another project has its ref there instead.
import type { DumpedObject } from '#src/kernel/postgres/dump/contents.ts'
import type { Sliced } from '#src/kernel/slices.ts'

export interface Refs {
  /** The ref in the archive. */
  from: string
  /** That of the project that has the restored database. */
  to: string
}

/** For a database that belongs to no project. */
export const noRefs: Refs = { from: '', to: '' }

/** Characters of definitions that are searched in one slice. */
const sliceLength = 1 << 20

export const renamed = (text: string, { from, to }: Refs): string =>
  from === to ? text : text.replaceAll(from, to)

export function* renameObjects(objects: readonly DumpedObject[], refs: Refs): Sliced<DumpedObject[]> {
  const all: DumpedObject[] = []
  let length = 0
  for (const object of objects) {
    length += object.sql.length
    if (length > sliceLength) {
      length = 0
      yield
    }
    all.push({
      ...object,
      sql: renamed(object.sql, refs),
      drop: renamed(object.drop, refs),
      owner: renamed(object.owner, refs),
      tag: renamed(object.tag, refs),
    })
  }
  return all
}
