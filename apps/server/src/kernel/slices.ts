// Long work over a caller's input, done in slices. A sliced function is a generator that yields after a fixed number of
// units (bytes, rows, statements), which tests can count. All sliced work of a thread shares one scheduler: each turn of
// the event loop spends two milliseconds on it, one slice of each job in rotation, and then serves everybody else. A
// scheduler per job would let a hundred jobs hold one turn a hundred times as long.

export type Sliced<T> = Generator<void, T, void>

/** Runs one slice; true when the job has ended. It never throws. */
type Job = () => boolean

/** Time for sliced work in one turn of the event loop. A read of another caller waits for several turns. */
const turnMs = 2

/** Time in one turn for requests and messages that are handled as they come, those of all clients together. */
const directMs = 10

const jobs: Job[] = []
let isScheduled = false
let directSince: number | undefined

/** The first slice runs at once: an input that fits into it costs no turn of the event loop. */
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
 * Asked before each small piece of work that is done as it comes. True when such work has had its time in this turn of
 * the event loop: the rest of it is done in slices.
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

/** Without pauses: for input whose size is known to be small, and for tests. */
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
