// Caches the head of a queue: the lowest id that may become visible soon. Reads scan a queue from its lowest id. Before the
// head there may be many messages with a long delay, or many dead rows that VACUUM cannot remove because of an open
// transaction. The cache skips them once for many reads.
//
// Only queues with slow reads have a cached head. Until the next search, reads over HTTP do not see a message below the head:
// one whose transaction committed late by more than `margin` messages, one that SQL made visible before its time, or one in
// a queue that another node dropped and created again. The next search runs within about a second, a head expires after
// ten seconds, and no message is skipped permanently.

export interface Head {
  /** The lowest id, as text, that may become visible before the head expires. */
  id: string
  /** Duration of the search in Postgres. */
  ms: number
}

/** Searches the head from an id on. */
export type FindHead = (from: string) => Promise<Head>

export interface HeadCache {
  /** The id to read from. May start a search in the background. */
  of(queue: string, findHead: FindHead): string
  /** Records the duration of a read. A slow one may start a search. */
  record(queue: string, ms: number, findHead: FindHead): void
  /** To be called when a message with an old id becomes visible, or the queue was dropped. */
  forget(queue: string): void
}

interface Known {
  head: string
  validUntil: number
  /** The next search from the beginning, which is expensive and finds messages below the head. */
  refreshAt: number
  /** The next search from the head on, which is cheap. */
  advanceAt: number
  isRefreshing: boolean
}

/** Messages that become visible within this time are not skipped. A head expires after it. */
export const horizonSeconds = 10
/** Sequences assign ids before the commit, so this many ids below the head are read as well. */
export const margin = 200
const begin = '0'
/** A read slower than `readMs` starts a search. The head is cached if its search took longer than `findMs`. */
const defaults = { readMs: 5, findMs: 2, pauseMs: 1000, advanceMs: 100 }
/** Searches take at most one twentieth of the time. */
const share = 20
const maxKnown = 1000

export function createHeadCache(thresholds = defaults, now = () => performance.now()): HeadCache {
  const known = new Map<string, Known>()

  function create(queue: string): Known {
    if (known.size >= maxKnown) known.delete(known.keys().next().value!)
    const state = { head: begin, validUntil: 0, refreshAt: 0, advanceAt: 0, isRefreshing: false }
    known.set(queue, state)
    return state
  }

  async function findFromBeginning(state: Known, findHead: FindHead): Promise<void> {
    const since = now()
    const { id, ms } = await findHead(begin)
    state.head = ms < thresholds.findMs ? begin : id
    state.refreshAt = now() + Math.max(thresholds.pauseMs, share * ms)
    state.validUntil = since + horizonSeconds * 1000
  }

  async function advance(state: Known, findHead: FindHead): Promise<void> {
    const { id } = await findHead(state.head)
    if (BigInt(id) > BigInt(state.head)) state.head = id
  }

  async function refresh(
    queue: string,
    state: Known,
    findHead: FindHead,
    how: typeof findFromBeginning,
  ): Promise<void> {
    state.isRefreshing = true
    try {
      await how(state, findHead)
      state.advanceAt = now() + thresholds.advanceMs
    } catch {
      // The reads of the queue report the error.
      known.delete(queue)
    } finally {
      state.isRefreshing = false
    }
  }

  return {
    of(queue, findHead) {
      const state = known.get(queue)
      if (!state || state.head === begin || now() >= state.validUntil) return begin
      if (!state.isRefreshing)
        if (now() >= state.refreshAt) void refresh(queue, state, findHead, findFromBeginning)
        else if (now() >= state.advanceAt) void refresh(queue, state, findHead, advance)
      return state.head
    },
    record(queue, ms, findHead) {
      if (ms < thresholds.readMs) return
      const state = known.get(queue) ?? create(queue)
      if (!state.isRefreshing && now() >= state.refreshAt)
        void refresh(queue, state, findHead, findFromBeginning)
    },
    forget: queue => void known.delete(queue),
  }
}
