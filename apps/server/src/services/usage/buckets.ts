// The buckets of an answer from the stored rows. Rows exist only for hours in which something changed. Files that stay
// stored take part in every hour after that, so these hours have a bucket, too.
import type { UsageBucket } from '@plinth/contract/usage.ts'
import { hourMs } from './counters.ts'

export const dayMs = 24 * hourMs

interface Range {
  /** Inclusive. */
  from: number
  /** Exclusive. */
  to: number
  /** Before this midnight, buckets are days. */
  daysBefore: number
  limit: number
}

/** `rows` are the newest that start before `to`, and at least one more than `limit` if there are as many. */
export function fillBuckets(
  rows: readonly UsageBucket[],
  { from, to, daysBefore, limit }: Range,
): UsageBucket[] {
  const startOf = (time: number) => {
    const size = time < daysBefore ? dayMs : hourMs
    return Math.floor(time / size) * size
  }
  const buckets: UsageBucket[] = []
  let start = startOf(to - 1)
  for (const row of rows) {
    const rowStart = Date.parse(row.bucket_start)
    if (row.storage_bytes > 0)
      for (; start > rowStart && start >= from && buckets.length < limit; start = startOf(start - 1))
        buckets.push({
          ...unused,
          bucket_start: new Date(start).toISOString(),
          storage_bytes: row.storage_bytes,
        })
    if (rowStart < from || buckets.length >= limit) break
    buckets.push(row)
    start = startOf(rowStart - 1)
  }
  return buckets
}

const unused = { requests: 0, bytes_in: 0, bytes_out: 0, function_invocations: 0 }
