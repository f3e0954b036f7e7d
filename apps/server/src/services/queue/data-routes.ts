import type { queueApi } from '@plinth/contract/queue.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { QueueService } from './service.ts'

export const queueRoutes = (queues: QueueService): Handlers<typeof queueApi, Caller> => ({
  create: ({ body }, caller, { signal }) => queues.create(caller, body.name, signal),
  list: (_input, caller) => queues.list(caller),
  drop: async ({ params }, caller, { signal }) => void (await queues.drop(caller, params.name, signal)),
  send: ({ params }, caller, request) => queues.send(caller, params.name, request),
  sendBatch: ({ params }, caller, request) => queues.sendBatch(caller, params.name, request),
  read: ({ params }, caller, request) => queues.read(caller, params.name, request),
  pop: ({ params }, caller) => queues.pop(caller, params.name),
  ack: ({ params }, caller, request) => queues.ack(caller, params.name, request),
  archive: ({ params }, caller, request) => queues.archive(caller, params.name, request),
  archived: ({ params, query }, caller) =>
    queues.archived(caller, params.name, query.limit ?? 100, query.offset ?? 0),
  replay: async ({ params, body }, caller) => ({
    replayed: true,
    msg_id: await queues.replay(caller, params.name, body.msg_id),
  }),
  metrics: ({ params }, caller) => queues.metrics(caller, params.name),
})
