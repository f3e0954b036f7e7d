// Publishes messages on channels of Redis without waiting for the answer. Messages that cannot be sent are lost. The loss
// is reported, and also when messages are sent again.
import type { RedisAddress } from './address.ts'
import { connectRedis, type RedisConnection } from './connection.ts'
import { RedisUnreachable } from './redis-error.ts'

export interface Publisher {
  /** Keeps the order of calls. Connects to Redis if there is no connection. */
  publish(channel: string, message: Buffer): void
  /** Resolves when all earlier messages are sent or lost. */
  close(): Promise<void>
}

/** None of these may throw. */
export interface PublisherEvents {
  /** Called for every message that was or may be lost. */
  lost(reason: unknown): void
  /** Called when messages are sent again and none is waiting. */
  back(): void
}

/** Redis does not keep up, and the bytes that wait for its answers have reached the limit. */
export class PublishBacklogFull extends Error {}

/** Bytes that were sent to Redis and not yet answered. */
const maxUnanswered = 32 * 1024 * 1024
/** The pause after Redis could not be reached. */
const retryPauseMs = 300

export function openPublisher(
  address: RedisAddress,
  events: PublisherEvents,
  maxBytes = maxUnanswered,
): Publisher {
  /** All messages use the same promise, so that none overtakes another. */
  let connecting: Promise<RedisConnection> | undefined
  let connection: RedisConnection | undefined
  let retryAfter = 0
  let unanswered = 0
  let hasLost = false
  let isClosed = false
  let last: Promise<void> | undefined

  function currentConnection(): Promise<RedisConnection> {
    if (connecting && connection?.isOpen !== false) return connecting
    if (performance.now() < retryAfter) return Promise.reject(new RedisUnreachable('Redis cannot be reached'))
    connection = undefined
    connecting = connectRedis(address).then(
      opened => {
        connection = opened
        return opened
      },
      error => {
        connecting = undefined
        retryAfter = performance.now() + retryPauseMs
        throw error
      },
    )
    return connecting
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
      if (unanswered + bytes > maxBytes) return lose(new PublishBacklogFull('Redis does not keep up'))
      unanswered += bytes
      last = currentConnection()
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
