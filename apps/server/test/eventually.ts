import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'

const limitMs = 120_000

/** Polls until the value is truthy and returns it. The limit is only for a test that would wait forever. */
export async function eventually<T>(look: () => T | Promise<T>, what: string): Promise<NonNullable<T>> {
  for (const deadline = performance.now() + limitMs; ; await sleep(10)) {
    const found = await look()
    if (found) return found
    assert.ok(performance.now() < deadline, `not within ${limitMs / 1000} seconds: ${what}`)
  }
}
