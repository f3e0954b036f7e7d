// Decides how many deliveries each webhook may have under way in this process. A webhook begins with one, and gets twice
// as many after each batch without a failure. Places are shared so that dead endpoints delay nobody else: those that time
// out use at most half of all places, together with those that have not answered yet they leave a fifth to the proven
// ones, and those of one project use less than half.

export interface LaneBounds {
  /** Deliveries under way at once. */
  all: number
  /** Deliveries of one project under way at once. */
  perProject: number
}

export type LaneResult = 'answered' | 'failed' | 'timed_out' | 'unused'

export interface Lanes {
  /** How many further deliveries of the webhook may start. */
  free(webhookId: string, projectId: string): number
  start(webhookId: string, projectId: string): void
  end(webhookId: string, result: LaneResult): void
}

interface Lane {
  projectId: string
  /** When its running batches have started. */
  starts: number[]
  window: number
  /** 'proven': the last batch was answered. 'slow': an attempt timed out, and none was answered since. */
  state: 'new' | 'proven' | 'slow'
}

/** A batch ends after a second, so in a longer one an attempt is waiting for its answer. */
const slowAfterMs = 3000
/** Lanes without deliveries are remembered, the least recently used are forgotten first. */
const maxRemembered = 5000

export function createLanes({ all, perProject }: LaneBounds, now = () => performance.now()): Lanes {
  const lanes = new Map<string, Lane>()
  /** Those with running batches, which are few. */
  const busy = new Set<Lane>()
  const share = (part: number) => Math.max(1, Math.floor(all * part))
  const most = { slow: share(0.5), unproven: share(0.8), unprovenOfProject: share(0.4) }

  const isSlow = ({ state, starts }: Lane) => state === 'slow' || now() - (starts[0] ?? now()) > slowAfterMs
  const isProven = (lane: Lane) => lane.state === 'proven' && !isSlow(lane)
  const running = (matches: (lane: Lane) => boolean) =>
    busy.values().reduce((sum, lane) => (matches(lane) ? sum + lane.starts.length : sum), 0)

  function laneOf(webhookId: string, projectId: string): Lane {
    const lane = lanes.get(webhookId) ?? { projectId, starts: [], window: 1, state: 'new' as const }
    lanes.delete(webhookId)
    lanes.set(webhookId, lane)
    if (lanes.size > maxRemembered) forgetOne()
    return lane
  }

  function forgetOne(): void {
    for (const [id, { starts }] of lanes)
      if (starts.length === 0) {
        lanes.delete(id)
        return
      }
  }

  return {
    free(webhookId, projectId) {
      const lane = laneOf(webhookId, projectId)
      const own = Math.min(lane.window, perProject) - lane.starts.length
      if (isProven(lane)) return Math.max(0, own)
      const unproven = most.unproven - running(each => !isProven(each))
      const ofProject =
        most.unprovenOfProject - running(each => !isProven(each) && each.projectId === projectId)
      const slow = isSlow(lane) ? most.slow - running(isSlow) : own
      return Math.max(0, Math.min(own, unproven, ofProject, slow))
    },
    start(webhookId, projectId) {
      const lane = laneOf(webhookId, projectId)
      lane.starts.push(now())
      busy.add(lane)
    },
    end(webhookId, result) {
      const lane = lanes.get(webhookId)!
      if (result === 'unused') lane.starts.pop()
      else lane.starts.shift()
      if (lane.starts.length === 0) busy.delete(lane)
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
