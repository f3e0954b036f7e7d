import type { Static } from 'typebox'
import type { DataRoute, Routes } from './route.ts'
import { Empty, Id, Nullable, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

const maxSeconds = 3_155_760_000

/** Part of a table name, so its length is limited by Postgres identifiers. */
export const QueueName = Type.String({
  pattern: '^[a-z_][a-z0-9_]{0,46}$',
  description:
    'a queue name: lowercase letters, digits and _, not beginning with a digit, at most 47 characters',
})
const MsgId = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
const MsgIds = Type.Array(MsgId, { maxItems: 10_000 })
const Delay = Type.Integer({
  minimum: 0,
  maximum: maxSeconds,
  description: 'Seconds until the message becomes visible.',
})

const queue = {
  queue_name: Type.String(),
  is_partitioned: Type.Boolean(),
  is_unlogged: Type.Boolean(),
  created_at: Timestamp,
}
export const Queue = Type.Object(queue)
export type Queue = Static<typeof Queue>
export const CreatedQueue = Type.Object({ queue: Type.String(), ...queue })
export type CreatedQueue = Static<typeof CreatedQueue>

const message = {
  msg_id: Type.Integer(),
  read_ct: Type.Integer({ description: 'Number of times the message was read.' }),
  enqueued_at: Timestamp,
  vt: Type.String({
    format: 'date-time',
    description: 'The message is hidden from readers until this time.',
  }),
  message: Type.Unknown({ description: 'Any JSON value.' }),
  headers: Type.Unknown({ description: 'A JSON object, or null.' }),
}
export const Message = Type.Object(message)
export type Message = Static<typeof Message>
export const ArchivedMessage = Type.Object({ ...message, archived_at: Timestamp })
export type ArchivedMessage = Static<typeof ArchivedMessage>

export const QueueMetrics = Type.Object({
  queue_name: Type.String(),
  queue_length: Type.Integer({ description: 'Visible, hidden and delayed messages, without the archive.' }),
  queue_visible_length: Type.Integer(),
  newest_msg_age_sec: Nullable(Type.Integer()),
  oldest_msg_age_sec: Nullable(Type.Integer()),
  total_messages: Type.Integer({ description: 'Messages ever sent.' }),
  scrape_time: Timestamp,
})
export type QueueMetrics = Static<typeof QueueMetrics>

export const SendBody = Type.Object(
  {
    message: Type.Unknown({ description: 'Any JSON value.' }),
    delay: Type.Optional(Delay),
    headers: Type.Optional(Nullable(Type.Object({}, { additionalProperties: true }))),
  },
  { additionalProperties: false, required: ['message'] },
)
export const SendBatchBody = Type.Object(
  {
    messages: Type.Array(Type.Unknown(), { maxItems: 10_000 }),
    delay: Type.Optional(Delay),
    headers: Type.Optional(
      Nullable(
        Type.Array(Nullable(Type.Object({}, { additionalProperties: true })), {
          description: 'One for each message.',
        }),
      ),
    ),
  },
  { additionalProperties: false },
)
export const ReadBody = Type.Object(
  {
    vt: Type.Integer({
      minimum: 0,
      maximum: maxSeconds,
      description: 'Seconds for which the messages are hidden from other readers.',
    }),
    qty: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1000, default: 1, description: 'Messages to read.' }),
    ),
  },
  { additionalProperties: false },
)
/** One message id or several. */
export const MsgIdsBody = Type.Object(
  { msg_id: Type.Optional(MsgId), msg_ids: Type.Optional(MsgIds) },
  { additionalProperties: false, minProperties: 1, maxProperties: 1 },
)
const affectedIds = {
  msg_ids: Type.Optional(
    Type.Array(Type.Integer(), { description: 'With `msg_ids`: the ids of the affected messages.' }),
  ),
}

const ofProject = Type.Object({ project: Id })
const ofQueue = Type.Object({ project: Id, name: QueueName })

const call = { plane: 'data', allow: ['service_role'] } as const satisfies Partial<DataRoute>
/** Messages are passed through as text, including numbers of any size. */
const passThrough = { ...call, raw: true } as const

export const queueApi = {
  create: {
    ...call,
    needsSpace: 'database',
    method: 'POST',
    path: '/queue/{project}/queues',
    status: 201,
    summary: 'Create a queue; an existing queue is not changed',
    params: ofProject,
    body: Type.Object({ name: QueueName }, { additionalProperties: false }),
    reply: CreatedQueue,
  },
  list: {
    ...passThrough,
    method: 'GET',
    path: '/queue/{project}/queues',
    summary: 'List the queues of the project',
    params: ofProject,
    reply: Type.Array(Queue),
  },
  drop: {
    ...call,
    method: 'DELETE',
    path: '/queue/{project}/queues/{name}',
    status: 204,
    summary: 'Drop a queue with its messages and its archive',
    params: ofQueue,
    reply: Empty,
  },
  send: {
    ...passThrough,
    needsSpace: 'database',
    method: 'POST',
    path: '/queue/{project}/queues/{name}/send',
    summary: 'Send a message',
    params: ofQueue,
    body: SendBody,
    reply: Type.Object({ msg_id: Type.Integer() }),
  },
  sendBatch: {
    ...passThrough,
    needsSpace: 'database',
    method: 'POST',
    path: '/queue/{project}/queues/{name}/send_batch',
    summary: 'Send messages atomically; returns the ids in the same order',
    params: ofQueue,
    body: SendBatchBody,
    reply: Type.Object({ msg_ids: Type.Array(Type.Integer()) }),
  },
  read: {
    ...passThrough,
    method: 'POST',
    path: '/queue/{project}/queues/{name}/read',
    summary: 'Read the oldest visible messages and hide them for `vt` seconds',
    params: ofQueue,
    body: ReadBody,
    reply: Type.Array(Message),
  },
  pop: {
    ...passThrough,
    method: 'POST',
    path: '/queue/{project}/queues/{name}/pop',
    summary: 'Read and delete the oldest visible message atomically; null if there is none',
    params: ofQueue,
    reply: Nullable(Message),
  },
  ack: {
    ...passThrough,
    method: 'POST',
    path: '/queue/{project}/queues/{name}/ack',
    summary: 'Delete a processed message; false if it does not exist',
    params: ofQueue,
    body: MsgIdsBody,
    reply: Type.Object({ acked: Type.Boolean(), ...affectedIds }),
  },
  archive: {
    ...passThrough,
    needsSpace: 'disk',
    method: 'POST',
    path: '/queue/{project}/queues/{name}/archive',
    summary: 'Move a message to the archive of the queue; false if it does not exist',
    params: ofQueue,
    body: MsgIdsBody,
    reply: Type.Object({ archived: Type.Boolean(), ...affectedIds }),
  },
  archived: {
    ...passThrough,
    method: 'GET',
    path: '/queue/{project}/queues/{name}/archived',
    summary: 'List archived messages, newest first',
    params: ofQueue,
    query: Type.Object({
      limit: Type.Optional(Type.Integer({ minimum: 0, default: 100, description: 'Clamped to 1000.' })),
      offset: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 0 })),
    }),
    reply: Type.Array(ArchivedMessage),
  },
  replay: {
    ...call,
    needsSpace: 'database',
    method: 'POST',
    path: '/queue/{project}/queues/{name}/replay',
    summary: 'Move an archived message back to the queue with the same id, visible at once',
    params: ofQueue,
    body: Type.Object({ msg_id: MsgId }, { additionalProperties: false }),
    reply: Type.Object({ replayed: Type.Boolean(), msg_id: Type.Integer() }),
  },
  metrics: {
    ...call,
    method: 'GET',
    path: '/queue/{project}/queues/{name}/metrics',
    summary: 'Read the length of a queue, the age of its messages and the total sent',
    params: ofQueue,
    reply: QueueMetrics,
  },
} as const satisfies Routes
