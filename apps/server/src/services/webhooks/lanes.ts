// Decides how many deliveries each webhook may have under way in this process. A webhook begins with one, and gets twice
// as many after each batch without a failure. Webhooks that have not answered yet, and those that time out, use at most
// half of all places, so that dead endpoints delay nobody else. One place of that half is closed to those that time out,
// so that they do not delay new ones.

export interface LaneBounds {
  /** Deliveries under way at once. */
  all: number
  /** Deliveries of one project under way at once. */
  perProject: number
}

export interface Lanes {
  /** How many further deliveries of the webhook may start, if `started` others of unproven webhooks start with them. */
  free(webhookId: string): number
  start(webhookId: string): void
  end(webhookId: string, result: 'answered' | 'failed' | 'timed_out' | 'unused'): void
}

interface Lane {
  running: number
  window: number
  /** 'proven': the last batch was answered. 'slow': an attempt timed out, and none was answered since. */
  state: 'new' | 'proven' | 'slow'
}

/** Lanes without deliveries are remembered, the least recently used are forgotten first. */
const maxRemembered = 5000

export function createLanes({ all, perProject }: LaneBounds): Lanes {
  const lanes = new Map<string, Lane>()
  const forUnproven = Math.max(1, Math.floor(all / 2))
  const forSlow = Math.max(1, forUnproven - 1)

  const running = (matches: (lane: Lane) => boolean) =>
    lanes.values().reduce((sum, lane) => (matches(lane) ? sum + lane.running : sum), 0)

  function laneOf(webhookId: string): Lane {
    const lane = lanes.get(webhookId) ?? { running: 0, window: 1, state: 'new' as const }
    lanes.delete(webhookId)
    lanes.set(webhookId, lane)
    if (lanes.size > maxRemembered)
      for (const [id, { running: count }] of lanes)
        if (count === 0 && id !== webhookId) {
          lanes.delete(id)
          break
        }
    return lane
  }

  return {
    free(webhookId) {
      const lane = laneOf(webhookId)
      const own = Math.min(lane.window, perProject) - lane.running
      if (lane.state === 'proven') return Math.max(0, own)
      const unproven = forUnproven - running(({ state }) => state !== 'proven')
      const slow = lane.state === 'slow' ? forSlow - running(({ state }) => state === 'slow') : own
      return Math.max(0, Math.min(own, unproven, slow))
    },
    start(webhookId) {
      laneOf(webhookId).running++
    },
    end(webhookId, result) {
      const lane = laneOf(webhookId)
      lane.running--
      if (result === 'unused') return
      if (result === 'answered') {
        lane.state = 'proven'
        lane.window = Math.min(all, lane.window * 2)
        return
      }
      lane.window = 1
      if (result === 'timed_out') lane.state = 'slow'
    },
  }
}
