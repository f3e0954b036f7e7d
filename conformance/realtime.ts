// A project with realtime clients, for each kind of caller and in both URL forms.
import assert from 'node:assert/strict'
import { type CreatedProject, unique, unlimited, userJwt } from './people.ts'
import { type Channel, openSocket, refusal, type Socket } from './phoenix.ts'
import type { Version } from './phoenix-frames.ts'
import { type Caller, type RowsApi, rowsProject } from './rows.ts'
import type { Shape } from './service.ts'
import type { Target } from './target.ts'
import type { CallOptions, Reply } from './wire.ts'

export interface Connect {
  /** anon by default. Claims make a signed-in user, whose JWT is the only credential. */
  as?: Caller
  shape?: Shape
  version?: Version
}

/** 1 §6: the options of a subscription. */
export interface RequestedBinding {
  event?: string
  schema?: string
  table?: string
  filter?: string
  select?: string[]
}

/** 1 §2.5, from `data`. */
export interface Change {
  schema: string
  table: string
  commit_timestamp: string
  eventType: 'INSERT' | 'UPDATE' | 'DELETE'
  new: any
  old: any
  columns: { name: string; type: string }[]
  errors: string[] | null
  /** Ids of the bindings that the change matches. */
  ids: unknown[]
  /** The frame as text. */
  text: string
}

export interface Subscription extends Channel {
  /** Ids of the requested bindings, in their order. */
  ids: unknown[]
}

export interface RealtimeApi {
  project: CreatedProject
  target: Target
  rows: RowsApi
  /** Runs a script as the project's owner and returns the rows of its last statement. */
  sql(script: string): Promise<any[]>
  /** Creates a table with a unique name and without policies. */
  table(columns: string, more?: (table: string) => string): Promise<string>
  connect(options?: Connect): Promise<Socket>
  /** Joins a new topic on a new socket, and waits until changes are captured. */
  subscribe(
    as: Caller,
    bindings: RequestedBinding | RequestedBinding[],
    options?: Connect,
  ): Promise<Subscription>
  /** The same on an existing socket, with more fields in the join payload. */
  subscribeOn(
    socket: Socket,
    bindings: RequestedBinding | RequestedBinding[],
    more?: Record<string, unknown>,
  ): Promise<Subscription>
  /**
   * The changes of each subscription since the last call. All subscriptions include a marker table. When the change of a
   * new marker row arrives, all changes committed before it have arrived.
   */
  newChanges(...subscriptions: Subscription[]): Promise<Change[][]>
  /** POST to a path of the service, as anon by default. */
  broadcast(body: unknown, options?: CallOptions & { shape?: Shape; path?: string }): Promise<Reply>
  closeAll(): Promise<void>
}

export const topicOf = (name = unique('room')) => `realtime:${name}`

export const credentialOf = (project: CreatedProject, as: Caller = 'anon'): string => {
  if (as === 'anon') return project.anon_key
  return as === 'service_role' ? project.service_role_key : userJwt(project, as)
}

/** Realtime contract §1. */
export function socketUrl(
  target: Target,
  project: Pick<CreatedProject, 'id'>,
  query: Record<string, string>,
  shape: Shape = 'native',
): string {
  const path =
    shape === 'alias'
      ? `/v1/${project.id}/realtime/v1/websocket`
      : `/v1/realtime/${project.id}/socket/websocket`
  return `${target.url.replace(/^http/, 'ws')}${path}?${new URLSearchParams(query)}`
}

export const refused = (
  target: Target,
  project: Pick<CreatedProject, 'id'>,
  query: Record<string, string>,
  headers: Record<string, string> = {},
  shape: Shape = 'native',
): Promise<Reply> => refusal(socketUrl(target, project, query, shape), headers)

export const realtimeRoot = ({ id }: Pick<CreatedProject, 'id'>, shape: Shape = 'native') =>
  shape === 'alias' ? `/v1/${id}/realtime/v1` : `/v1/realtime/${id}`

export async function realtimeProject(
  target: Target,
  schema = 'select 1',
  quotas: Record<string, number> = {},
): Promise<RealtimeApi> {
  const rows = await rowsProject(
    target,
    `create table public.markers (id int primary key);
     create policy everybody on public.markers for select using (true);
     ${schema}`,
    { isOpen: false, fields: { quotas: { ...unlimited, ...quotas } } },
  )
  return realtimeOf(target, rows)
}

function realtimeOf(target: Target, rows: RowsApi): RealtimeApi {
  const { project, sql } = rows
  const sockets = new Set<Socket>()
  const marks = new Map<Subscription, number>()
  let tables = 0
  let markers = 0

  const connect: RealtimeApi['connect'] = async ({ as, shape = 'native', version = '2.0.0' } = {}) => {
    const credential = credentialOf(project, as)
    const by = shape === 'alias' ? 'apikey' : 'token'
    const socket = await openSocket(
      socketUrl(target, project, { [by]: credential, vsn: version }, shape),
      version,
    )
    sockets.add(socket)
    return socket
  }

  const subscribeOn: RealtimeApi['subscribeOn'] = async (socket, bindings, more = {}) => {
    const requested = [bindings].flat().map(binding => ({ event: '*', schema: 'public', ...binding }))
    const marker = { event: 'INSERT', schema: 'public', table: 'markers' }
    const channel = await socket.join(topicOf(), { postgres_changes: [...requested, marker] }, more)
    await channel.system('ok')
    const ids = channel.response.postgres_changes.map(({ id }: any) => id).slice(0, requested.length)
    return { ...channel, ids }
  }

  return {
    project,
    target,
    rows,
    sql,
    connect,
    subscribeOn,
    async table(columns, more = () => '') {
      const name = `t${++tables}`
      await sql(`create table public.${name} (${columns}); ${more(name)}`)
      return name
    },
    subscribe: async (as, bindings, options) => subscribeOn(await connect({ ...options, as }), bindings),
    async newChanges(...subscriptions) {
      const marker = ++markers
      await sql(`insert into public.markers values (${marker})`)
      return Promise.all(
        subscriptions.map(async subscription => {
          const last = await subscription.find(
            `the change of the marker ${marker}`,
            ({ event, payload }) =>
              event === 'postgres_changes' &&
              payload.data.table === 'markers' &&
              payload.data.new?.id === marker,
          )
          const all = subscription.received()
          const from = marks.get(subscription) ?? 0
          const end = all.indexOf(last)
          marks.set(subscription, end + 1)
          return all
            .slice(from, end)
            .filter(({ event }) => event === 'postgres_changes')
            .map(changeOf)
            .filter(({ table }) => table !== 'markers')
        }),
      )
    },
    broadcast: (body, { shape, path = 'api/broadcast', ...options } = {}) =>
      target.call('POST', `${realtimeRoot(project, shape)}/${path}`, {
        apikey: project.anon_key,
        ...options,
        ...(body !== undefined && { body }),
      }),
    async closeAll() {
      await Promise.all([...sockets].map(socket => socket.close()))
    },
  }
}

/** Realtime contract §5: validates a change, which has each field under both names. */
export function changeOf({ payload, text }: { payload: any; text: string }): Change {
  assert.ok(Array.isArray(payload.ids) && payload.ids.length > 0, `ids: ${text.slice(0, 500)}`)
  return { ...bareChangeOf({ payload: payload.data, text }), ids: payload.ids }
}

/** The unwrapped change that a legacy channel gets. */
export function bareChangeOf({ payload, text }: { payload: any; text: string }): Change {
  const excerpt = text.slice(0, 500)
  const { schema, table, commit_timestamp, eventType, columns, errors } = payload
  assert.equal(payload.type, eventType, excerpt)
  assert.ok(['INSERT', 'UPDATE', 'DELETE'].includes(eventType), excerpt)
  assert.match(commit_timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, excerpt)
  assert.ok(Array.isArray(columns), excerpt)
  for (const column of columns) assert.deepEqual(Object.keys(column).sort(), ['name', 'type'], excerpt)
  for (const side of ['new', 'old']) {
    assert.ok(
      side in payload && typeof payload[side] === 'object',
      `${side} is an object or null: ${excerpt}`,
    )
    const spelling = side === 'new' ? payload.record : payload.old_record
    assert.deepEqual(spelling ?? {}, payload[side] ?? {}, `${side} in both spellings: ${excerpt}`)
  }
  assert.ok('errors' in payload && (errors === null || Array.isArray(errors)), `errors: ${excerpt}`)
  return { schema, table, commit_timestamp, eventType, columns, errors, ...sidesOf(payload), ids: [], text }
}

const sidesOf = (payload: any) => ({ new: payload.new, old: payload.old })

/** A change for comparison: event, new row and old row. */
export const summary = ({ eventType, new: now, old }: Change) => [eventType, now, old]
export const newOf = (changes: Change[], column = 'id') => changes.map(change => change.new?.[column])

/** The received broadcasts as pairs of event and payload. */
export const broadcastsOf = (channel: Channel): [string, any][] =>
  channel
    .received()
    .filter(({ event }) => event === 'broadcast')
    .map(({ payload }) => [payload.event, payload.payload])

/** Waits until this broadcast arrives. */
export const receivesBroadcast = (channel: Channel, event: string) =>
  channel.find(
    `the broadcast ${event}`,
    message => message.event === 'broadcast' && message.payload.event === event,
  )

/** The broadcasts that arrived before the marker, which is sent last. */
export async function broadcastsBefore(channel: Channel, marker: string): Promise<[string, any][]> {
  await receivesBroadcast(channel, marker)
  const all = broadcastsOf(channel)
  return all.slice(
    0,
    all.findIndex(([event]) => event === marker),
  )
}

/** The name that the HTTP routes use for the topic of a channel. */
export const topicName = ({ topic }: Channel) => topic.slice('realtime:'.length)

/** All broadcasts sent before this call. They have arrived when a marker arrives that is sent after them. */
export async function broadcastsUntilNow(realtime: RealtimeApi, channel: Channel): Promise<[string, any][]> {
  const event = `marker ${Math.random()}`
  const reply = await realtime.broadcast({ messages: [{ topic: topicName(channel), event, payload: {} }] })
  assert.equal(reply.status, 202, reply.text)
  return (await broadcastsBefore(channel, event)).filter(([name]) => !name.startsWith('marker '))
}
