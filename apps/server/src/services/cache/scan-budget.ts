// Bounds the work of matching many keys: per turn of the event loop, so that other requests are not delayed, and in total.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Refusal } from '#src/kernel/errors.ts'
import type { Matcher } from './glob.ts'

/** Steps in one turn of the event loop, about one or two milliseconds. */
const stepsAtOnce = 200_000
/** A few seconds of work. Ordinary patterns take a few steps for each key. */
const maxSteps = 500_000_000

export interface ScanBudget {
  /** Whether the budget of this turn is used up. */
  isUsedUp(): boolean
  nextTurn(): Promise<void>
}

export function createScanBudget(matcher: Matcher): ScanBudget {
  let limit = stepsAtOnce
  return {
    isUsedUp: () => matcher.steps >= limit,
    async nextTurn() {
      if (matcher.steps > maxSteps)
        throw new Refusal(
          'invalid_request',
          'This pattern takes too long; use fewer * or shorter texts in it',
        )
      await nextTurn()
      limit = matcher.steps + stepsAtOnce
    },
  }
}
