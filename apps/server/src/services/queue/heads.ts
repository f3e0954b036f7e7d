// Where the messages of a queue begin that anybody can read soon. Reads go through a queue from its lowest id; what
// stands in front may be long: messages delayed until tomorrow, or dead rows that a transaction left open somewhere
// keeps from being cleared away. Where passing over them costs something, it is done once for many reads.
//
// A head is looked up only for queues whose reads have become slow. Until the next look, a message below it is not seen
// by reads over HTTP: one whose transaction has committed late by more than `margin` messages, or that SQL has made
// visible again before its time, or that belongs to a queue which another node has dropped and made anew. The next look
// comes within a second or so, no head is used for more than ten, and no message is passed over for good.

export interface Head {
  /** The lowest id, as text, that may be visible before the look is too old. */
  id: string
  /** How long the look took in Postgres. */
  ms: number
}

/** Looks for the head from an id on. */
export type Look = (from: string) => Promise<Head>

export interface Heads {
  /** Where to read from. `look` is called, now and then, when there is something to be gained. */
  of(queue: string, look: Look): string
  /** What a read from there has cost. */
  note(queue: string, ms: number, look: Look): void
  /** A message has come back under an old id, or the queue is another one of the same name. */
  forget(queue: string): void
}

interface Known {
  head: string
  validUntil: number
  /** From the beginning: that is what costs something, and what finds those left behind. */
  lookAgainAt: number
  /** From the head on, where what has been read meanwhile is soon passed over. */
  moveOnAt: number
  isLooking: boolean
}

/** Messages that become visible within this time are not passed over; no head is used for longer. */
export const horizonSeconds = 10
/** Ids are given out before they are committed: these many below the head are looked at all the same. */
export const margin = 200
const begin = '0'
/** A read that took this long makes it worth to look; a look that took this long makes it worth to keep what it saw. */
const usually = { readMs: 5, lookMs: 2, pauseMs: 1000, moveOnMs: 100 }
/** Of the time there is, one twentieth may go into looking. */
const share = 20
const maxKnown = 1000

export function createHeads(worth = usually, now = () => performance.now()): Heads {
  const known = new Map<string, Known>()

  function begun(queue: string): Known {
    if (known.size >= maxKnown) known.delete(known.keys().next().value!)
    const state = { head: begin, validUntil: 0, lookAgainAt: 0, moveOnAt: 0, isLooking: false }
    known.set(queue, state)
    return state
  }

  async function lookAnew(state: Known, look: Look): Promise<void> {
    const since = now()
    const { id, ms } = await look(begin)
    state.head = ms < worth.lookMs ? begin : id
    state.lookAgainAt = now() + Math.max(worth.pauseMs, share * ms)
    state.validUntil = since + horizonSeconds * 1000
  }

  async function moveOn(state: Known, look: Look): Promise<void> {
    const { id } = await look(state.head)
    if (BigInt(id) > BigInt(state.head)) state.head = id
  }

  async function refresh(queue: string, state: Known, look: Look, how: typeof lookAnew): Promise<void> {
    state.isLooking = true
    try {
      await how(state, look)
      state.moveOnAt = now() + worth.moveOnMs
    } catch {
      // Reads say themselves what is wrong with the queue.
      known.delete(queue)
    } finally {
      state.isLooking = false
    }
  }

  return {
    of(queue, look) {
      const state = known.get(queue)
      if (!state || state.head === begin || now() >= state.validUntil) return begin
      if (!state.isLooking)
        if (now() >= state.lookAgainAt) void refresh(queue, state, look, lookAnew)
        else if (now() >= state.moveOnAt) void refresh(queue, state, look, moveOn)
      return state.head
    },
    note(queue, ms, look) {
      if (ms < worth.readMs) return
      const state = known.get(queue) ?? begun(queue)
      if (!state.isLooking && now() >= state.lookAgainAt) void refresh(queue, state, look, lookAnew)
    },
    forget: queue => void known.delete(queue),
  }
}
