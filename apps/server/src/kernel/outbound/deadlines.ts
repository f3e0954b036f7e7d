// Ends work that takes too long, with one timer for all of it. A timer per request would be created and cleared thousands
// of times a second and almost never fire.

export interface Timed {
  /** Time of `performance.now()`. */
  readonly deadline: number
  expire(): void
}

export interface Deadlines {
  add(work: Timed): void
  delete(work: Timed): void
  expireAll(): void
}

export function createDeadlines(): Deadlines {
  const running = new Set<Timed>()
  let timer: NodeJS.Timeout | undefined
  let firesAt = Number.POSITIVE_INFINITY

  function arm(at: number, now: number): void {
    clearTimeout(timer)
    firesAt = at
    // Timers fire up to a millisecond early.
    timer = setTimeout(fire, Math.max(0, at - now) + 1)
  }

  function fire(): void {
    timer = undefined
    firesAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    for (const work of [...running]) if (work.deadline <= now) work.expire()
    let next = Number.POSITIVE_INFINITY
    for (const work of running) next = Math.min(next, work.deadline)
    if (next < firesAt) arm(next, now)
  }

  return {
    add(work) {
      running.add(work)
      if (work.deadline < firesAt) arm(work.deadline, performance.now())
      else if (running.size === 1) timer?.ref()
    },
    delete(work) {
      // The timer stays for the next work, but does not keep the process alive.
      if (running.delete(work) && running.size === 0) timer?.unref()
    },
    expireAll() {
      for (const work of [...running]) work.expire()
      clearTimeout(timer)
      firesAt = Number.POSITIVE_INFINITY
    },
  }
}
