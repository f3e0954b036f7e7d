// Which deliveries of this process run at once. A server that drips its replies holds a delivery for as long as one may
// take, so many projects with such servers could hold up the mail of all the others. A delivery that takes long
// therefore leaves its slot to others while it goes on, and projects whose servers were slow share a part of the slots.

/** `prompt` counts deliveries of less than `slowAfterMs`; `all` counts every one. */
export const mailSlots = { all: 150, prompt: 50, slow: 25, perProject: 2, perSlowProject: 1 }
const slowAfterMs = 10_000
/** How long a project counts as slow after its last slow delivery. */
const slowForMs = 600_000
const maxRemembered = 1000

interface State {
  /** Projects that may not begin another delivery now. */
  excluded: string[]
  /** Nobody may. */
  isFull: boolean
  /** When a delivery under way becomes a slow one, which changes both. */
  nextChangeMs: number
}

export interface MailSlots {
  state(): State
  take(mailId: string, projectId: string): void
  release(mailId: string): void
}

export function createMailSlots(now: () => number = () => performance.now()): MailSlots {
  const running = new Map<string, { projectId: string; since: number }>()
  const slowUntil = new Map<string, number>()

  function remember(projectId: string): void {
    slowUntil.delete(projectId)
    slowUntil.set(projectId, now() + slowForMs)
    if (slowUntil.size > maxRemembered) slowUntil.delete(slowUntil.keys().next().value!)
  }

  return {
    state() {
      const deliveries = [...running.values()]
      const isSlow = ({ since }: { since: number }) => now() - since >= slowAfterMs
      for (const delivery of deliveries) if (isSlow(delivery)) remember(delivery.projectId)
      for (const [projectId, until] of slowUntil) if (until <= now()) slowUntil.delete(projectId)

      const counts = new Map<string, number>()
      for (const { projectId } of deliveries) counts.set(projectId, (counts.get(projectId) ?? 0) + 1)
      const ofSlow = deliveries.filter(({ projectId }) => slowUntil.has(projectId)).length
      const isBusy = ([projectId, count]: [string, number]) =>
        count >= (slowUntil.has(projectId) ? mailSlots.perSlowProject : mailSlots.perProject)
      const busy = [...counts].filter(isBusy).map(([projectId]) => projectId)
      const prompt = deliveries.filter(delivery => !isSlow(delivery))
      return {
        excluded: ofSlow >= mailSlots.slow ? [...new Set([...busy, ...slowUntil.keys()])] : busy,
        isFull: prompt.length >= mailSlots.prompt,
        nextChangeMs: Math.min(...prompt.map(({ since }) => since + slowAfterMs - now())),
      }
    },
    take(mailId, projectId) {
      running.set(mailId, { projectId, since: now() })
    },
    release(mailId) {
      const delivery = running.get(mailId)
      running.delete(mailId)
      if (!delivery) return
      if (now() - delivery.since >= slowAfterMs) remember(delivery.projectId)
      else slowUntil.delete(delivery.projectId)
    },
  }
}
