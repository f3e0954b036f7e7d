// Limits per client, channel and project, and the error messages for exceeding them.
import type { Tenant } from '#src/tenancy/directory.ts'

export const maxTopicBytes = 255
export const maxEventBytes = 255
export const maxPayloadBytes = 3_000_000
export const maxChannels = 100
export const maxBindings = 100
/** On all channels of a socket together. */
export const maxSocketBindings = 1000
/** Of all strings in `postgres_changes`. */
export const maxBindingsBytes = 100_000
/** Of a presence key. Keys are stored while something is tracked, and sent to every new member. */
export const maxKeyBytes = 255
export const maxTrackedBytes = 65_536
/** Of everything tracked on a topic, with the keys. */
export const maxPresenceBytes = 1024 * 1024
/** In one request. */
export const maxMessagesPerRequest = 1000
/** Of frames that wait for a join or a token check. A socket with more queued is paused. */
export const maxQueuedBytes = 256 * 1024
/** How long a join waits for capture to start. After that it is answered, and a system message follows later. */
export const captureWaitMs = 3000
const joinsPerSecond = 500
const joinBurst = 1000
const presencePerSecond = 1000
/** Per channel, in the window. */
export const maxTracks = 5
export const tracksWindowMs = 30_000

export const maxClients = ({ quotas }: Tenant): number => quotas.realtime_max_clients ?? 10_000
const maxEvents = ({ quotas }: Tenant): number => quotas.realtime_max_events_per_second ?? 10_000

/** A token bucket: `burst` at once, then `perSecond`. */
class TokenBucket {
  #tokens: number
  #updatedAt = performance.now()
  constructor(burst: number) {
    this.#tokens = burst
  }
  take(perSecond: number, burst = perSecond): boolean {
    const now = performance.now()
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#updatedAt) / 1000) * perSecond)
    this.#updatedAt = now
    if (this.#tokens < 1) return false
    this.#tokens--
    return true
  }
}

/** Rate limits for all sockets of a project on this node together. */
export class RateLimits {
  readonly #joins = new TokenBucket(joinBurst)
  readonly #events = new TokenBucket(Number.MAX_SAFE_INTEGER)
  readonly #presence = new TokenBucket(presencePerSecond)

  mayJoin = () => this.#joins.take(joinsPerSecond, joinBurst)
  maySend = (tenant: Tenant) => this.#events.take(maxEvents(tenant))
  mayTrack = () => this.#presence.take(presencePerSecond)
}

export const reasons = {
  topicRequired: 'TopicNameRequired: You must provide a topic name',
  topicTooLong: `TopicNameTooLong: A topic has at most ${maxTopicBytes} bytes`,
  tooManyJoins: 'ClientJoinRateLimitReached: Too many joins per second',
  tooManyChannels: `ChannelRateLimitReached: A connection has at most ${maxChannels} channels`,
  tooManyBindings: `TooManyBindings: A channel has at most ${maxBindings} entries in postgres_changes`,
  tooManySocketBindings: `TooManyBindings: A connection has at most ${maxSocketBindings} entries in postgres_changes, on all its channels`,
  bindingsTooLong: `TooManyBindings: The entries in postgres_changes have at most ${maxBindingsBytes} bytes in all`,
  keyTooLong: `PresenceKeyTooLong: A key of presence has at most ${maxKeyBytes} bytes`,
  trackedTooLarge: `PayloadSizeExceeded: What is tracked has at most ${maxTrackedBytes} bytes`,
  presenceTooLarge: `PresenceTooLarge: What is tracked on a topic has at most ${maxPresenceBytes} bytes in all`,
  tooManyMessages: 'MessagesPerSecondReached: Too many messages per second',
  tooMuchPresence: 'PresenceRateLimitReached: Too many presence messages per second',
  tooManyTracks: `ClientPresenceRateLimitReached: A channel may track ${maxTracks} times in ${tracksWindowMs / 1000} seconds`,
  payloadTooLarge: `PayloadSizeExceeded: A payload has at most ${maxPayloadBytes} bytes`,
  eventTooLong: `EventNameTooLong: An event has at most ${maxEventBytes} bytes`,
  sendForbidden: 'Unauthorized: You do not have permissions to send to this channel',
  readForbidden: 'Unauthorized: You do not have permissions to read from this channel topic',
  replayNeedsPrivate: 'UnableToReplayMessages: Replay is not allowed for public channels',
  replayFailed: 'UnableToReplayMessages: The messages could not be read',
  captureTimeout: 'PostgresChangesSubscribeTimeout: Changes did not flow in time; try again',
  policyCheckFailed: 'UnableToConnectToProject: Permissions could not be asked for; try again',
} as const
