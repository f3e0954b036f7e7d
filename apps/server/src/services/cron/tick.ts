// Which tick comes next, and what to do about one that is due. Ticks are not made up for: what came while the platform was down, or the project
// suspended, is over. One that found no turn for a minute is over, too, but is told of.
import { Refusal } from '#src/kernel/errors.ts'
import { parseSchedule } from './schedule.ts'
import type { DueJob } from './store.ts'

export type Verdict = { kind: 'run' } | { kind: 'skip'; why: string } | { kind: 'drop' }

const seconds = 1000
/** A tick a moment ago is not a missed one. */
const tolerance = 5 * seconds
const patience = 60 * seconds

export function verdictOn(
  due: Pick<DueJob, 'next_run_at' | 'now' | 'project_changed_at' | 'is_running'>,
  nodeStartedAt: Date,
): Verdict {
  const tick = Date.parse(due.next_run_at)
  const lateBy = Date.parse(due.now) - tick
  const wasAway = tick < nodeStartedAt.getTime() || tick < Date.parse(due.project_changed_at)
  if (lateBy > tolerance && wasAway) return { kind: 'drop' }
  if (due.is_running) return { kind: 'skip', why: 'the run before was still going' }
  if (lateBy > patience)
    return { kind: 'skip', why: `it found no turn within ${patience / seconds} seconds of its time` }
  return { kind: 'run' }
}

/** For a schedule whose last tick has come. */
const never = new Date('9999-12-31T00:00:00Z')

/** A schedule that cannot be read, as another version may have left one, must not hold up all the others. */
export function tickAfter(schedule: string, after: Date, before?: Date): Date {
  try {
    return parseSchedule(schedule).next(after, before) ?? never
  } catch (error) {
    if (error instanceof Refusal) return never
    throw error
  }
}
