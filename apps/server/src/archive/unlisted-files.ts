// The snapshot of the control database is taken right after that of the project database. A file that is removed in between
// is not in the list of files any more, although the copied database refers to it.
import { inBatches } from '#src/kernel/batches.ts'
import type { ProjectData, ProjectFile } from '#src/tenancy/project-data.ts'
import type { DatabaseReader } from '#src/tenancy/project-reader.ts'

interface Copied {
  /** Reads the copy of the project database, or the snapshot that is copied. */
  database: DatabaseReader
  /** The files of one service, in the order in which the service lists them. */
  listed: AsyncGenerator<ProjectFile>
  /**
   * Of these versions, those that the project refers to now. What it still refers to was not removed: its owner wrote the
   * row, and there were never any bytes.
   */
  stillReferred(versions: readonly string[]): Promise<string[]>
  signal: AbortSignal
}

const batch = 1000

/** How many files of a service were removed between both snapshots. */
export async function countUnlisted(
  projectData: Pick<ProjectData, 'filesOf'>,
  service: string,
  { database, listed, stillReferred, signal }: Copied,
): Promise<number> {
  const { allReferred } = projectData.filesOf(service)
  if (!allReferred) return 0
  let count = 0
  for await (const some of inBatches(absent(allReferred(database), versionsOf(service, listed)), batch)) {
    signal.throwIfAborted()
    count += some.length - (await stillReferred(some)).length
  }
  return count
}

async function* versionsOf(service: string, files: AsyncIterable<ProjectFile>): AsyncGenerator<string> {
  for await (const file of files) if (file.service === service) yield file.version
}

/** Those of the first that are not in the second. Both are in the same order. */
async function* absent(
  wanted: AsyncIterable<string>,
  present: AsyncGenerator<string>,
): AsyncGenerator<string> {
  let next = await present.next()
  for await (const version of wanted) {
    while (!next.done && next.value < version) next = await present.next()
    if (next.done || next.value !== version) yield version
  }
}
