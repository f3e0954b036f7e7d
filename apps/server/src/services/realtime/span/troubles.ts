// What keeps the nodes from hearing each other, in words for an operator: once in the log, and in the health as long as
// it lasts.
import type { Log } from '#src/kernel/log.ts'
import { TooMuchToPublish } from '#src/kernel/redis/publisher.ts'
import { RedisError } from '#src/kernel/redis/redis-error.ts'

type Trouble = 'listen' | 'publish'

export interface Troubles {
  note(trouble: Trouble, reason: unknown): void
  over(trouble: Trouble): void
  /** It may last, but nobody needs the other nodes any more. */
  forget(trouble: Trouble): void
  has(trouble: Trouble): boolean
  all(): readonly string[]
}

export function createTroubles(log: Pick<Log, 'info' | 'warn'>): Troubles {
  const troubles = new Map<Trouble, string>()
  return {
    note(trouble, reason) {
      const told = wordsFor(reason)
      if (![...troubles.values()].includes(told)) log.warn({ err: reason }, told)
      troubles.set(trouble, told)
    },
    over(trouble) {
      if (troubles.delete(trouble) && troubles.size === 0)
        log.info({}, 'broadcast and presence reach other nodes again')
    },
    forget: trouble => void troubles.delete(trouble),
    has: trouble => troubles.has(trouble),
    all: () => [...new Set(troubles.values())],
  }
}

function wordsFor(reason: unknown): string {
  if (reason instanceof TooMuchToPublish)
    return 'Redis does not keep up: some broadcasts and presences do not reach other nodes'
  return `${causeOf(reason)}: broadcast and presence do not reach other nodes`
}

function causeOf(reason: unknown): string {
  if (!(reason instanceof RedisError)) return 'Redis cannot be reached'
  switch (reason.code) {
    case 'NOPERM':
      return 'Redis does not let the login of REDIS_URL use channels'
    case 'WRONGPASS':
    case 'NOAUTH':
      return 'Redis refuses the login of REDIS_URL'
    default:
      return `Redis answers ${reason.code}`
  }
}
