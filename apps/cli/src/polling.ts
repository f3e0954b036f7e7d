// Repeats a request until the command is interrupted, also while the platform cannot be reached.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from './context.ts'
import { isTemporary, retryDelayMs } from './temporary-failure.ts'

interface Polling {
  /** The pause between two requests. */
  everyMs: number
  /** Returns true if it should be called again without a pause. */
  poll(): Promise<boolean>
}

export async function pollUntilInterrupted(context: Context, { everyMs, poll }: Polling): Promise<void> {
  const signal = context.interruption()
  let failures = 0
  let pauseMs = everyMs
  for (;;) {
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    try {
      pauseMs = (await poll()) ? 0 : everyMs
      failures = 0
    } catch (error) {
      if (!isTemporary(error)) throw error
      if (failures === 0)
        context.screen.warn('The platform cannot be reached. Trying again until it responds.')
      pauseMs = retryDelayMs(++failures)
    }
  }
}
