// Periodic work of a node, such as sweeping, measuring or extending leases. Runs of a chore never overlap. Pauses have a
// jitter of a few percent, so that nodes that start together do not run their chores at the same time.
import type { Log } from './log.ts'

export interface Chore {
  /** For the log. */
  name: string
  /** The pause between the end of one run and the start of the next. */
  everyMs: number
  /** The first run does not wait for the pause. */
  runsAtStart?: boolean
  /**
   * The result `'idle'` pauses the chore until `start` is called. An error is logged, and the chore is tried again after a
   * short pause, which doubles with each further error up to the usual one. The signal aborts when the chore is stopped.
   */
  run(signal: AbortSignal): unknown
}

export interface RunningChore {
  /** Schedules the next run after the pause. Does nothing if one is scheduled or running. */
  start(): void
  /** Stops it permanently, and waits for the current run. */
  stop(): Promise<void>
}

const jitter = 0.05
/** A daily chore that fails because of a short outage must not wait for the next day. */
const firstRetryMs = 5000

/** Without a log, errors are ignored, because the work itself reports them. */
export function createChore({ name, everyMs, runsAtStart = false, run }: Chore, log?: Log): RunningChore {
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let underWay: Promise<void> | undefined
  let failures = 0
  let isFirst = true

  async function runOnce(): Promise<void> {
    timer = undefined
    let result: unknown
    try {
      result = await run(stopping.signal)
      failures = 0
    } catch (error) {
      // Log consecutive failures once: a database that is down would fill the log.
      if (failures === 0 && !stopping.signal.aborted)
        log?.warn({ err: error, chore: name }, 'a chore failed; it will be tried again')
      failures++
    }
    underWay = undefined
    if (result !== 'idle') start()
  }

  function start(): void {
    if (timer || underWay || stopping.signal.aborted) return
    const pauseMs = isFirst && runsAtStart ? 0 : nextPause() * (1 + jitter * (2 * Math.random() - 1))
    isFirst = false
    timer = setTimeout(() => {
      underWay = runOnce()
    }, pauseMs).unref()
  }

  const nextPause = () => (failures === 0 ? everyMs : Math.min(everyMs, firstRetryMs * 2 ** (failures - 1)))

  return {
    start,
    async stop() {
      stopping.abort()
      clearTimeout(timer)
      timer = undefined
      await underWay
    },
  }
}

export function startChore(chore: Chore, log?: Log): RunningChore {
  const running = createChore(chore, log)
  running.start()
  return running
}
