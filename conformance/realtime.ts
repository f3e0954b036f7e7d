// A project whose changes a test listens to, as each kind of caller and in both shapes of the URL.
import assert from 'node:assert/strict'
import { type CreatedProject, unique, unlimited, userJwt } from './people.ts'
import { type Channel, openSocket, refusal, type Socket } from './phoenix.ts'
import type { Version } from './phoenix-frames.ts'
import { type Caller, type RowsApi, rowsProject } from './rows.ts'
import type { Shape } from './service.ts'
import type { Target } from './target.ts'
import type { CallOptions, Reply } from './wire.ts'

export interface Connect {
  /** anon unless said otherwise; claims make a signed-in user, whose JWT goes alone. */
  as?: Caller
  shape?: Shape
  version?: Version
}

/** 1 §6: what a subscription may say. */
export interface Wish {
  event?: string
  schema?: string
  table?: string
  filter?: string
  select?: string[]
}

/** 1 §2.5, as it came in `data`. */
export interface Change {
  schema: string
  table: string
  commit_timestamp: string
  eventType: 'INSERT' | 'UPDATE' | 'DELETE'
  new: any
  old: any
  columns: { name: string; type: string }[]
  errors: string[] | null
  /** Of the bindings it came for. */
  ids: unknown[]
  /** The frame as it came. */
  text: string
}

export interface Listener extends Channel {
  /** Of the wishes, in their order. */
  ids: unknown[]
}

export interface RealtimeApi {
  project: CreatedProject
  target: Target
  rows: RowsApi
  /** Runs a script as the project's owner and answers the rows of its last statement. */
  sql(script: string): Promise<any[]>
  /** A table of its own name; its policies are the caller's business. */
  table(columns: string, more?: (table: string) => string): Promise<string>
  connect(options?: Connect): Promise<Socket>
  /** On a socket and a topic of its own, once the server has said that changes flow. */
  listen(as: Caller, wishes: Wish | Wish[], options?: Connect): Promise<Listener>
  /** The same on a socket that is there, with the payload of the join beside its config. */
  listenOn(socket: Socket, wishes: Wish | Wish[], more?: Record<string, unknown>): Promise<Listener>
  /**
   * What each listener got since it was asked last. A row put into a table that everybody listens to comes after
   * all that was committed before: whatever has not come by then does not come.
   */
  seen(...listeners: Listener[]): Promise<Change[][]>
  /** POST to a path of the service, as anon unless said otherwise. */
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
  const marks = new Map<Listener, number>()
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

  const listenOn: RealtimeApi['listenOn'] = async (socket, wishes, more = {}) => {
    const asked = [wishes].flat().map(wish => ({ event: '*', schema: 'public', ...wish }))
    const marker = { event: 'INSERT', schema: 'public', table: 'markers' }
    const channel = await socket.join(topicOf(), { postgres_changes: [...asked, marker] }, more)
    await channel.system('ok')
    const ids = channel.response.postgres_changes.map(({ id }: any) => id).slice(0, asked.length)
    return { ...channel, ids }
  }

  return {
    project,
    target,
    rows,
    sql,
    connect,
    listenOn,
    async table(columns, more = () => '') {
      const name = `t${++tables}`
      await sql(`create table public.${name} (${columns}); ${more(name)}`)
      return name
    },
    listen: async (as, wishes, options) => listenOn(await connect({ ...options, as }), wishes),
    async seen(...listeners) {
      const marker = ++markers
      await sql(`insert into public.markers values (${marker})`)
      return Promise.all(
        listeners.map(async listener => {
          const last = await listener.find(
            `the change of the marker ${marker}`,
            ({ event, payload }) =>
              event === 'postgres_changes' &&
              payload.data.table === 'markers' &&
              payload.data.new?.id === marker,
          )
          const all = listener.received()
          const from = marks.get(listener) ?? 0
          const end = all.indexOf(last)
          marks.set(listener, end + 1)
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

/** Realtime contract §5: both spellings of each field, and nothing that makes the client stumble. */
export function changeOf({ payload, text }: { payload: any; text: string }): Change {
  assert.ok(Array.isArray(payload.ids) && payload.ids.length > 0, `ids: ${text.slice(0, 500)}`)
  return { ...bareChangeOf({ payload: payload.data, text }), ids: payload.ids }
}

/** What a legacy channel gets. */
export function bareChangeOf({ payload, text }: { payload: any; text: string }): Change {
  const shown = text.slice(0, 500)
  const { schema, table, commit_timestamp, eventType, columns, errors } = payload
  assert.equal(payload.type, eventType, shown)
  assert.ok(['INSERT', 'UPDATE', 'DELETE'].includes(eventType), shown)
  assert.match(commit_timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, shown)
  assert.ok(Array.isArray(columns), shown)
  for (const column of columns) assert.deepEqual(Object.keys(column).sort(), ['name', 'type'], shown)
  for (const side of ['new', 'old']) {
    assert.ok(side in payload && typeof payload[side] === 'object', `${side} is an object or null: ${shown}`)
    const spelling = side === 'new' ? payload.record : payload.old_record
    assert.deepEqual(spelling ?? {}, payload[side] ?? {}, `${side} in both spellings: ${shown}`)
  }
  assert.ok('errors' in payload && (errors === null || Array.isArray(errors)), `errors: ${shown}`)
  return { schema, table, commit_timestamp, eventType, columns, errors, ...sidesOf(payload), ids: [], text }
}

const sidesOf = (payload: any) => ({ new: payload.new, old: payload.old })

/** A change as a test compares it: what happened, and both sides. */
export const told = ({ eventType, new: now, old }: Change) => [eventType, now, old]
export const newOf = (changes: Change[], column = 'id') => changes.map(change => change.new?.[column])

/** What came as broadcasts, as pairs of the event and the payload. */
export const broadcastsOf = (channel: Channel): [string, any][] =>
  channel
    .received()
    .filter(({ event }) => event === 'broadcast')
    .map(({ payload }) => [payload.event, payload.payload])

/** Until this broadcast has come. */
export const heard = (channel: Channel, event: string) =>
  channel.find(
    `the broadcast ${event}`,
    message => message.event === 'broadcast' && message.payload.event === event,
  )

/** What came as broadcasts before this one, which somebody sends after all the others. */
export async function heardBefore(channel: Channel, marker: string): Promise<[string, any][]> {
  await heard(channel, marker)
  const all = broadcastsOf(channel)
  return all.slice(
    0,
    all.findIndex(([event]) => event === marker),
  )
}
