// Decides how many jobs each project may start in this process. A slow job frees its slot while it still runs, and
// projects whose jobs were slow share a part of the slots. Otherwise a few projects with slow servers would delay the
// jobs of all others.

export interface Job {
  id: string
  project_id: string
}

export interface Bounds {
  /** Jobs that run at once in this process. */
  all: number
  /** Jobs of one project that run at once in this process. */
  perProject: number
  slow?: SlowBounds
}

export interface SlowBounds {
  /** A job that has run for this long is slow. */
  afterMs: number
  /** A project is slow for this long after its last slow job. */
  forMs: number
  /** Running jobs that are not slow yet. */
  prompt: number
  /** Running jobs of all slow projects together. */
  shared: number
  /** Running jobs of one slow project. */
  perProject: number
}

/** How many jobs a claim may take. */
export interface Room {
  jobs: number
  /** For each project that is not in `places`. */
  perProject: number
  /** How many jobs these projects may start instead of `perProject`. */
  places: ReadonlyMap<string, number>
}

export interface Slots {
  room(): Room
  /**
   * Hands places that slow projects did not use in the last claim to others that were not asked yet. False if nobody is
   * left. The asked ones are added to the set.
   */
  handOn(asked: Set<string>): boolean
  /** Milliseconds until a running job becomes slow, which changes the room. Infinite if none will. */
  nextChangeMs(): number
  start(job: Job): void
  end(job: Job): void
}

const maxRemembered = 1000

export function createSlots(
  { all, perProject, slow }: Bounds,
  now: () => number = () => performance.now(),
): Slots {
  const running = new Map<string, { projectId: string; since: number }>()
  /** Until when each project is slow, the least recently slow first. */
  const slowUntil = new Map<string, number>()
  const isSlow = ({ since }: { since: number }) => slow !== undefined && now() - since >= slow.afterMs

  function remember(projectId: string): void {
    slowUntil.delete(projectId)
    slowUntil.set(projectId, now() + slow!.forMs)
    if (slowUntil.size > maxRemembered) slowUntil.delete(slowUntil.keys().next().value!)
  }

  function rememberSlow(): void {
    for (const job of running.values()) if (isSlow(job)) remember(job.projectId)
    for (const [projectId, until] of slowUntil) if (until <= now()) slowUntil.delete(projectId)
  }

  function placesOfSlow(bounds: SlowBounds, counts: ReadonlyMap<string, number>): Map<string, number> {
    let left = bounds.shared
    for (const projectId of slowUntil.keys()) left -= counts.get(projectId) ?? 0
    return new Map(
      slowUntil.keys().map(projectId => {
        const free = bounds.perProject - (counts.get(projectId) ?? 0)
        const places = Math.max(0, Math.min(free, left))
        left -= places
        return [projectId, places]
      }),
    )
  }

  function countRunning(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { projectId } of running.values()) counts.set(projectId, (counts.get(projectId) ?? 0) + 1)
    return counts
  }

  return {
    room() {
      rememberSlow()
      const counts = countRunning()
      const places = new Map(
        [...counts].map(([projectId, count]) => [projectId, Math.max(0, perProject - count)]),
      )
      if (slow) for (const [projectId, free] of placesOfSlow(slow, counts)) places.set(projectId, free)
      const prompt = [...running.values()].filter(job => !isSlow(job)).length
      const jobs = Math.min(all - running.size, slow ? slow.prompt - prompt : all)
      return { jobs: Math.max(0, jobs), perProject, places }
    },
    handOn(asked) {
      if (!slow) return false
      const withPlace = () =>
        [...placesOfSlow(slow, countRunning())].filter(([, places]) => places > 0).map(([id]) => id)
      for (const projectId of withPlace()) {
        asked.add(projectId)
        const until = slowUntil.get(projectId)!
        slowUntil.delete(projectId)
        slowUntil.set(projectId, until)
      }
      return withPlace().some(projectId => !asked.has(projectId))
    },
    nextChangeMs: () =>
      slow
        ? Math.min(
            ...[...running.values()]
              .filter(job => !isSlow(job))
              .map(({ since }) => since + slow.afterMs - now()),
          )
        : Number.POSITIVE_INFINITY,
    start({ id, project_id: projectId }) {
      running.set(id, { projectId, since: now() })
    },
    end({ id }) {
      const job = running.get(id)
      running.delete(id)
      if (!job) return
      if (isSlow(job)) remember(job.projectId)
      else slowUntil.delete(job.projectId)
    },
  }
}
