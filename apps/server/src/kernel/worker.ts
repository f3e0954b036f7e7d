// The loop behind every queue: claim a job under a lease, act, record what became of it. Any number of nodes may run
// it, as long as a claim is exclusive (`for update skip locked`) and ends by itself: a process that dies between claim
// and record leaves a job that the next one takes when its lease is over.
import type { Log } from './log.ts'

export interface Work<Job, Outcome> {
  /** For the log. */
  name: string
  /** Takes one job that is due; undefined when there is none. */
  claim(): Promise<Job | undefined>
  /** Asked when there was none: in how many milliseconds the next is due, if one is known. */
  nextDueMs(): Promise<number | undefined>
  /** Does it; what goes wrong on the way is an outcome, too. The signal says that the platform stops. */
  act(job: Job, stop: AbortSignal): Promise<Outcome>
  /** Keeps the outcome; called again when it fails. */
  record(job: Job, outcome: Outcome): Promise<void>
  /** Jobs under way in this process. */
  atOnce: number
  /** How often to look for what others have left behind, at least; what this process adds is announced by `wake`. */
  pollMs: number
  /** How long jobs under way may take to end when the platform stops. */
  graceMs: number
}

export interface Worker {
  /** Looks for jobs now. */
  wake(): void
  close(): Promise<void>
}

const patience = { firstMs: 500, longestMs: 30_000 }
/** A job that is due and cannot be had, because another is about to take it, is no reason to ask all the time. */
const shortestPauseMs = 250

export function startWorker<Job, Outcome>(work: Work<Job, Outcome>, log: Log): Worker {
  const running = new Set<Promise<void>>()
  const stop = new AbortController()
  let isClosed = false
  let looking: Promise<void> | undefined
  let isWoken = false
  let troubleMs = 0
  let timer: NodeJS.Timeout | undefined

  function look(): void {
    clearTimeout(timer)
    // A job added while a claim is under way may have been missed by it.
    if (looking) isWoken = true
    else if (!isClosed) looking = fill().then(pauseMs => rest(pauseMs))
  }

  function rest(pauseMs: number): void {
    looking = undefined
    if (isClosed) return
    if (isWoken && troubleMs === 0) look()
    else timer = setTimeout(look, pauseMs).unref()
  }

  /** Takes jobs while there is room, and says how long to wait; a job that ends makes room and looks again. */
  async function fill(): Promise<number> {
    isWoken = false
    try {
      while (!isClosed && running.size < work.atOnce) {
        const job = await work.claim()
        troubleMs = 0
        if (job === undefined) {
          const dueMs = (await work.nextDueMs()) ?? work.pollMs
          return Math.min(work.pollMs, Math.max(shortestPauseMs, dueMs))
        }
        const run = carryOut(job).finally(() => {
          running.delete(run)
          look()
        })
        running.add(run)
      }
      return work.pollMs
    } catch (error) {
      if (troubleMs === 0) log.warn({ err: error, worker: work.name }, 'cannot look for work; trying again')
      troubleMs = Math.min(patience.longestMs, troubleMs * 2 || patience.firstMs)
      return troubleMs
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
    await record(job, outcome)
  }

  /** A deed whose record is lost is done twice: a database that is away for a moment is waited for. */
  async function record(job: Job, outcome: Outcome): Promise<void> {
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
    wake: look,
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
