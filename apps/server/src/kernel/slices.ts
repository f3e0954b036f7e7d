// Runs long work over a caller's input in slices. A sliced function is a generator that yields after a fixed number of
// units (bytes, rows, statements), which tests can count. All sliced work of a thread shares one scheduler. In each turn
// of the event loop it runs slices of the jobs in rotation for two milliseconds. With a scheduler per job, a hundred jobs
// would make a turn a hundred times as long.

export type Sliced<T> = Generator<void, T, void>

/** Runs one slice and returns true when the job has ended. It never throws. */
type Job = () => boolean

/** Time for sliced work in one turn of the event loop. Short, because another caller's request needs several turns. */
const turnMs = 2

/** Time in one turn for direct work, which is work that runs as its bytes arrive, for all clients together. */
const directMs = 10

const jobs: Job[] = []
let isScheduled = false
let directSince: number | undefined

/** The first slice runs immediately, so an input that fits into it needs no further turn of the event loop. */
export function inSlices<T>(work: Sliced<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const job = () => {
      try {
        const { done, value } = work.next()
        if (done) resolve(value)
        return done === true
      } catch (error) {
        reject(error)
        return true
      }
    }
    if (job()) return
    jobs.push(job)
    if (!isScheduled) schedule()
  })
}

function schedule(): void {
  isScheduled = true
  setImmediate(runTurn)
}

/**
 * Called before each piece of direct work. True once such work has used its time in this turn of the event loop. Then the
 * caller continues in slices.
 */
export function isTurnSpent(): boolean {
  const now = performance.now()
  if (directSince !== undefined) return now - directSince > directMs
  directSince = now
  setImmediate(() => {
    directSince = undefined
  })
  return false
}

/** Runs all slices without pauses, for input that is known to be small, and for tests. */
export function atOnce<T>(work: Sliced<T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

function runTurn(): void {
  const endAt = performance.now() + turnMs
  do {
    const job = jobs.shift()!
    if (!job()) jobs.push(job)
  } while (jobs.length > 0 && performance.now() < endAt)
  isScheduled = false
  if (jobs.length > 0) schedule()
}
