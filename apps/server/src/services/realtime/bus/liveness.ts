// Which other nodes are alive. Silence is counted in heartbeats of this node, not by the clock: a process that was
// suspended for a minute received nothing meanwhile, and must not declare all other nodes dead when it resumes.

export interface Liveness {
  /** Records a message of the node. Returns 'returned' if the node was declared dead before. */
  seen(node: string): 'known' | 'new' | 'returned'
  /** The node has shut down. */
  remove(node: string): void
  /** One heartbeat interval has passed. Returns the nodes that are now declared dead. */
  tick(): string[]
  /** Forgets which nodes were declared dead, because every node is about to publish its state again. */
  forgetDead(): void
  clear(): void
}

/** Only the latest dead nodes are remembered, which bounds the memory. */
const maxRemembered = 1000

export function createLiveness(maxMissedHeartbeats: number): Liveness {
  /** Heartbeats missed since the last message, by node. */
  const alive = new Map<string, number>()
  const dead = new Set<string>()

  function declareDead(node: string): void {
    alive.delete(node)
    dead.add(node)
    if (dead.size > maxRemembered) dead.delete(dead.values().next().value!)
  }

  return {
    seen(node) {
      const isKnown = alive.has(node)
      alive.set(node, 0)
      if (isKnown) return 'known'
      return dead.delete(node) ? 'returned' : 'new'
    },
    remove(node) {
      alive.delete(node)
      dead.delete(node)
    },
    tick() {
      const expired: string[] = []
      for (const [node, missed] of alive) {
        if (missed < maxMissedHeartbeats) alive.set(node, missed + 1)
        else expired.push(node)
      }
      expired.forEach(declareDead)
      return expired
    },
    forgetDead: () => dead.clear(),
    clear() {
      alive.clear()
      dead.clear()
    },
  }
}
