// A topic that a socket has joined: who is there by which token, what it asked for, and how it ends.
import { type Credential, callerOfCredential, whyRefused } from '#src/planes/data/admit.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { type Project, spaceOf } from './hub.ts'
import type { JoinConfig } from './join-config.ts'
import { reasons } from './limits.ts'
import type { Parts } from './parts.ts'
import type { Tracked } from './presence.ts'
import { type Member, topicPrefix } from './space.ts'
import type { Binding, ChangeSubscriber, ChangeSubscription, Permissions } from './subscriber.ts'
import { encodeMessage, encodeReply, type Message, type Ref, type UserPush, type Version } from './wire.ts'

/** What a channel sees of its socket. */
export interface Home {
  readonly version: Version
  readonly project: Project
  send(frame: Buffer): void
  /** So many bytes more are held back; fewer, if negative. */
  hold(bytes: number): void
  /** The channel has ended. */
  drop(channel: Channel): void
}

/** On a public topic everybody may do everything. */
const all: Permissions = {
  mayReadBroadcast: true,
  maySendBroadcast: true,
  mayReadPresence: true,
  maySendPresence: true,
}

/** As it came: a decoded frame can be many times as large. */
export interface HeldBack {
  readonly data: Buffer
  readonly isBinary: boolean
  /** Of a large frame, which is decoded once. */
  readonly decoded?: Message | UserPush
}
/** Of one in memory, besides its bytes. */
const heldBackCost = 200
const sizeOf = ({ data }: HeldBack) => data.length + heldBackCost

export class Channel implements ChangeSubscriber, Member {
  readonly topic: string
  readonly joinRef: Ref
  readonly home: Home
  readonly acksBroadcasts: boolean
  readonly hearsItself: boolean
  readonly isPrivate: boolean
  readonly isLegacy: boolean
  readonly bindings: readonly Binding[]
  caller: Caller
  expiresAtMs: number
  /** Its own; without one it has its socket's. */
  token: string | undefined
  permissions = all
  presenceKey: string
  isPresenceEnabled: boolean
  tracked: Tracked | undefined
  /** What was tracked, as it was sent. */
  trackedText = ''
  trackTimes: number[] = none
  replayed: ReadonlySet<string> = nothing
  #state: 'joining' | 'joined' | 'ended' = 'joining'
  #isRefreshing = false
  #heldBack: HeldBack[] = none
  #subscription: ChangeSubscription | undefined

  constructor(home: Home, { topic, joinRef }: Message, config: JoinConfig, credential: Credential) {
    this.home = home
    this.topic = topic
    this.joinRef = joinRef
    this.isPrivate = config.isPrivate
    this.acksBroadcasts = config.acksBroadcasts
    this.hearsItself = config.hearsItself
    this.isLegacy = config.isLegacy
    this.bindings = config.bindings
    this.presenceKey = config.presence.key
    this.isPresenceEnabled = config.presence.isEnabled
    this.token = config.token
    this.caller = credential.caller
    this.expiresAtMs = credential.expiresAtMs
  }

  get version(): Version {
    return this.home.version
  }
  get subTopic(): string {
    return this.topic.slice(topicPrefix.length)
  }
  get space(): string {
    return spaceOf(this.isPrivate, this.subTopic)
  }
  /** Joined, and by a token that has been judged. */
  get isReady(): boolean {
    return this.#state === 'joined' && !this.#isRefreshing
  }
  get isEnded(): boolean {
    return this.#state === 'ended'
  }
  get hearsBroadcasts(): boolean {
    return this.permissions.mayReadBroadcast
  }
  get hearsPresence(): boolean {
    return this.isPresenceEnabled && this.permissions.mayReadPresence
  }

  send(frame: Buffer): void {
    if (this.#state !== 'ended') this.home.send(frame)
  }
  push(event: string, payload: string): void {
    this.send(encodeMessage(this.version, this.topic, event, payload, this.joinRef))
  }
  reply(to: Pick<Message, 'joinRef' | 'ref' | 'topic'>, status: 'ok' | 'error', response: string): void {
    this.send(encodeReply(this.version, to, status, response))
  }
  tell(status: 'ok' | 'error', message: string): void {
    this.#system('postgres_changes', status, message)
  }
  complain(message: string): void {
    this.#system('system', 'error', message)
  }
  #system(extension: string, status: 'ok' | 'error', message: string): void {
    this.push('system', JSON.stringify({ extension, status, message, channel: this.subTopic }))
  }

  /** What comes while the join or a token is being judged waits for that. */
  holdBack(message: HeldBack): void {
    if (this.#heldBack === none) this.#heldBack = []
    this.#heldBack.push(message)
    this.home.hold(sizeOf(message))
  }
  nextHeldBack(): HeldBack | undefined {
    if (!this.isReady) return
    const next = this.#heldBack.shift()
    if (next) this.home.hold(-sizeOf(next))
    else this.#heldBack = none
    return next
  }

  /** Before the join is answered. Resolves when changes are captured. */
  subscribe({ changes }: Parts): Promise<void> {
    this.#subscription = changes.subscribe(this)
    return this.#subscription.flowing
  }

  /** The join has been answered. */
  enter(): void {
    this.#state = 'joined'
    const { project } = this.home
    // What it is told already must not be told as a change.
    project.tellPresence(this.space)
    project.enter(this.space, this)
    this.#tellPresent()
  }

  /** The first `track` asks for presence, too. */
  enablePresence(): void {
    if (this.isPresenceEnabled) return
    this.home.project.tellPresence(this.space)
    this.isPresenceEnabled = true
    this.#tellPresent()
  }

  #tellPresent(): void {
    if (this.hearsPresence) this.push('presence_state', this.home.project.presenceState(this.space))
  }

  /** Gone without a word; whoever ends it says what is to be said. */
  end(): void {
    if (this.#state === 'ended') return
    const wasJoined = this.#state === 'joined'
    this.#state = 'ended'
    this.home.drop(this)
    this.#subscription?.end()
    for (const each of this.#heldBack) this.home.hold(-sizeOf(each))
    this.#heldBack = none
    if (!wasJoined) return
    const { project } = this.home
    if (this.tracked) project.untrack(this.space, this.tracked)
    project.leave(this.space, this)
  }

  close(): void {
    if (this.#state === 'ended') return
    this.home.project.settle(this.space)
    this.send(encodeMessage(this.version, this.topic, 'phx_close', '{}', this.joinRef, this.joinRef))
    this.end()
  }

  /** Ended by the server, with a reason. */
  shut(reason: string): void {
    this.complain(reason)
    this.close()
  }

  /** A token that is sent on an open channel: once it is found good, later events are judged by it. */
  async refresh(token: string, parts: Parts): Promise<void> {
    this.#isRefreshing = true
    try {
      await this.#take(token, parts)
    } catch (error) {
      parts.log.warn({ err: error }, 'a refreshed token could not be judged')
      this.shut(reasons.judgeFailed)
    } finally {
      this.#isRefreshing = false
    }
  }

  async #take(token: string, parts: Parts): Promise<void> {
    const { tenant } = this.home.project
    const credential = callerOfCredential(tenant, token)
    if (!credential) return this.shut(refusalOf(tenant, token))
    const { caller, expiresAtMs } = credential
    if (caller.userId !== '' && (await parts.isRevoked(caller))) return this.shut(revoked)
    const permissions = this.isPrivate ? await parts.permissions(caller, this.subTopic) : all
    // Its keys may be others by now.
    if (this.home.project.tenant !== tenant) return this.#take(token, parts)
    if (!permissions.mayReadBroadcast && !permissions.mayReadPresence) return this.shut(reasons.mayRead)
    Object.assign(this, { token, permissions, caller, expiresAtMs })
  }
}

const none: never[] = []
const nothing: ReadonlySet<string> = new Set()

export const revoked = 'InvalidJWTToken: Token has been revoked'
export const expired = 'InvalidJWTToken: Token has expired'

/** Why a token of a channel counts for nothing. */
export function refusalOf(tenant: Project['tenant'], token: string): string {
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
