// Failures of the connection between nodes, worded for an operator. Each is logged once and stays in the health warnings
// until it is resolved.
import type { Log } from '#src/kernel/log.ts'
import { PublishBacklogFull } from '#src/kernel/redis/publisher.ts'
import { RedisError } from '#src/kernel/redis/redis-error.ts'

type Failure = 'subscribe' | 'publish'

export interface Failures {
  report(failure: Failure, reason: unknown): void
  resolve(failure: Failure): void
  /** Drops a failure that may persist but affects nobody any more. Logs nothing. */
  discard(failure: Failure): void
  has(failure: Failure): boolean
  messages(): readonly string[]
}

export function createFailures(log: Pick<Log, 'info' | 'warn'>): Failures {
  const failures = new Map<Failure, string>()
  return {
    report(failure, reason) {
      const message = messageFor(reason)
      if (![...failures.values()].includes(message)) log.warn({ err: reason }, message)
      failures.set(failure, message)
    },
    resolve(failure) {
      if (failures.delete(failure) && failures.size === 0)
        log.info({}, 'broadcast and presence reach other nodes again')
    },
    discard: failure => void failures.delete(failure),
    has: failure => failures.has(failure),
    messages: () => [...new Set(failures.values())],
  }
}

function messageFor(reason: unknown): string {
  if (reason instanceof PublishBacklogFull)
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
