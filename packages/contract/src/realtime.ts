// Messages into channels by plain HTTP, and which tables send their changes. The socket itself is no route: it is
// upgraded at /v1/realtime/{project}/socket/websocket and /v1/{project}/realtime/v1/websocket.
import type { Static } from 'typebox'
import type { DataRoute, Routes } from './route.ts'
import { SqlName } from './schema.ts'
import { Empty, Id, page, pageQuery } from './shapes.ts'
import { Type } from './type.ts'

export const BroadcastMessage = Type.Object({
  topic: Type.String({ description: 'The channel, without `realtime:` before it; at most 255 bytes.' }),
  event: Type.String({ description: 'At most 255 bytes.' }),
  payload: Type.Unknown({ description: 'Any JSON value.' }),
  private: Type.Optional(
    Type.Boolean({ description: 'To the private channel of this name, where the caller may send to it.' }),
  ),
})
export type BroadcastMessage = Static<typeof BroadcastMessage>

export const BroadcastBody = Type.Object({ messages: Type.Array(BroadcastMessage) })

/** Bodies pass through as they are; what is wrong with one is said as `{errors}` with 422. */
const send = {
  plane: 'data',
  method: 'POST',
  allow: ['anon', 'authenticated', 'service_role'],
  raw: true,
  status: 202,
} as const satisfies Partial<DataRoute>

export const realtimeApi = {
  broadcast: {
    ...send,
    path: '/realtime/{project}/api/broadcast',
    summary: 'Send messages to whoever is in their channels; answers 202 without a body',
    params: Type.Object({ project: Id }),
    body: BroadcastBody,
    reply: Empty,
  },
  broadcastOne: {
    ...send,
    path: '/realtime/{project}/api/broadcast/{topic}/events/{event}',
    summary: 'Send the body as one message: JSON, or bytes as application/octet-stream',
    params: Type.Object({ project: Id, topic: Type.String(), event: Type.String() }),
    query: Type.Object({
      private: Type.Optional(Type.Boolean({ description: 'To the private channel of this name.' })),
    }),
    body: Type.Unknown({ description: 'The payload: any JSON value.' }),
    reply: Empty,
  },
} as const satisfies Routes

export const RealtimeTable = Type.Object({
  schema: Type.String(),
  table: Type.String(),
  cdc_enabled: Type.Boolean({ description: 'Whether changes of its rows are sent at all.' }),
  rls_enabled: Type.Boolean(),
  realtime_public: Type.Boolean({
    description:
      'Whether changes are sent to everybody who may read the table while it has no row-level security.',
  }),
})
export type RealtimeTable = Static<typeof RealtimeTable>

export const RealtimeTableWish = Type.Object(
  { cdc_enabled: Type.Optional(Type.Boolean()), realtime_public: Type.Optional(Type.Boolean()) },
  { additionalProperties: false, minProperties: 1 },
)
export type RealtimeTableWish = Static<typeof RealtimeTableWish>

export const realtimeManagementApi = {
  listTables: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/realtime/tables',
    scope: 'read',
    summary: 'List the tables of `public` by name, and which of them send changes of their rows to whom',
    params: Type.Object({ id: Id }),
    query: Type.Object(pageQuery),
    reply: page('tables', RealtimeTable),
  },
  setTable: {
    plane: 'management',
    method: 'PUT',
    path: '/projects/{id}/realtime/tables/{table}',
    scope: 'admin',
    audit: 'realtime.table_set',
    summary: 'Switch the changes of a table off or on, or open them to all who may read it',
    params: Type.Object({ id: Id, table: SqlName }),
    body: RealtimeTableWish,
    reply: RealtimeTable,
  },
} as const satisfies Routes
