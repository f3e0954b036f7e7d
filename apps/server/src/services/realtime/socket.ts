// One connection of a client, and the channels it has joined.
import type { ClientSocket, SocketHandlers } from '#src/kernel/http/client-socket.ts'
import { inSlices, isTurnSpent, type Sliced } from '#src/kernel/slices.ts'
import { type Credential, callerOfCredential } from '#src/planes/data/admit.ts'
import { BroadcastFrames, broadcastOf } from './broadcast.ts'
import { Channel, expired, type HeldBack, type Home, refusalOf, revoked } from './channel.ts'
import type { Project } from './hub.ts'
import { type JoinConfig, joinConfigFrom } from './join-config.ts'
import {
  flowingMs,
  maxChannels,
  maxHeldBackBytes,
  maxSocketBindings,
  maxTopicBytes,
  reasons,
} from './limits.ts'
import type { Parts } from './parts.ts'
import { changePresence, sendBytes, sendText } from './sending.ts'
import { topicPrefix } from './space.ts'
import {
  decode,
  decodeLarge,
  encodeReply,
  isObject,
  Malformed,
  type Message,
  maxBytesAtOnce,
  type UserPush,
  type Version,
} from './wire.ts'

export type SocketCredential = Credential & { readonly text: string }

export class RealtimeSocket implements SocketHandlers, Home {
  readonly version: Version
  readonly project: Project<RealtimeSocket>
  credential: SocketCredential
  readonly #client: ClientSocket
  readonly #parts: Parts
  readonly #ended: (socket: RealtimeSocket) => void
  #channels: Map<string, Channel> | undefined
  #heldBytes = 0
  /** Frames that came while others are handled in slices. */
  #waiting: HeldBack[] | undefined

  constructor(
    client: ClientSocket,
    version: Version,
    project: Project<RealtimeSocket>,
    credential: SocketCredential,
    parts: Parts,
    ended: (socket: RealtimeSocket) => void,
  ) {
    this.#client = client
    this.version = version
    this.project = project
    this.credential = credential
    this.#parts = parts
    this.#ended = ended
  }

  get channels(): Iterable<Channel> {
    return this.#channels?.values() ?? []
  }
  send(frame: Buffer): void {
    this.#client.send(frame)
  }
  drop(channel: Channel): void {
    if (this.#channels?.get(channel.topic) === channel) this.#channels.delete(channel.topic)
  }
  /** Nothing is lost by not reading, and others can be read meanwhile. */
  hold(bytes: number): void {
    this.#heldBytes += bytes
    if (this.#heldBytes > maxHeldBackBytes) this.#client.pause()
    else this.#client.resume()
  }
  close(code: number, reason: string): void {
    this.#client.close(code, reason)
  }
  closed(): void {
    for (const channel of [...this.channels]) channel.end()
    this.#ended(this)
  }

  /** The project has changed: whatever no longer counts ends, the rest goes on as it is now. */
  takeAnew(): void {
    const { tenant } = this.project
    const credential = callerOfCredential(tenant, this.credential.text)
    if (credential) this.credential = { ...credential, text: this.credential.text }
    else if (this.credential.expiresAtMs > Date.now())
      return this.close(1008, 'the credential of this socket no longer counts')
    for (const channel of [...this.channels]) {
      const { token } = channel
      const own = token === undefined ? this.credential : callerOfCredential(tenant, token)
      if (own) channel.caller = own.caller
      else channel.shut(refusalOf(tenant, token!))
    }
  }

  message(data: Buffer, isBinary: boolean): void {
    // Frames are handled in their order.
    if (this.#waiting) this.#waiting.push({ data, isBinary })
    else if (data.length > maxBytesAtOnce || isTurnSpent()) void this.#takeInSlices({ data, isBinary })
    else this.#takeSmall({ data, isBinary })
  }

  #takeSmall(frame: HeldBack): void {
    try {
      this.#handle(frame, decode(frame.data, frame.isBinary, this.version))
    } catch (error) {
      this.#refuse(error)
    }
  }

  /** For a large frame, and for many that came at once. The socket is not read meanwhile; what has been read waits. */
  async #takeInSlices(first: HeldBack): Promise<void> {
    const waiting = [first]
    this.#waiting = waiting
    this.hold(maxHeldBackBytes + 1)
    try {
      await inSlices(this.#takeAll(waiting))
    } catch (error) {
      this.#refuse(error)
    } finally {
      this.#waiting = undefined
      this.hold(-maxHeldBackBytes - 1)
    }
  }

  *#takeAll(waiting: HeldBack[]): Sliced<void> {
    for (let next = waiting.shift(); next && this.#client.isOpen; next = waiting.shift()) {
      const { data, isBinary } = next
      const decoded =
        data.length > maxBytesAtOnce
          ? yield* decodeLarge(data, isBinary, this.version)
          : decode(data, isBinary, this.version)
      if (this.#client.isOpen) this.#handle(next, decoded)
      yield
    }
  }

  #refuse(error: unknown): void {
    if (error instanceof Malformed) this.close(1003, `malformed: ${error.message}`)
    else this.#fail(error)
  }

  #handle({ data, isBinary }: HeldBack, message: Message | UserPush): void {
    const event = 'userEvent' in message ? 'broadcast' : message.event
    const { topic } = message
    if (topic === 'phoenix') {
      if (event === 'heartbeat') this.#reply(message, 'ok', '{}')
      return
    }
    const channel = this.#channels?.get(topic)
    if (!this.project.rates.maySend(this.project.tenant)) return channel?.shut(reasons.tooManyMessages)
    if (event === 'phx_join') return void this.#join(message as Message, channel)
    // Of a channel that has been joined anew since.
    const isStale =
      message.joinRef !== null && channel?.joinRef != null && message.joinRef !== channel.joinRef
    if (event === 'phx_leave') {
      this.#reply(message, 'ok', '{}')
      if (!isStale) channel?.close()
      return
    }
    if (!channel) return this.#reply(message, 'error', '{"reason":"unmatched topic"}')
    if (isStale) return
    if (!channel.isReady)
      return channel.holdBack({ data, isBinary, ...(data.length > maxBytesAtOnce && { decoded: message }) })
    this.#onChannel(channel, message)
  }

  #onChannel(channel: Channel, message: Message | UserPush): void {
    if ('userEvent' in message) return sendBytes(channel, message)
    if (message.event === 'broadcast') return sendText(channel, message)
    if (message.event === 'presence') return changePresence(channel, message)
    if (message.event !== 'access_token') return
    const token = isObject(message.payload) ? message.payload['access_token'] : undefined
    if (typeof token !== 'string' || token === (channel.token ?? this.credential.text)) return
    void channel.refresh(token, this.#parts).then(() => this.#resume(channel))
  }

  /** What has waited for a join, or for a token. */
  #resume(channel: Channel): void {
    try {
      for (let held = channel.nextHeldBack(); held; held = channel.nextHeldBack())
        this.#onChannel(channel, held.decoded ?? decode(held.data, held.isBinary, this.version))
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    this.#parts.log.error({ err: error }, 'a message on a socket could not be handled')
    this.close(1011, 'the message could not be handled')
  }

  #reply(message: Message | UserPush, status: 'ok' | 'error', response: string): void {
    this.send(encodeReply(this.version, message, status, response))
  }

  async #join(message: Message, previous: Channel | undefined): Promise<void> {
    const refuse = (reason: string) => this.#reply(message, 'error', JSON.stringify({ reason }))
    previous?.close()
    let channel: Channel | undefined
    try {
      const opened = this.#open(message)
      if (typeof opened === 'string') return refuse(opened)
      channel = opened.channel
      const problem = this.#hasToAsk(channel) ? await this.#judge(channel) : undefined
      if (channel.isEnded) return
      if (problem !== undefined) {
        channel.end()
        return refuse(problem)
      }
      const { config } = opened
      const hasWishes = channel.bindings.length > 0
      // Changes of rows come as soon as they flow, and nothing comes before the answer. Without them, what is read last is
      // followed by what is sent from then on.
      const before = hasWishes ? await this.#replayed(channel, config) : undefined
      if (channel.isEnded) return
      const flows = channel.subscribe(this.#parts)
      const isFlowing = await isIn(flows, hasWishes ? config.waitMs : undefined)
      const replayed = before ?? (await this.#replayed(channel, config))
      if (channel.isEnded) return
      if (!isFlowing) {
        channel.end()
        return refuse(reasons.notFlowing)
      }
      this.#reply(message, 'ok', `{"postgres_changes":${config.answer}}`)
      channel.enter()
      if (config.complaint !== undefined) channel.tell('error', config.complaint)
      for (const frame of replayed) channel.send(frame)
      this.#resume(channel)
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'a channel could not be joined')
      if (channel?.isEnded) return
      channel?.end()
      refuse(error instanceof ReplayFailed ? reasons.replayFailed : reasons.judgeFailed)
    }
  }

  /** What can be said against a join without asking anybody. */
  #open(message: Message) {
    const { topic } = message
    const { project } = this
    if (!topic.startsWith(topicPrefix)) return 'unmatched topic'
    if (topic.length === topicPrefix.length) return reasons.topicRequired
    if (Buffer.byteLength(topic) > maxTopicBytes) return reasons.topicTooLong
    if (!project.rates.mayJoin()) return reasons.tooManyJoins
    this.#channels ??= new Map()
    if (this.#channels.size >= maxChannels) return reasons.tooManyChannels
    const config = joinConfigFrom(
      message.payload,
      topic.slice(topicPrefix.length),
      project.tenant.exposedSchemas,
    )
    if (config.refusal !== undefined) return config.refusal
    let bindings = config.bindings.length
    for (const each of this.channels) bindings += each.bindings.length
    if (bindings > maxSocketBindings) return reasons.tooManyOfSocket
    if (config.replay && !config.isPrivate) return reasons.replayNeedsPrivate
    const credential =
      config.token === undefined ? this.credential : callerOfCredential(project.tenant, config.token)
    if (!credential) return refusalOf(project.tenant, config.token!)
    if (credential.expiresAtMs <= Date.now()) return expired
    const channel = new Channel(this, message, config, credential)
    this.#channels.set(topic, channel)
    return { channel, config }
  }

  /** Most joins are answered in the same turn. */
  #hasToAsk({ caller, isPrivate }: Channel): boolean {
    return caller.userId !== '' || isPrivate || this.project.ready() !== undefined
  }

  /** Whether the caller still counts, and may be on a private topic. */
  async #judge(channel: Channel): Promise<string | undefined> {
    const { caller } = channel
    const { project } = this
    if (caller.userId !== '' && (await this.#parts.isRevoked(caller))) return revoked
    // Who is present elsewhere is known by then.
    const others = project.ready()
    if (others) await others
    if (!channel.isPrivate) return
    channel.permissions = await this.#parts.permissions(caller, channel.subTopic)
    const { mayReadBroadcast, mayReadPresence } = channel.permissions
    return mayReadBroadcast || mayReadPresence ? undefined : reasons.mayRead
  }

  async #replayed(channel: Channel, { replay }: JoinConfig): Promise<Buffer[]> {
    if (!replay || !channel.hearsBroadcasts) return []
    const { caller, subTopic, topic } = channel
    const sent = await this.#parts.replay(caller, subTopic, replay.since, replay.limit).catch(cause => {
      throw new ReplayFailed('messages could not be replayed', { cause })
    })
    channel.replayed = new Set(sent.map(({ id }) => id))
    return sent
      .map(message => new BroadcastFrames(topic, broadcastOf(message, true)).of(this.version))
      .filter(frame => frame !== undefined)
  }
}

/** Whether changes flow; false if the client would rather not join than wait any longer. */
function isIn(flows: Promise<void>, waitMs: number | undefined): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const late = setTimeout(resolve, waitMs ?? flowingMs, waitMs === undefined)
  flows.then(
    () => resolve(true),
    () => resolve(true),
  )
  return promise.finally(() => clearTimeout(late))
}

class ReplayFailed extends Error {}
