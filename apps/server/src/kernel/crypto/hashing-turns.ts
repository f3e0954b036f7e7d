// Hashing a password takes a core for a tenth of a second, on purpose. Few are hashed at once, so that most of the
// machine stays free for everything else; the rest wait in lines, one per party, which are served in rotation: a flood
// at one project holds up neither the others nor the operators. What does not fit into its line is refused.
import { availableParallelism } from 'node:os'
import { retryLater } from '#src/kernel/errors.ts'

export type HashingTurns = <T>(party: string, work: () => Promise<T>) => Promise<T>

export const hashedAtOnce = Math.max(1, Math.floor(availableParallelism() / 2))
export const mayWait = 64

export function createHashingTurns(): HashingTurns {
  let running = 0
  const lines = new Map<string, (() => void)[]>()

  async function wait(party: string): Promise<void> {
    const line = lines.get(party) ?? []
    if (line.length >= mayWait)
      throw retryLater('hashing_busy', 'Too many password checks are waiting; try again in a second', 1)
    lines.set(party, line)
    await new Promise<void>(resolve => line.push(resolve))
  }

  /** The place passes straight to the next party in rotation, so nobody can slip in between. */
  function pass(): void {
    const [next] = lines
    if (!next) return void running--
    const [party, line] = next
    lines.delete(party)
    line.shift()!()
    if (line.length > 0) lines.set(party, line)
  }

  return async (party, work) => {
    if (running < hashedAtOnce) running++
    else await wait(party)
    try {
      return await work()
    } finally {
      pass()
    }
  }
}
