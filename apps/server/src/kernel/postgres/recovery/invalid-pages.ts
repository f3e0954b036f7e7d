// Files of neighbours are sparse in a recovery, and replay may read a page of them that no record has brought. Postgres calls
// such a page invalid and ends: VACUUM of a hash index refers to the first page of a bucket, which it does not change and
// so does not write to the WAL. Replay goes on instead, and afterwards its log tells which pages these were.
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { partOf } from './base-backup.ts'

/** For the replay only. The log names the pages as warnings. */
export const invalidPageSettings = { ignore_invalid_pages: 'on', log_min_messages: 'warning' }

const form = /page \d+ of relation "?([^\s"]+)"? (is uninitialized|does not exist)/

/** Throws if replay found an invalid page anywhere but in these databases. */
export async function checkInvalidPages(logFile: string, sparse: ReadonlySet<number>): Promise<void> {
  for await (const line of createInterface({ input: createReadStream(logFile), crlfDelay: Infinity })) {
    const [problem, relation = ''] = form.exec(line) ?? []
    if (problem !== undefined && !sparse.has(partOf(relation)))
      throw new Error(`the WAL does not fit to the base backup: ${problem}`)
  }
}
