// Going through many keys: a little in each turn of the event loop, so that nobody else has to wait, and not for ever.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Refusal } from '#src/kernel/errors.ts'
import type { Matcher } from './glob.ts'

/** Comparisons in one turn: a millisecond or two. */
const stepsAtOnce = 200_000
/** A few seconds of work. Ordinary patterns take a few steps for each key. */
const maxSteps = 500_000_000

export interface Pace {
  /** Whether this turn has done its share. */
  isOver(): boolean
  next(): Promise<void>
}

export function createPace(matcher: Matcher): Pace {
  let limit = stepsAtOnce
  return {
    isOver: () => matcher.steps >= limit,
    async next() {
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
