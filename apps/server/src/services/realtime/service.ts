// Sockets of projects: who is admitted, and until when. What they do on their channels is in socket.ts and channel.ts.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { Refusal, retryLater, unauthorized } from '#src/kernel/errors.ts'
import type { ClientSocket } from '#src/kernel/http/client-socket.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { SocketMount, SocketRequest } from '#src/kernel/http/sockets.ts'
import { callerOfSocket } from '#src/planes/data/admit.ts'
import { dataRefusal } from '#src/planes/data/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'
import { encodeForNodes } from './between-nodes.ts'
import { broadcastOf } from './broadcast.ts'
import { type Channel, expired, revoked } from './channel.ts'
import { Project, spaceOf } from './hub.ts'
import { maxClients } from './limits.ts'
import type { Parts } from './parts.ts'
import { faultReply, type Posted, PostingFault } from './posting.ts'
import { RealtimeSocket, type SocketCredential } from './socket.ts'
import type { SentMessage } from './subscriber.ts'

export interface RealtimeOptions extends Parts {
  readonly directory: Directory
  readonly whenUpgraded: WhenUpgraded
}

export type RealtimeService = ReturnType<typeof realtimeService>

const addresses = ['/v1/realtime/{project}/socket/websocket', '/v1/{project}/realtime/v1/websocket']
/** A token that expires, or whose session ends, counts for a second more at most. */
const sweepMs = 500
const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export function realtimeService({ directory, whenUpgraded, ...parts }: RealtimeOptions) {
  const { span, log } = parts
  const projects = new Map<string, Project<RealtimeSocket>>()

  async function admit({ params, query, headers }: SocketRequest): Promise<SocketCredential> {
    const id = (params['project'] ?? '').toLowerCase()
    for (;;) {
      const tenant = isUuid.test(id) ? await directory.find(id) : undefined
      const credential = callerOfSocket(tenant, query, headers)
      const { caller } = credential
      // From here on everything on the socket may count on a current database.
      await whenUpgraded(caller.tenant.ref, 'caller')
      if (caller.userId !== '' && (await parts.isRevoked(caller))) throw unauthorized()
      // Whatever was changed meanwhile counts.
      if ((await directory.find(id)) === tenant) return credential
    }
  }

  function enter({ caller: { tenant } }: SocketCredential): void {
    const most = maxClients(tenant)
    if ((projects.get(tenant.id)?.sockets.size ?? 0) >= most)
      throw retryLater(
        'too_many_connections',
        `The project has ${most} sockets already, as many as it may`,
        5,
      )
  }

  function accept(
    credential: SocketCredential,
    client: ClientSocket,
    { query }: SocketRequest,
  ): RealtimeSocket {
    const { tenant } = credential.caller
    let project = projects.get(tenant.id)
    if (!project) {
      project = new Project(tenant, span, log)
      projects.set(tenant.id, project)
    }
    project.tenant = tenant
    const version = query.get('vsn')?.startsWith('2.') ? '2.0.0' : '1.0.0'
    const socket = new RealtimeSocket(client, version, project, credential, parts, ended)
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
    for (const socket of [...project.sockets]) socket.takeAnew()
  }

  function* openChannels(project: Project<RealtimeSocket>): Generator<Channel> {
    for (const socket of project.sockets) yield* socket.channels
  }

  function endExpired(): void {
    const now = Date.now()
    for (const project of projects.values())
      for (const channel of openChannels(project)) if (channel.expiresAtMs <= now) channel.shut(expired)
  }

  /** Projects whose databases are being asked; a slow one does not keep the others waiting. */
  const asked = new Set<Project<RealtimeSocket>>()

  /** Answered from memory for all but the first. */
  async function endRevoked(project: Project<RealtimeSocket>): Promise<void> {
    asked.add(project)
    try {
      for (const channel of [...openChannels(project)])
        if (channel.caller.userId !== '') {
          const is = parts.isRevoked(channel.caller)
          if (is instanceof Promise ? await is : is) channel.shut(revoked)
        }
    } catch (error) {
      log.warn({ err: error }, 'cannot ask which sessions have ended')
    } finally {
      asked.delete(project)
    }
  }

  const sweep = setInterval(() => {
    endExpired()
    for (const project of projects.values()) if (!asked.has(project)) void endRevoked(project)
  }, sweepMs).unref()

  function send(projectId: string, { topic, isPrivate, broadcast }: Posted): void {
    const space = spaceOf(isPrivate, topic)
    const project = projects.get(projectId)
    if (project) project.broadcast(space, broadcast)
    else span.publish(projectId, encodeForNodes({ kind: 'broadcast', space, ...broadcast }))
  }

  const sockets: SocketMount<SocketCredential> = { addresses, admit, enter, accept, refuse: dataRefusal }

  return {
    sockets,

    /** Of the project of whoever sends them. */
    async post(
      caller: Caller,
      { signal }: Pick<RawRequest, 'signal'>,
      read: () => Promise<Posted[]>,
    ): Promise<RawReply> {
      let posted: Posted[]
      try {
        posted = await read()
      } catch (error) {
        if (error instanceof PostingFault) return faultReply(error)
        throw error
      }
      const { tenant } = caller
      const judged = new Map<string, boolean>()
      const maySend = async (topic: string) => {
        const known = judged.get(topic)
        if (known !== undefined) return known
        const { maySendBroadcast } = await parts.permissions(caller, topic)
        judged.set(topic, maySendBroadcast)
        return maySendBroadcast
      }
      for (const [at, message] of posted.entries()) {
        // Each goes to every member of its channel: one in a turn of the event loop.
        if (at > 0) await nextTurn()
        if (signal.aborted) throw new Refusal('client_closed_request', 'The client closed the connection')
        if (projects.get(tenant.id)?.rates.maySend(tenant) === false)
          throw retryLater('over_request_rate_limit', 'Too many messages per second', 1)
        // A private message that the caller may not send is dropped without an error.
        if (!message.isPrivate || (await maySend(message.topic))) send(tenant.id, message)
      }
      return { status: 202, body: null }
    },

    /** What SQL has sent; every node hears of it by itself. */
    deliver(projectId: string, message: SentMessage): void {
      const space = spaceOf(message.isPrivate, message.topic)
      projects.get(projectId)?.deliver(space, broadcastOf(message, false))
    },

    /** The project was changed, suspended or deleted, or has other keys. */
    changed,

    close(): void {
      clearInterval(sweep)
    },
  }
}
