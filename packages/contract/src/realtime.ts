// Broadcasts over HTTP, and the tables that emit row changes. The WebSocket is not a route. It is upgraded at
// /v1/realtime/{project}/socket/websocket and /v1/{project}/realtime/v1/websocket.
import type { Static } from 'typebox'
import type { DataRoute, Routes } from './route.ts'
import { SqlName } from './schema.ts'
import { Empty, Id, page, pageQuery } from './shapes.ts'
import { Type } from './type.ts'

export const BroadcastMessage = Type.Object({
  topic: Type.String({ description: 'The channel, without the prefix `realtime:`; at most 255 bytes.' }),
  event: Type.String({ description: 'At most 255 bytes.' }),
  payload: Type.Unknown({ description: 'Any JSON value.' }),
  private: Type.Optional(
    Type.Boolean({ description: 'Send to the private channel of this name, if the caller may send to it.' }),
  ),
})
export type BroadcastMessage = Static<typeof BroadcastMessage>

export const BroadcastBody = Type.Object({ messages: Type.Array(BroadcastMessage) })

/** The handler validates the body. An invalid one gets 422 with `{errors}`. */
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
    summary: 'Broadcast messages to the members of their channels; answers 202 without a body',
    params: Type.Object({ project: Id }),
    body: BroadcastBody,
    reply: Empty,
  },
  broadcastOne: {
    ...send,
    path: '/realtime/{project}/api/broadcast/{topic}/events/{event}',
    summary: 'Broadcast the body as one message: JSON, or bytes as application/octet-stream',
    params: Type.Object({ project: Id, topic: Type.String(), event: Type.String() }),
    query: Type.Object({
      private: Type.Optional(Type.Boolean({ description: 'Send to the private channel of this name.' })),
    }),
    body: Type.Unknown({ description: 'The payload: any JSON value.' }),
    reply: Empty,
  },
} as const satisfies Routes

export const RealtimeTable = Type.Object({
  schema: Type.String(),
  table: Type.String(),
  cdc_enabled: Type.Boolean({ description: 'Whether its row changes are sent to subscribers.' }),
  rls_enabled: Type.Boolean(),
  realtime_public: Type.Boolean({
    description:
      'Whether changes are sent to every caller that may read the table, if it has no row-level security.',
  }),
})
export type RealtimeTable = Static<typeof RealtimeTable>

export const RealtimeTableInput = Type.Object(
  { cdc_enabled: Type.Optional(Type.Boolean()), realtime_public: Type.Optional(Type.Boolean()) },
  { additionalProperties: false, minProperties: 1 },
)
export type RealtimeTableInput = Static<typeof RealtimeTableInput>

export const realtimeManagementApi = {
  listTables: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/realtime/tables',
    scope: 'read',
    summary: 'List the tables of `public` by name with their realtime settings',
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
    summary: 'Enable or disable the row changes of a table, or send them to every caller that may read it',
    params: Type.Object({ id: Id, table: SqlName }),
    body: RealtimeTableInput,
    reply: RealtimeTable,
  },
} as const satisfies Routes
