// Messages on channels of Redis, for whoever listens at that moment. Nobody waits for them: what cannot be handed to
// Redis is lost, and told so, and so is that messages go out again.
import type { RedisAddress } from './address.ts'
import { connectRedis, type RedisConnection } from './connection.ts'
import { RedisUnreachable } from './redis-error.ts'

export interface Publisher {
  /** In the order given. Tries to reach Redis when there is no connection. */
  publish(channel: string, message: Buffer): void
  /** When what was given before is out, or has no prospect. */
  close(): Promise<void>
}

/** None of these may throw. */
export interface PublisherEvents {
  /** For every message that was, or may be, lost. */
  lost(reason: unknown): void
  /** Messages go out again, and nothing is waiting. */
  back(): void
}

/** Redis has more to take than it takes: one message more would have to be kept here. */
export class TooMuchToPublish extends Error {}

/** Given to Redis and not yet answered. */
const mostUnanswered = 32 * 1024 * 1024
/** How long nobody tries again after Redis could not be reached. */
const restMs = 300

export function openPublisher(
  address: RedisAddress,
  events: PublisherEvents,
  maxBytes = mostUnanswered,
): Publisher {
  /** All go through the same promise, so that none overtakes another. */
  let line: Promise<RedisConnection> | undefined
  let connection: RedisConnection | undefined
  let restUntil = 0
  let unanswered = 0
  let hasLost = false
  let isClosed = false
  let last: Promise<void> | undefined

  function currentLine(): Promise<RedisConnection> {
    if (line && connection?.isOpen !== false) return line
    if (performance.now() < restUntil) return Promise.reject(new RedisUnreachable('Redis cannot be reached'))
    connection = undefined
    line = connectRedis(address).then(
      opened => {
        connection = opened
        return opened
      },
      error => {
        line = undefined
        restUntil = performance.now() + restMs
        throw error
      },
    )
    return line
  }

  function lose(reason: unknown): void {
    hasLost = true
    events.lost(reason)
  }

  function settle(bytes: number): void {
    unanswered -= bytes
    if (!hasLost || unanswered > 0) return
    hasLost = false
    events.back()
  }

  return {
    publish(channel, message) {
      if (isClosed) return
      const bytes = message.length + channel.length
      if (unanswered + bytes > maxBytes) return lose(new TooMuchToPublish('Redis does not keep up'))
      unanswered += bytes
      last = currentLine()
        .then(redis => redis.send(['PUBLISH', channel, message]))
        .then(
          () => settle(bytes),
          error => {
            unanswered -= bytes
            lose(error)
          },
        )
    },
    async close() {
      isClosed = true
      await last
      connection?.close()
    },
  }
}
