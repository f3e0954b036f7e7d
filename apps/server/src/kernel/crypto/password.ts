// Argon2id in the thread pool, behind a bounded queue: a flood of logins waits or is refused, and the event
// loop and the rest of the thread pool stay free.
import { hash, verify } from '@node-rs/argon2'
import { retryLater } from '#src/kernel/errors.ts'

const atOnce = 2
const mayWait = 64

export interface Passwords {
  hash(password: string): Promise<string>
  /** Compares with a stored hash; without one the same work is done for nothing, so the caller cannot tell. */
  verify(password: string, stored: string | undefined): Promise<boolean>
}

export function createPasswords(): Passwords {
  let running = 0
  const waiting: (() => void)[] = []
  let decoy: Promise<string> | undefined

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running >= atOnce) {
      if (waiting.length >= mayWait)
        throw retryLater('hashing_busy', 'Too many password checks are waiting; try again in a second', 1)
      await new Promise<void>(resolve => waiting.push(resolve))
    } else running++
    try {
      return await work()
    } finally {
      // The place passes straight to the next in line, so nobody can slip in between.
      const next = waiting.shift()
      if (next) next()
      else running--
    }
  }

  return {
    hash: password => inTurn(() => hash(password)),
    async verify(password, stored) {
      decoy ??= hash('a password nobody has')
      const against = stored ?? (await decoy)
      const matches = await inTurn(() => verify(against, password))
      return matches && stored !== undefined
    },
  }
}
