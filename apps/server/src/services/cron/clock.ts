// All nodes use the clock of the database. After it is set back, jobs would wait until the old time is reached again.
import type { Database } from '#src/kernel/postgres/database.ts'
import * as store from './store.ts'
import { tickAfter } from './tick.ts'

/** Smaller corrections are ignored. The repeated ticks have already run. */
const repeatedMs = 3 * 3_600_000
const jumpMs = 60_000

export interface Clock {
  startedAt: Date
  /** Reschedules jobs if the clock was set back since the last check. */
  check(): Promise<void>
}

export async function watchClock(control: Database, leaseSeconds: number): Promise<Clock> {
  const startedAt = await store.clock(control)
  let seen = { wall: startedAt.getTime(), steady: performance.now() }
  await reschedule()

  async function reschedule(): Promise<void> {
    await store.shortenLeases(control, leaseSeconds)
    for (const { id, schedule, next_run_at, now } of await store.listTicks(control)) {
      const latest = tickAfter(schedule, new Date(Date.parse(now) + repeatedMs))
      if (new Date(next_run_at) > latest)
        await store.setTick(control, id, next_run_at, tickAfter(schedule, new Date(now)))
    }
  }

  return {
    startedAt,
    async check() {
      const wall = (await store.clock(control)).getTime()
      const expected = seen.wall + performance.now() - seen.steady
      seen = { wall, steady: performance.now() }
      if (wall < expected - jumpMs) await reschedule()
    },
  }
}
