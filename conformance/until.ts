// Polls for a condition, with a long timeout for slow machines.
import assert from 'node:assert/strict'
import { sleep } from './people.ts'

/** Polls until the result is neither false nor undefined, and returns it. */
export async function until<T>(
  what: string,
  look: () => Promise<T | false | null | undefined>,
  { seconds = 60, everyMs = 50 } = {},
): Promise<T> {
  for (const deadline = Date.now() + seconds * 1000; ; await sleep(everyMs)) {
    const found = await look()
    if (found !== false && found !== null && found !== undefined) return found
    if (Date.now() > deadline) assert.fail(`not within ${seconds} seconds: ${what}`)
  }
}
