// What a recovery would lose.
import type { Catalogue, RecoveryPlan } from '#src/kernel/postgres/recovery/catalogue.ts'
import { segmentBytes } from '#src/kernel/postgres/recovery/wal-position.ts'

/** WAL from the start of the segment in which the plan ends: at most what has been written since then. */
export function walAfter({ runs }: Catalogue, { segments }: RecoveryPlan): number {
  const last = segments.at(-1)!
  const later = runs
    .flatMap(run => run.segments)
    .filter(({ timeline, number }) => timeline === last.timeline && number >= last.number)
  return later.reduce((sum, { bytes }) => sum + Math.min(bytes, segmentBytes), 0)
}
