// A client of the Phoenix Channels protocol from realtime contract §3: sockets, channels, and waiting for
// messages.
import assert from 'node:assert/strict'
import WebSocket from 'ws'
import {
  decodeBinary,
  decodeText,
  encodeBroadcast,
  type Message,
  type UserBroadcast,
  type Version,
} from './phoenix-frames.ts'
import { answer, type Reply } from './wire.ts'

/** The response in the reply to a push. */
export interface PushReply {
  status: string
  response: any
  message: Message
}

export interface Socket {
  readonly version: Version
  /** All received messages, in order. */
  readonly received: readonly Message[]
  readonly isOpen: boolean
  /** Resolves when the connection is closed by either side. */
  readonly closed: Promise<{ code: number; reason: string }>
  /** Sends a message in the format of the version and returns its ref. */
  push(topic: string, event: string, payload?: unknown, joinRef?: string | null): string
  /** Sends a message and waits for its reply. */
  ask(topic: string, event: string, payload?: unknown, joinRef?: string | null): Promise<PushReply>
  replyTo(ref: string): Promise<PushReply>
  /** Sends a binary frame of kind 3 and returns its ref. */
  pushBroadcast(broadcast: UserBroadcast): string
  sendRaw(data: string | Uint8Array): void
  /** The first received message that matches, or the next one to arrive. */
  find(what: string, isIt: (message: Message) => boolean, seconds?: number): Promise<Message>
  /** Waits until the server has processed all earlier messages. */
  heartbeat(): Promise<Message>
  join(topic: string, config?: unknown, more?: Record<string, unknown>): Promise<Channel>
  /** Does not assert that the join succeeds. `{}` is the payload of a legacy join. */
  tryJoin(topic: string, payload: unknown): Promise<PushReply>
  close(): Promise<void>
}

export interface Channel {
  readonly socket: Socket
  readonly topic: string
  readonly joinRef: string
  /** The response in the reply to the join. */
  readonly response: any
  /** Messages on the topic since the join was sent. */
  received(): Message[]
  /** Waits for a message among those. */
  find(what: string, isIt: (message: Message) => boolean, seconds?: number): Promise<Message>
  push(event: string, payload?: unknown): string
  ask(event: string, payload?: unknown): Promise<PushReply>
  /** Sends a broadcast in the text envelope of contract §6. */
  broadcast(event: string, payload?: unknown): string
  system(status: 'ok' | 'error', extension?: string): Promise<Message>
  leave(): Promise<void>
}

/** The HTTP response of a server that rejects the upgrade. */
export function refusal(url: string, headers: Record<string, string> = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { headers, handshakeTimeout: 60_000 })
    socket.on('open', () => {
      socket.terminate()
      reject(new assert.AssertionError({ message: `the server opened ${new URL(url).pathname}` }))
    })
    socket.on('error', reject)
    socket.on('unexpected-response', (request, reply) => {
      const received: Buffer[] = []
      reply.on('data', chunk => received.push(chunk))
      reply.on('end', () => {
        request.destroy()
        const named = Object.entries(reply.headersDistinct).map(([name, values]) => [
          name,
          values!.join(', '),
        ])
        resolve(answer(reply.statusCode!, new Headers(named as [string, string][]), Buffer.concat(received)))
      })
    })
  })
}

export async function openSocket(
  url: string,
  version: Version,
  headers: Record<string, string> = {},
): Promise<Socket> {
  const socket = new WebSocket(url, { headers, handshakeTimeout: 60_000, perMessageDeflate: false })
  // Before the socket is open, because the server may send immediately.
  const inbox = inboxOf(socket, version)
  const closed = new Promise<{ code: number; reason: string }>(resolve =>
    socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() })),
  )
  await new Promise<void>((resolve, reject) => {
    socket.on('open', resolve)
    socket.on('error', reject)
    socket.on('unexpected-response', (request, reply) => {
      request.destroy()
      reject(new assert.AssertionError({ message: `the handshake was answered ${reply.statusCode}` }))
    })
  })
  return clientOf(socket, version, inbox, closed)
}

interface Inbox {
  readonly received: Message[]
  find(
    what: string,
    isIt: (message: Message) => boolean,
    seconds: number | undefined,
    from: number,
  ): Promise<Message>
}

function inboxOf(socket: WebSocket, version: Version): Inbox {
  const received: Message[] = []
  const watchers = new Set<() => void>()
  let fault: Error | undefined
  socket.on('message', (data: Buffer, isBinary) => {
    try {
      received.push(isBinary ? decodeBinary(data, version) : decodeText(data.toString(), version))
    } catch (error) {
      fault = error as Error
    }
    for (const watch of watchers) watch()
  })
  socket.on('close', () => {
    for (const watch of watchers) watch()
  })

  const find: Inbox['find'] = (what, isIt, seconds = 60, from = 0) => {
    let looked = from
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        watchers.delete(look)
        clearTimeout(timer)
        settle()
      }
      const fail = (why: string) => {
        const last = received
          .slice(from)
          .slice(-8)
          .map(({ text }) => text.slice(0, 400))
        const message = `${what}: ${why}\nlast received:\n${last.join('\n')}`
        end(() => reject(new assert.AssertionError({ message })))
      }
      const look = () => {
        for (; looked < received.length; looked++) {
          const message = received[looked]!
          if (isIt(message)) return end(() => resolve(message))
        }
        if (fault) return fail(fault.message)
        if (socket.readyState === WebSocket.CLOSED) fail('the connection is closed')
      }
      const timer = setTimeout(() => fail(`not within ${seconds} seconds`), seconds * 1000)
      watchers.add(look)
      look()
    })
  }
  return { received, find }
}

function clientOf(socket: WebSocket, version: Version, inbox: Inbox, closed: Socket['closed']): Socket {
  let refs = 0
  const nextRef = () => String(++refs)
  const write = (topic: string, event: string, payload: unknown, joinRef: string | null, ref: string) =>
    socket.send(
      JSON.stringify(
        version === '2.0.0'
          ? [joinRef, ref, topic, event, payload]
          : { topic, event, payload, ref, ...(joinRef !== null && { join_ref: joinRef }) },
      ),
    )
  const push: Socket['push'] = (topic, event, payload = {}, joinRef = null) => {
    const ref = nextRef()
    write(topic, event, payload, joinRef, ref)
    return ref
  }
  const replyTo: Socket['replyTo'] = async ref => {
    const message = await find(`the reply to ${ref}`, each => each.event === 'phx_reply' && each.ref === ref)
    const { status, response } = message.payload
    return { status, response, message }
  }
  const ask: Socket['ask'] = (...message) => replyTo(push(...message))
  const find: Socket['find'] = (what, isIt, seconds) => inbox.find(what, isIt, seconds, 0)
  const joining = (topic: string, payload: unknown) => {
    const ref = nextRef()
    write(topic, 'phx_join', payload, ref, ref)
    return ref
  }

  const client: Socket = {
    version,
    received: inbox.received,
    closed,
    get isOpen() {
      return socket.readyState === WebSocket.OPEN
    },
    push,
    ask,
    replyTo,
    find,
    pushBroadcast(broadcast) {
      const ref = broadcast.ref ?? nextRef()
      socket.send(encodeBroadcast({ ...broadcast, ref }))
      return ref
    },
    sendRaw: data => socket.send(data),
    heartbeat: async () => (await ask('phoenix', 'heartbeat', {})).message,
    tryJoin: (topic, payload) => replyTo(joining(topic, payload)),
    async join(topic, config = {}, more = {}) {
      const from = inbox.received.length
      const joinRef = joining(topic, { config, ...more })
      const { status, response, message } = await replyTo(joinRef)
      assert.equal(status, 'ok', message.text)
      return channelOf(client, inbox, topic, joinRef, response, from)
    },
    async close() {
      socket.close()
      const impatience = setTimeout(() => socket.terminate(), 2000)
      await closed
      clearTimeout(impatience)
    },
  }
  return client
}

function channelOf(
  socket: Socket,
  inbox: Inbox,
  topic: string,
  joinRef: string,
  response: unknown,
  from: number,
): Channel {
  const find: Channel['find'] = (what, isIt, seconds) =>
    inbox.find(`${topic}: ${what}`, message => message.topic === topic && isIt(message), seconds, from)
  return {
    socket,
    topic,
    joinRef,
    response,
    received: () => inbox.received.slice(from).filter(message => message.topic === topic),
    find,
    push: (event, payload) => socket.push(topic, event, payload, joinRef),
    ask: (event, payload) => socket.ask(topic, event, payload, joinRef),
    broadcast: (event, payload = {}) =>
      socket.push(topic, 'broadcast', { type: 'broadcast', event, payload }, joinRef),
    system: (status, extension = 'postgres_changes') =>
      find(
        `a system message of ${extension}: ${status}`,
        ({ event, payload }) =>
          event === 'system' && payload.status === status && payload.extension === extension,
      ),
    async leave() {
      const reply = await socket.ask(topic, 'phx_leave', {}, joinRef)
      assert.equal(reply.status, 'ok', reply.message.text)
    },
  }
}
