// How much one client, one channel and one project may do, and the names of what is refused.
import type { Tenant } from '#src/tenancy/directory.ts'

export const maxTopicBytes = 255
export const maxEventBytes = 255
export const maxPayloadBytes = 3_000_000
export const maxChannels = 100
export const maxBindings = 100
/** Of all channels of a socket. */
export const maxSocketBindings = 1000
/** Of the texts in `postgres_changes`. */
export const maxWishesBytes = 100_000
/** Of presence, as long as what is tracked: they are kept, and told to everybody who comes. */
export const maxKeyBytes = 255
export const maxTrackedBytes = 65_536
/** Of all that is tracked on a topic, with its keys. */
export const maxPresenceBytes = 1024 * 1024
/** In one request. */
export const maxPosted = 1000
/** Of messages that came while the tokens of their channels were being judged; a socket that has more is not read. */
export const maxHeldBackBytes = 256 * 1024
/** A join is not held up for longer by changes that do not flow yet; it is told later that they do. */
export const flowingMs = 3000
const joinsPerSecond = 500
const joinsAtOnce = 1000
const presencePerSecond = 1000
/** Of one channel. */
export const maxTracks = 5
export const tracksWindowMs = 30_000

export const maxClients = ({ quotas }: Tenant): number => quotas.realtime_max_clients ?? 10_000
const maxEvents = ({ quotas }: Tenant): number => quotas.realtime_max_events_per_second ?? 10_000

/** So many at once, and so many a second after that. */
class Allowance {
  #left: number
  #at = performance.now()
  constructor(atOnce: number) {
    this.#left = atOnce
  }
  take(perSecond: number, atOnce = perSecond): boolean {
    const now = performance.now()
    this.#left = Math.min(atOnce, this.#left + ((now - this.#at) / 1000) * perSecond)
    this.#at = now
    if (this.#left < 1) return false
    this.#left--
    return true
  }
}

/** What the sockets of a project do, all together, on this node. */
export class Rates {
  readonly #joins = new Allowance(joinsAtOnce)
  readonly #events = new Allowance(Number.MAX_SAFE_INTEGER)
  readonly #presence = new Allowance(presencePerSecond)

  mayJoin = () => this.#joins.take(joinsPerSecond, joinsAtOnce)
  maySend = (tenant: Tenant) => this.#events.take(maxEvents(tenant))
  mayTrack = () => this.#presence.take(presencePerSecond)
}

export const reasons = {
  topicRequired: 'TopicNameRequired: You must provide a topic name',
  topicTooLong: `TopicNameTooLong: A topic has at most ${maxTopicBytes} bytes`,
  tooManyJoins: 'ClientJoinRateLimitReached: Too many joins per second',
  tooManyChannels: `ChannelRateLimitReached: A connection has at most ${maxChannels} channels`,
  tooManyBindings: `TooManyBindings: A channel has at most ${maxBindings} entries in postgres_changes`,
  tooManyOfSocket: `TooManyBindings: A connection has at most ${maxSocketBindings} entries in postgres_changes, on all its channels`,
  wishesTooLong: `TooManyBindings: The entries in postgres_changes have at most ${maxWishesBytes} bytes in all`,
  keyTooLong: `PresenceKeyTooLong: A key of presence has at most ${maxKeyBytes} bytes`,
  trackedTooLarge: `PayloadSizeExceeded: What is tracked has at most ${maxTrackedBytes} bytes`,
  presenceTooLarge: `PresenceTooLarge: What is tracked on a topic has at most ${maxPresenceBytes} bytes in all`,
  tooManyMessages: 'MessagesPerSecondReached: Too many messages per second',
  tooMuchPresence: 'PresenceRateLimitReached: Too many presence messages per second',
  tooManyTracks: `ClientPresenceRateLimitReached: A channel may track ${maxTracks} times in ${tracksWindowMs / 1000} seconds`,
  payloadTooLarge: `PayloadSizeExceeded: A payload has at most ${maxPayloadBytes} bytes`,
  eventTooLong: `EventNameTooLong: An event has at most ${maxEventBytes} bytes`,
  maySend: 'Unauthorized: You do not have permissions to send to this channel',
  mayRead: 'Unauthorized: You do not have permissions to read from this channel topic',
  replayNeedsPrivate: 'UnableToReplayMessages: Replay is not allowed for public channels',
  replayFailed: 'UnableToReplayMessages: The messages could not be read',
  notFlowing: 'PostgresChangesSubscribeTimeout: Changes did not flow in time; try again',
  judgeFailed: 'UnableToConnectToProject: Permissions could not be asked for; try again',
} as const
