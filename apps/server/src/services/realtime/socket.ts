// The WebSocket of a client, and the channels it has joined.
import type { ClientSocket, SocketHandlers } from '#src/kernel/http/client-socket.ts'
import { inSlices, isTurnSpent, type Sliced } from '#src/kernel/slices.ts'
import { type Credential, callerOfCredential, namesUnknownKey } from '#src/planes/data/admit.ts'
import { BroadcastFrames, broadcastOf } from './broadcast.ts'
import {
  Channel,
  type ChannelSocket,
  expired,
  type QueuedFrame,
  reloadIfUnknownKey,
  revoked,
  tokenError,
} from './channel.ts'
import type { ChannelDeps } from './channel-deps.ts'
import { broadcastBytes, broadcastText, changePresence } from './client-messages.ts'
import type { Project } from './hub.ts'
import { type JoinConfig, joinConfigFrom } from './join-config.ts'
import {
  captureWaitMs,
  maxChannels,
  maxQueuedBytes,
  maxSocketBindings,
  maxTopicBytes,
  reasons,
} from './limits.ts'
import { topicPrefix } from './topic.ts'
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

export class RealtimeSocket implements SocketHandlers, ChannelSocket {
  readonly version: Version
  readonly project: Project<RealtimeSocket>
  credential: SocketCredential
  readonly #client: ClientSocket
  readonly #deps: ChannelDeps
  readonly #ended: (socket: RealtimeSocket) => void
  #channels: Map<string, Channel> | undefined
  /** Joins that wait for a signing key of another node, by topic. A later message for the topic cancels them. */
  #waitingJoins: Map<string, Message> | undefined
  #queuedBytes = 0
  /** Frames that arrived while earlier ones are handled in slices. */
  #backlog: QueuedFrame[] | undefined

  constructor(
    client: ClientSocket,
    version: Version,
    project: Project<RealtimeSocket>,
    credential: SocketCredential,
    deps: ChannelDeps,
    ended: (socket: RealtimeSocket) => void,
  ) {
    this.#client = client
    this.version = version
    this.project = project
    this.credential = credential
    this.#deps = deps
    this.#ended = ended
  }

  get channels(): Iterable<Channel> {
    return this.#channels?.values() ?? []
  }
  send(frame: Buffer): void {
    this.#client.send(frame)
  }
  remove(channel: Channel): void {
    if (this.#channels?.get(channel.topic) === channel) this.#channels.delete(channel.topic)
  }
  /** Pauses reading above the limit. TCP then slows the client down, and no frame is lost. */
  addQueuedBytes(bytes: number): void {
    this.#queuedBytes += bytes
    if (this.#queuedBytes > maxQueuedBytes) this.#client.pause()
    else this.#client.resume()
  }
  close(code: number, reason: string): void {
    this.#client.close(code, reason)
  }
  closed(): void {
    for (const channel of [...this.channels]) channel.end()
    this.#ended(this)
  }

  /** Called when the project has changed. Closes what is no longer valid, and keeps the rest with the new settings. */
  recheckCredentials(): void {
    const { tenant } = this.project
    const credential = callerOfCredential(tenant, this.credential.text)
    if (credential) this.credential = { ...credential, text: this.credential.text }
    else if (this.credential.expiresAtMs > Date.now())
      return this.close(1008, 'the credential of this socket no longer counts')
    for (const channel of [...this.channels]) {
      const { token } = channel
      const own = token === undefined ? this.credential : callerOfCredential(tenant, token)
      if (own) channel.caller = own.caller
      else channel.closeWithError(tokenError(tenant, token!))
    }
  }

  message(data: Buffer, isBinary: boolean): void {
    // Frames are handled in the order of arrival.
    if (this.#backlog) this.#backlog.push({ data, isBinary })
    else if (data.length > maxBytesAtOnce || isTurnSpent()) void this.#handleInSlices({ data, isBinary })
    else this.#handleNow({ data, isBinary })
  }

  #handleNow(frame: QueuedFrame): void {
    try {
      this.#handle(frame, decode(frame.data, frame.isBinary, this.version))
    } catch (error) {
      this.#rejectFrame(error)
    }
  }

  /** For a large frame, and for many at once. Reading pauses meanwhile; frames already read wait in the backlog. */
  async #handleInSlices(first: QueuedFrame): Promise<void> {
    const backlog = [first]
    this.#backlog = backlog
    this.addQueuedBytes(maxQueuedBytes + 1)
    try {
      await inSlices(this.#handleBacklog(backlog))
    } catch (error) {
      this.#rejectFrame(error)
    } finally {
      this.#backlog = undefined
      this.addQueuedBytes(-maxQueuedBytes - 1)
    }
  }

  *#handleBacklog(backlog: QueuedFrame[]): Sliced<void> {
    for (let next = backlog.shift(); next && this.#client.isOpen; next = backlog.shift()) {
      const { data, isBinary } = next
      const decoded =
        data.length > maxBytesAtOnce
          ? yield* decodeLarge(data, isBinary, this.version)
          : decode(data, isBinary, this.version)
      if (this.#client.isOpen) this.#handle(next, decoded)
      yield
    }
  }

  #rejectFrame(error: unknown): void {
    if (error instanceof Malformed) this.close(1003, `malformed: ${error.message}`)
    else this.#fail(error)
  }

  #handle({ data, isBinary }: QueuedFrame, message: Message | UserPush): void {
    const event = 'userEvent' in message ? 'broadcast' : message.event
    const { topic } = message
    if (topic === 'phoenix') {
      if (event === 'heartbeat') this.#reply(message, 'ok', '{}')
      return
    }
    const channel = this.#channels?.get(topic)
    if (!this.project.rates.maySend(this.project.tenant))
      return channel?.closeWithError(reasons.tooManyMessages)
    if (event === 'phx_join') return void this.#join(message as Message, channel)
    // Sent to an earlier join of the same topic.
    const isStale =
      message.joinRef !== null && channel?.joinRef != null && message.joinRef !== channel.joinRef
    if (event === 'phx_leave') {
      this.#reply(message, 'ok', '{}')
      this.#waitingJoins?.delete(topic)
      if (!isStale) channel?.close()
      return
    }
    if (!channel) return this.#reply(message, 'error', '{"reason":"unmatched topic"}')
    if (isStale) return
    if (!channel.isReady)
      return channel.enqueue({ data, isBinary, ...(data.length > maxBytesAtOnce && { decoded: message }) })
    this.#onChannel(channel, message)
  }

  #onChannel(channel: Channel, message: Message | UserPush): void {
    if ('userEvent' in message) return broadcastBytes(channel, message)
    if (message.event === 'broadcast') return broadcastText(channel, message)
    if (message.event === 'presence') return changePresence(channel, message)
    if (message.event !== 'access_token') return
    const token = isObject(message.payload) ? message.payload['access_token'] : undefined
    if (typeof token !== 'string' || token === (channel.token ?? this.credential.text)) return
    void channel.refresh(token, this.#deps).then(() => this.#handleQueued(channel))
  }

  /** Handles the frames that were queued during a join or a token check. */
  #handleQueued(channel: Channel): void {
    try {
      for (let queued = channel.nextQueued(); queued; queued = channel.nextQueued())
        this.#onChannel(channel, queued.decoded ?? decode(queued.data, queued.isBinary, this.version))
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    this.#deps.log.error({ err: error }, 'a message on a socket could not be handled')
    this.close(1011, 'the message could not be handled')
  }

  #reply(message: Message | UserPush, status: 'ok' | 'error', response: string): void {
    this.send(encodeReply(this.version, message, status, response))
  }

  async #join(message: Message, previous: Channel | undefined): Promise<void> {
    const reject = (reason: string) => this.#reply(message, 'error', JSON.stringify({ reason }))
    previous?.close()
    this.#waitingJoins?.delete(message.topic)
    let channel: Channel | undefined
    try {
      let opened = this.#createChannel(message)
      if (typeof opened === 'object' && 'unknownKey' in opened) {
        if (!(await this.#waitForKey(message, opened.unknownKey))) return
        opened = this.#createChannel(message)
        if (typeof opened === 'object' && 'unknownKey' in opened)
          opened = tokenError(this.project.tenant, opened.unknownKey)
      }
      if (typeof opened === 'string') return reject(opened)
      channel = opened.channel
      const problem = this.#needsAsyncChecks(channel) ? await this.#authorize(channel) : undefined
      if (channel.isEnded) return
      if (problem !== undefined) {
        channel.end()
        return reject(problem)
      }
      const { config } = opened
      const hasBindings = channel.bindings.length > 0
      // With bindings the replay is read before subscribing, because row changes start with the subscription
      // and must not precede the reply. Without bindings it is read after subscribing, so that no message is
      // missed in between.
      const before = hasBindings ? await this.#readReplay(channel, config) : undefined
      if (channel.isEnded) return
      const captured = channel.subscribe(this.#deps)
      const isInTime = await waitForCapture(captured, hasBindings ? config.waitMs : undefined)
      const replayed = before ?? (await this.#readReplay(channel, config))
      if (channel.isEnded) return
      if (!isInTime) {
        channel.end()
        return reject(reasons.captureTimeout)
      }
      this.#reply(message, 'ok', `{"postgres_changes":${config.echo}}`)
      channel.join()
      if (config.bindingError !== undefined) channel.sendStatus('error', config.bindingError)
      for (const frame of replayed) channel.send(frame)
      this.#handleQueued(channel)
    } catch (error) {
      this.#deps.log.warn({ err: error }, 'joining a channel failed')
      if (channel?.isEnded) return
      channel?.end()
      reject(error instanceof ReplayFailed ? reasons.replayFailed : reasons.policyCheckFailed)
    }
  }

  /** False if the client has left or joined the topic again, or has gone. */
  async #waitForKey(message: Message, token: string): Promise<boolean> {
    this.#waitingJoins ??= new Map()
    this.#waitingJoins.set(message.topic, message)
    await reloadIfUnknownKey(this.project, token, this.#deps)
    const isWanted = this.#waitingJoins.get(message.topic) === message
    if (isWanted) this.#waitingJoins.delete(message.topic)
    return isWanted && this.#client.isOpen
  }

  /** Validates the join as far as that needs no I/O. Returns the error message if it is invalid. */
  #createChannel(message: Message) {
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
    if (bindings > maxSocketBindings) return reasons.tooManySocketBindings
    if (config.replay && !config.isPrivate) return reasons.replayNeedsPrivate
    const credential =
      config.token === undefined ? this.credential : callerOfCredential(project.tenant, config.token)
    if (!credential)
      return namesUnknownKey(project.tenant, config.token!)
        ? { unknownKey: config.token! }
        : tokenError(project.tenant, config.token!)
    if (credential.expiresAtMs <= Date.now()) return expired
    const channel = new Channel(this, message, config, credential)
    this.#channels.set(topic, channel)
    return { channel, config }
  }

  /** Most joins need none, and are answered in the same turn of the event loop. */
  #needsAsyncChecks({ caller, isPrivate }: Channel): boolean {
    return caller.userId !== '' || isPrivate || this.project.ready() !== undefined
  }

  /** Checks revocation, and the policies of a private topic. Returns the error message if the caller may not join. */
  async #authorize(channel: Channel): Promise<string | undefined> {
    const { caller } = channel
    const { project } = this
    if (caller.userId !== '' && (await this.#deps.isRevoked(caller))) return revoked
    // The presence state sent after the join includes that of other nodes.
    const others = project.ready()
    if (others) await others
    if (!channel.isPrivate) return
    channel.permissions = await this.#deps.permissions(caller, channel.subTopic)
    const { mayReadBroadcast, mayReadPresence } = channel.permissions
    return mayReadBroadcast || mayReadPresence ? undefined : reasons.readForbidden
  }

  async #readReplay(channel: Channel, { replay }: JoinConfig): Promise<Buffer[]> {
    if (!replay || !channel.receivesBroadcasts) return []
    const { caller, subTopic, topic } = channel
    const sent = await this.#deps.replay(caller, subTopic, replay.since, replay.limit).catch(cause => {
      throw new ReplayFailed('messages could not be replayed', { cause })
    })
    channel.replayed = new Set(sent.map(({ id }) => id))
    return sent
      .map(message => new BroadcastFrames(topic, broadcastOf(message, true)).of(this.version))
      .filter(frame => frame !== undefined)
  }
}

/** False if the client asked to wait and the time is up. Without such a request, a timeout does not fail the join. */
function waitForCapture(captured: Promise<void>, waitMs: number | undefined): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const late = setTimeout(resolve, waitMs ?? captureWaitMs, waitMs === undefined)
  captured.then(
    () => resolve(true),
    () => resolve(true),
  )
  return promise.finally(() => clearTimeout(late))
}

class ReplayFailed extends Error {}
