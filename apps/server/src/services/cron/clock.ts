// All nodes go by the clock of the database. Set back, it would keep jobs waiting until it is that late again.
import type { Database } from '#src/kernel/postgres/database.ts'
import * as store from './store.ts'
import { tickAfter } from './tick.ts'

/** A clock set back by less is waited for: the ticks it goes through again have run already. */
const repeatedMs = 3 * 3_600_000
const jumpMs = 60_000

export interface Clock {
  startedAt: Date
  /** Puts right what a clock that has been set back since the last look has done. */
  look(): Promise<void>
}

export async function watchClock(control: Database, leaseSeconds: number): Promise<Clock> {
  const startedAt = await store.clock(control)
  let seen = { wall: startedAt.getTime(), steady: performance.now() }
  await straighten()

  async function straighten(): Promise<void> {
    await store.shortenLeases(control, leaseSeconds)
    for (const { id, schedule, next_run_at, now } of await store.listTicks(control)) {
      const latest = tickAfter(schedule, new Date(Date.parse(now) + repeatedMs))
      if (new Date(next_run_at) > latest)
        await store.setTick(control, id, next_run_at, tickAfter(schedule, new Date(now)))
    }
  }

  return {
    startedAt,
    async look() {
      const wall = (await store.clock(control)).getTime()
      const expected = seen.wall + performance.now() - seen.steady
      seen = { wall, steady: performance.now() }
      if (wall < expected - jumpMs) await straighten()
    },
  }
}
