// The loop behind every queue: claim a job under a lease, act, record what became of it. Any number of nodes may run
// it, as long as a claim is exclusive (`for update skip locked`) and ends by itself: a process that dies between claim
// and record leaves a job that the next one takes when its lease is over.
import type { Log } from './log.ts'

export interface Work<Job, Outcome> {
  /** For the log. */
  name: string
  /** Takes one job that is due; undefined when there is none. */
  claim(): Promise<Job | undefined>
  /** Does it; what goes wrong on the way is an outcome, too. The signal says that the platform stops. */
  act(job: Job, stop: AbortSignal): Promise<Outcome>
  /** Keeps the outcome, over and over until it is kept; the milliseconds after which the job is due again, if it is. */
  record(job: Job, outcome: Outcome): Promise<number | undefined>
  /** Jobs under way in this process. */
  atOnce: number
  /** How often to look for what others left behind; what this process adds is announced by `wake`. */
  pollMs: number
  /** How long jobs under way may take to end when the platform stops. */
  graceMs: number
}

export interface Worker {
  /** Looks for jobs now, or in so many milliseconds. */
  wake(afterMs?: number): void
  close(): Promise<void>
}

const patience = { firstMs: 500, longestMs: 30_000 }

export function startWorker<Job, Outcome>(work: Work<Job, Outcome>, log: Log): Worker {
  const running = new Set<Promise<void>>()
  const stop = new AbortController()
  let isClosed = false
  let looking: Promise<void> | undefined
  let isWoken = false
  let troubleMs = 0
  let timer: NodeJS.Timeout | undefined
  let timerAt = Number.POSITIVE_INFINITY

  function wake(afterMs = 0): void {
    if (isClosed) return
    if (afterMs <= 0) return look()
    const at = performance.now() + afterMs
    if (at >= timerAt) return
    clearTimeout(timer)
    timerAt = at
    timer = setTimeout(() => {
      timerAt = Number.POSITIVE_INFINITY
      look()
    }, afterMs).unref()
  }

  function look(): void {
    // A job added while a claim is under way may have been missed by it.
    if (looking) isWoken = true
    else if (!isClosed) looking = fill().finally(lookedUp)
  }

  function lookedUp(): void {
    looking = undefined
    if (isWoken && troubleMs === 0) {
      isWoken = false
      look()
    } else wake(troubleMs || work.pollMs)
  }

  /** Takes jobs while there is room; a job that ends makes room and looks again. */
  async function fill(): Promise<void> {
    isWoken = false
    try {
      while (!isClosed && running.size < work.atOnce) {
        const job = await work.claim()
        troubleMs = 0
        if (job === undefined) return
        const run = carryOut(job).finally(() => {
          running.delete(run)
          look()
        })
        running.add(run)
      }
    } catch (error) {
      if (troubleMs === 0) log.warn({ err: error, worker: work.name }, 'cannot look for work; trying again')
      troubleMs = Math.min(patience.longestMs, troubleMs * 2 || patience.firstMs)
    }
  }

  async function carryOut(job: Job): Promise<void> {
    let outcome: Outcome
    try {
      outcome = await work.act(job, stop.signal)
    } catch (error) {
      // Its lease ends by itself, and then it is tried again.
      log.error({ err: error, worker: work.name }, 'a job failed in a way nobody foresaw')
      return
    }
    const againMs = await kept(job, outcome)
    if (againMs !== undefined) wake(againMs)
  }

  /** A deed whose record is lost is done twice: a database that is away for a moment is waited for. */
  async function kept(job: Job, outcome: Outcome): Promise<number | undefined> {
    for (let waitMs = patience.firstMs; ; waitMs = Math.min(patience.longestMs, waitMs * 2))
      try {
        return await work.record(job, outcome)
      } catch (error) {
        log.warn({ err: error, worker: work.name }, 'cannot record what was done; trying again')
        if (stop.signal.aborted || !(await slept(waitMs, stop.signal))) return
      }
  }

  look()
  return {
    wake,
    async close() {
      isClosed = true
      clearTimeout(timer)
      await looking
      const cut = setTimeout(() => stop.abort(), work.graceMs)
      await Promise.all(running)
      clearTimeout(cut)
    },
  }
}

/** False when it was cut short. */
function slept(ms: number, signal: AbortSignal): Promise<boolean> {
  return new Promise(resolve => {
    const wakeUp = () => {
      clearTimeout(timer)
      resolve(false)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', wakeUp)
      resolve(true)
    }, ms)
    signal.addEventListener('abort', wakeUp, { once: true })
  })
}
