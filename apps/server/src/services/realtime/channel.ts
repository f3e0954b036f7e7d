// A topic that a socket has joined: its token, its options, its subscriptions and how it closes.
import { type Credential, callerOfCredential, namesUnknownKey, whyRefused } from '#src/planes/data/admit.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { ChannelDeps } from './channel-deps.ts'
import type { Project } from './hub.ts'
import type { JoinConfig } from './join-config.ts'
import { reasons } from './limits.ts'
import type { Tracked } from './presence.ts'
import type { Binding, ChangeSubscriber, ChangeSubscription, Permissions } from './subscriber.ts'
import { type Member, topicKey, topicPrefix } from './topic.ts'
import { encodeMessage, encodeReply, type Message, type Ref, type UserPush, type Version } from './wire.ts'

/** The socket, as far as a channel uses it. */
export interface ChannelSocket {
  readonly version: Version
  readonly project: Project
  send(frame: Buffer): void
  /** Adds to the bytes queued on the socket's channels; negative when frames leave a queue. */
  addQueuedBytes(bytes: number): void
  /** Called when the channel has ended. */
  remove(channel: Channel): void
}

/** Public topics have no policies. */
const allPermissions: Permissions = {
  mayReadBroadcast: true,
  maySendBroadcast: true,
  mayReadPresence: true,
  maySendPresence: true,
}

/** Queued undecoded, because a decoded frame can be many times as large. */
export interface QueuedFrame {
  readonly data: Buffer
  readonly isBinary: boolean
  /** Set for a large frame, so that it is not decoded twice. */
  readonly decoded?: Message | UserPush
}
/** Memory of a queued frame besides its bytes. */
const queuedFrameOverhead = 200
const sizeOf = ({ data }: QueuedFrame) => data.length + queuedFrameOverhead

export class Channel implements ChangeSubscriber, Member {
  readonly topic: string
  readonly joinRef: Ref
  readonly socket: ChannelSocket
  readonly acksBroadcasts: boolean
  readonly receivesOwnBroadcasts: boolean
  readonly isPrivate: boolean
  readonly isLegacy: boolean
  readonly bindings: readonly Binding[]
  caller: Caller
  expiresAtMs: number
  /** The channel's own token. Undefined if it uses that of the socket. */
  token: string | undefined
  permissions = allPermissions
  presenceKey: string
  isPresenceEnabled: boolean
  tracked: Tracked | undefined
  /** The tracked payload as the client sent it. */
  trackedText = ''
  trackTimes: number[] = emptyList
  replayed: ReadonlySet<string> = emptySet
  #state: 'joining' | 'joined' | 'ended' = 'joining'
  #isCheckingToken = false
  #queued: QueuedFrame[] = emptyList
  #subscription: ChangeSubscription | undefined

  constructor(
    socket: ChannelSocket,
    { topic, joinRef }: Message,
    config: JoinConfig,
    credential: Credential,
  ) {
    this.socket = socket
    this.topic = topic
    this.joinRef = joinRef
    this.isPrivate = config.isPrivate
    this.acksBroadcasts = config.acksBroadcasts
    this.receivesOwnBroadcasts = config.receivesOwnBroadcasts
    this.isLegacy = config.isLegacy
    this.bindings = config.bindings
    this.presenceKey = config.presence.key
    this.isPresenceEnabled = config.presence.isEnabled
    this.token = config.token
    this.caller = credential.caller
    this.expiresAtMs = credential.expiresAtMs
  }

  get version(): Version {
    return this.socket.version
  }
  get subTopic(): string {
    return this.topic.slice(topicPrefix.length)
  }
  get topicKey(): string {
    return topicKey(this.isPrivate, this.subTopic)
  }
  /** Joined, with no token check in progress. */
  get isReady(): boolean {
    return this.#state === 'joined' && !this.#isCheckingToken
  }
  get isEnded(): boolean {
    return this.#state === 'ended'
  }
  get receivesBroadcasts(): boolean {
    return this.permissions.mayReadBroadcast
  }
  get receivesPresence(): boolean {
    return this.isPresenceEnabled && this.permissions.mayReadPresence
  }

  send(frame: Buffer): void {
    if (this.#state !== 'ended') this.socket.send(frame)
  }
  push(event: string, payload: string): void {
    this.send(encodeMessage(this.version, this.topic, event, payload, this.joinRef))
  }
  reply(to: Pick<Message, 'joinRef' | 'ref' | 'topic'>, status: 'ok' | 'error', response: string): void {
    this.send(encodeReply(this.version, to, status, response))
  }
  sendStatus(status: 'ok' | 'error', message: string): void {
    this.#sendSystem('postgres_changes', status, message)
  }
  sendError(message: string): void {
    this.#sendSystem('system', 'error', message)
  }
  #sendSystem(extension: string, status: 'ok' | 'error', message: string): void {
    this.push('system', JSON.stringify({ extension, status, message, channel: this.subTopic }))
  }

  /** Frames that arrive during a join or a token check are handled after it. */
  enqueue(message: QueuedFrame): void {
    if (this.#queued === emptyList) this.#queued = []
    this.#queued.push(message)
    this.socket.addQueuedBytes(sizeOf(message))
  }
  nextQueued(): QueuedFrame | undefined {
    if (!this.isReady) return
    const next = this.#queued.shift()
    if (next) this.socket.addQueuedBytes(-sizeOf(next))
    else this.#queued = emptyList
    return next
  }

  /** Called before the join is answered. Resolves when changes are captured. */
  subscribe({ changes }: ChannelDeps): Promise<void> {
    this.#subscription = changes.subscribe(this)
    return this.#subscription.ready
  }

  /** Called when the join has been answered. */
  join(): void {
    this.#state = 'joined'
    const { project } = this.socket
    // The state sent below includes pending changes. A later diff must not repeat them.
    project.flushPresence(this.topicKey)
    project.join(this.topicKey, this)
    this.#sendPresenceState()
  }

  /** The first `track` enables presence, even if the join did not. */
  enablePresence(): void {
    if (this.isPresenceEnabled) return
    this.socket.project.flushPresence(this.topicKey)
    this.isPresenceEnabled = true
    this.#sendPresenceState()
  }

  #sendPresenceState(): void {
    if (this.receivesPresence) this.push('presence_state', this.socket.project.presenceState(this.topicKey))
  }

  /** Ends the channel without sending anything. The caller sends the reason. */
  end(): void {
    if (this.#state === 'ended') return
    const wasJoined = this.#state === 'joined'
    this.#state = 'ended'
    this.socket.remove(this)
    this.#subscription?.end()
    for (const each of this.#queued) this.socket.addQueuedBytes(-sizeOf(each))
    this.#queued = emptyList
    if (!wasJoined) return
    const { project } = this.socket
    if (this.tracked) project.untrack(this.topicKey, this.tracked)
    project.leave(this.topicKey, this)
  }

  close(): void {
    if (this.#state === 'ended') return
    this.socket.project.flush(this.topicKey)
    this.send(encodeMessage(this.version, this.topic, 'phx_close', '{}', this.joinRef, this.joinRef))
    this.end()
  }

  /** Sends the reason as a system message, then closes. A join that is still being checked is rejected with the reason. */
  closeWithError(reason: string): void {
    if (this.#state === 'joining') {
      const join = { joinRef: this.joinRef, ref: this.joinRef, topic: this.topic }
      this.reply(join, 'error', JSON.stringify({ reason }))
      return this.end()
    }
    this.sendError(reason)
    this.close()
  }

  /** Checks a token that the client sent on an open channel. If it is valid, later policy checks use it. */
  async refresh(token: string, deps: ChannelDeps): Promise<void> {
    this.#isCheckingToken = true
    try {
      await this.#replaceToken(token, deps)
    } catch (error) {
      deps.log.warn({ err: error }, 'checking a refreshed token failed')
      this.closeWithError(reasons.policyCheckFailed)
    } finally {
      this.#isCheckingToken = false
    }
  }

  async #replaceToken(token: string, deps: ChannelDeps): Promise<void> {
    await reloadIfUnknownKey(this.socket.project, token, deps)
    const { tenant } = this.socket.project
    const credential = callerOfCredential(tenant, token)
    if (!credential) return this.closeWithError(tokenError(tenant, token))
    const { caller, expiresAtMs } = credential
    if (caller.userId !== '' && (await deps.isRevoked(caller))) return this.closeWithError(revoked)
    const permissions = this.isPrivate ? await deps.permissions(caller, this.subTopic) : allPermissions
    // The project's keys may have changed during the checks.
    if (this.socket.project.tenant !== tenant) return this.#replaceToken(token, deps)
    if (!permissions.mayReadBroadcast && !permissions.mayReadPresence)
      return this.closeWithError(reasons.readForbidden)
    Object.assign(this, { token, permissions, caller, expiresAtMs })
  }
}

const emptyList: never[] = []
const emptySet: ReadonlySet<string> = new Set()

export const revoked = 'InvalidJWTToken: Token has been revoked'
export const expired = 'InvalidJWTToken: Token has expired'

/** The token may be signed with a key that another node has just made. */
export async function reloadIfUnknownKey(project: Project, token: string, deps: ChannelDeps): Promise<void> {
  if (!namesUnknownKey(project.tenant, token)) return
  project.tenant = (await deps.findCurrent(project.id)) ?? project.tenant
}

/** The error message for an invalid token. */
export function tokenError(tenant: Project['tenant'], token: string): string {
  switch (whyRefused(tenant, token)) {
    case 'malformed':
      return 'MalformedJWT: The token provided is not a valid JWT'
    case 'signature':
      return 'JwtSignatureError: Failed to validate JWT signature'
    case 'expired':
      return expired
    case 'claims':
      return 'InvalidJWTToken: Fields `role` and `exp` are required in JWT'
  }
}
