// Computes the next tick, and decides about a due one. Ticks that were missed while the platform was down or the project was
// suspended are dropped. A tick that waited for a slot for more than a minute is recorded as skipped.
import { Refusal } from '#src/kernel/errors.ts'
import { parseSchedule } from './schedule.ts'
import type { DueJob } from './store.ts'

export type TickDecision = { kind: 'run' } | { kind: 'skip'; why: string } | { kind: 'drop' }

const seconds = 1000
/** A tick that is late by less than this does not count as missed. */
const recentMs = 5 * seconds
const maxLateMs = 60 * seconds

export function decideTick(
  due: Pick<DueJob, 'next_run_at' | 'now' | 'project_changed_at' | 'is_running'>,
  nodeStartedAt: Date,
): TickDecision {
  const tick = Date.parse(due.next_run_at)
  const lateBy = Date.parse(due.now) - tick
  const wasAway = tick < nodeStartedAt.getTime() || tick < Date.parse(due.project_changed_at)
  if (lateBy > recentMs && wasAway) return { kind: 'drop' }
  if (due.is_running) return { kind: 'skip', why: 'the run before was still going' }
  if (lateBy > maxLateMs)
    return { kind: 'skip', why: `it found no turn within ${maxLateMs / seconds} seconds of its time` }
  return { kind: 'run' }
}

/** For a schedule without a next tick. */
const never = new Date('9999-12-31T00:00:00Z')

/** An invalid schedule, which another version may have stored, must not block the other jobs. */
export function tickAfter(schedule: string, after: Date, before?: Date): Date {
  try {
    return parseSchedule(schedule).next(after, before) ?? never
  } catch (error) {
    if (error instanceof Refusal) return never
    throw error
  }
}
