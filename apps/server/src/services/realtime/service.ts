// The sockets of projects: admission, expiry and revocation. socket.ts and channel.ts handle their messages.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { startChore } from '#src/kernel/chores.ts'
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { ClientSocket } from '#src/kernel/http/client-socket.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { SocketRequest } from '#src/kernel/http/sockets.ts'
import { callerOfSocket, credentialOfSocket, opensWithUnknownKey } from '#src/planes/data/admit.ts'
import { dataRefusal, type IsManagementToken, withPlane } from '#src/planes/data/plane.ts'
import { sessionEnded } from '#src/planes/data/unauthorized.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'
import { broadcastOf } from './broadcast.ts'
import { type Channel, expired, revoked } from './channel.ts'
import type { ChannelDeps } from './channel-deps.ts'
import { type HttpBroadcast, InvalidBroadcasts, invalidBroadcastsReply } from './http-broadcasts.ts'
import { Project } from './hub.ts'
import { maxClients } from './limits.ts'
import { encodeNodeMessage } from './node-messages.ts'
import { RealtimeSocket, type SocketCredential } from './socket.ts'
import type { SentMessage } from './subscriber.ts'
import { topicKey } from './topic.ts'

export interface RealtimeOptions extends ChannelDeps {
  readonly directory: Directory
  readonly whenUpgraded: WhenUpgraded
  readonly isManagementToken: IsManagementToken
}

export type RealtimeService = ReturnType<typeof realtimeService>

const addresses = ['/v1/realtime/{project}/socket/websocket', '/v1/{project}/realtime/v1/websocket']
/** An expired token, or that of an ended session, is used for one more second at most. */
const sweepMs = 500
const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const identify = ({ caller: { tenant, role } }: SocketCredential) => ({ project: tenant.id, role })

/** If the token names a signing key that this node does not know, the project after the next poll of changes. */
async function findProject(
  directory: Directory,
  id: string,
  query: SocketRequest['query'],
  headers: SocketRequest['headers'],
): Promise<Tenant | undefined> {
  if (!isUuid.test(id)) return
  const tenant = await directory.find(id)
  return opensWithUnknownKey(tenant, query, headers) ? directory.findCurrent(id) : tenant
}

export function realtimeService({ directory, whenUpgraded, isManagementToken, ...deps }: RealtimeOptions) {
  const { bus, log } = deps
  const projects = new Map<string, Project<RealtimeSocket>>()

  function credentialIn(
    tenant: Tenant | undefined,
    query: SocketRequest['query'],
    headers: SocketRequest['headers'],
  ): SocketCredential {
    try {
      return callerOfSocket(tenant, query, headers)
    } catch (error) {
      throw withPlane(error, [credentialOfSocket(query, headers)], isManagementToken)
    }
  }

  async function admit({ params, query, headers }: SocketRequest): Promise<SocketCredential> {
    const id = (params['project'] ?? '').toLowerCase()
    for (;;) {
      const tenant = await findProject(directory, id, query, headers)
      const credential = credentialIn(tenant, query, headers)
      const { caller } = credential
      // Later code relies on an upgraded project database.
      await whenUpgraded(caller.tenant.ref, 'caller')
      if (caller.userId !== '' && (await deps.isRevoked(caller))) throw sessionEnded()
      // The project may have changed during the checks, for example its keys.
      if ((await directory.find(id)) === tenant) return credential
    }
  }

  function checkCapacity({ caller: { tenant } }: SocketCredential): void {
    const max = maxClients(tenant)
    if ((projects.get(tenant.id)?.sockets.size ?? 0) >= max)
      throw retryLater('too_many_connections', `The project has ${max} sockets already, as many as it may`, 5)
  }

  function accept(
    credential: SocketCredential,
    client: ClientSocket,
    { query }: SocketRequest,
  ): RealtimeSocket {
    const { tenant } = credential.caller
    let project = projects.get(tenant.id)
    if (!project) {
      project = new Project(tenant, bus, log)
      projects.set(tenant.id, project)
    }
    project.tenant = tenant
    const version = query.get('vsn')?.startsWith('2.') ? '2.0.0' : '1.0.0'
    const socket = new RealtimeSocket(client, version, project, credential, deps, ended)
    project.sockets.add(socket)
    return socket
  }

  function ended(socket: RealtimeSocket): void {
    const { project } = socket
    project.sockets.delete(socket)
    if (project.sockets.size > 0) return
    projects.delete(project.id)
    project.close()
  }

  async function changed(projectId: string): Promise<void> {
    const project = projects.get(projectId)
    if (!project) return
    const tenant = await directory.read(projectId)
    const closeAll = (reason: string) => {
      for (const socket of [...project.sockets]) socket.close(1008, reason)
    }
    if (!tenant) return closeAll('the project is gone')
    if (tenant.status === 'suspended') return closeAll('the project is suspended')
    project.tenant = tenant
    for (const socket of [...project.sockets]) socket.recheckCredentials()
  }

  function* openChannels(project: Project<RealtimeSocket>): Generator<Channel> {
    for (const socket of project.sockets) yield* socket.channels
  }

  function endExpired(): void {
    const now = Date.now()
    for (const project of projects.values())
      for (const channel of openChannels(project))
        if (channel.expiresAtMs <= now) channel.closeWithError(expired)
  }

  /** Projects with a check in progress. A slow database must not delay the checks of other projects. */
  const checking = new Set<Project<RealtimeSocket>>()

  /** Only the first check of a project queries its database. The others are answered from memory. */
  async function endRevoked(project: Project<RealtimeSocket>): Promise<void> {
    checking.add(project)
    try {
      for (const channel of [...openChannels(project)])
        if (channel.caller.userId !== '') {
          const is = deps.isRevoked(channel.caller)
          if (is instanceof Promise ? await is : is) channel.closeWithError(revoked)
        }
    } catch (error) {
      log.warn({ err: error }, 'checking for revoked sessions failed')
    } finally {
      checking.delete(project)
    }
  }

  const expiry = startChore({
    name: 'realtime: close channels of expired or revoked tokens',
    everyMs: sweepMs,
    run() {
      endExpired()
      for (const project of projects.values()) if (!checking.has(project)) void endRevoked(project)
    },
  })

  function send(projectId: string, { topic, isPrivate, broadcast }: HttpBroadcast): void {
    const key = topicKey(isPrivate, topic)
    const project = projects.get(projectId)
    if (project) project.broadcast(key, broadcast)
    else bus.publish(projectId, encodeNodeMessage({ kind: 'broadcast', space: key, ...broadcast }))
  }

  return {
    sockets: { addresses, admit, identify, enter: checkCapacity, accept, refuse: dataRefusal },

    /** Broadcasts sent over HTTP, to topics of the caller's project. */
    async post(
      caller: Caller,
      { signal }: Pick<RawRequest, 'signal'>,
      read: () => Promise<HttpBroadcast[]>,
    ): Promise<RawReply> {
      let broadcasts: HttpBroadcast[]
      try {
        broadcasts = await read()
      } catch (error) {
        if (error instanceof InvalidBroadcasts) return invalidBroadcastsReply(error)
        throw error
      }
      const { tenant } = caller
      const permitted = new Map<string, boolean>()
      const maySend = async (topic: string) => {
        const known = permitted.get(topic)
        if (known !== undefined) return known
        const { maySendBroadcast } = await deps.permissions(caller, topic)
        permitted.set(topic, maySendBroadcast)
        return maySendBroadcast
      }
      for (const [at, message] of broadcasts.entries()) {
        // A broadcast is sent to every member of its topic. One per turn keeps the event loop responsive.
        if (at > 0) await nextTurn()
        if (signal.aborted) throw new Refusal('client_closed_request', 'The client closed the connection')
        if (projects.get(tenant.id)?.rates.maySend(tenant) === false)
          throw retryLater('over_request_rate_limit', 'Too many messages per second', 1)
        // A private message that the caller may not send is dropped without an error.
        if (!message.isPrivate || (await maySend(message.topic))) send(tenant.id, message)
      }
      return { status: 202, body: null }
    },

    /** Messages that SQL sent. Every node reads them from the database, so they are not published on the bus. */
    deliver(projectId: string, message: SentMessage): void {
      const key = topicKey(message.isPrivate, message.topic)
      projects.get(projectId)?.deliver(key, broadcastOf(message, false))
    },

    /** Call when the project was changed, suspended or deleted, or its keys were rotated. */
    changed,

    close(): void {
      void expiry.stop()
    },
  }
}
