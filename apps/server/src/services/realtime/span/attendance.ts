// Which nodes are there. Time is counted in beats of our own, not by the clock: a process that was held up for a minute
// and comes to again has heard nobody in that time, and that is not the others' fault.

export interface Attendance {
  /** 'returned' when it was given up before. */
  hear(node: string): 'known' | 'new' | 'returned'
  /** It has said goodbye. */
  leave(node: string): void
  /** One beat has gone by; answers which nodes are given up by it. */
  pass(): string[]
  /** Everybody is asked anew: that somebody was given up before no longer matters. */
  startOver(): void
  clear(): void
}

/** Of those given up, the last ones are remembered. */
const remembered = 1000

export function createAttendance(patientBeats: number): Attendance {
  /** With the beats since it was last heard. */
  const present = new Map<string, number>()
  const givenUp = new Set<string>()

  function giveUp(node: string): void {
    present.delete(node)
    givenUp.add(node)
    if (givenUp.size > remembered) givenUp.delete(givenUp.values().next().value!)
  }

  return {
    hear(node) {
      const isKnown = present.has(node)
      present.set(node, 0)
      if (isKnown) return 'known'
      return givenUp.delete(node) ? 'returned' : 'new'
    },
    leave(node) {
      present.delete(node)
      givenUp.delete(node)
    },
    pass() {
      const gone: string[] = []
      for (const [node, silent] of present) {
        if (silent < patientBeats) present.set(node, silent + 1)
        else gone.push(node)
      }
      gone.forEach(giveUp)
      return gone
    },
    startOver: () => givenUp.clear(),
    clear() {
      present.clear()
      givenUp.clear()
    },
  }
}
