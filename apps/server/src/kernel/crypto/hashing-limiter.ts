// Hashing a password keeps a core busy for about 100 ms by design. Only half of the cores may hash at once, so that the
// rest stay free for other work. Waiting projects take turns: many sign-ins at one project delay neither the other
// projects nor the operators.
import { availableParallelism } from 'node:os'
import { retryLater } from '#src/kernel/errors.ts'
import { createLimiter, type Limiter } from '#src/kernel/limiter.ts'

export const hashingConcurrency = Math.max(1, Math.floor(availableParallelism() / 2))
export const maxWaitingHashes = 64

export const createHashingLimiter = (): Limiter =>
  createLimiter({
    concurrency: hashingConcurrency,
    maxWaiting: maxWaitingHashes,
    rejection: () =>
      retryLater('hashing_busy', 'Too many password checks are waiting; try again in a second', 1),
  })
