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
  async ack({ params, body }, caller) {
    const done = await queues.ack(caller, params.name, idsIn(body))
    return { acked: done.length > 0, ...told(body, done) }
  },
  async archive({ params, body }, caller) {
    const done = await queues.archive(caller, params.name, idsIn(body))
    return { archived: done.length > 0, ...told(body, done) }
  },
  archived: ({ params, query }, caller) =>
    queues.archived(caller, params.name, query.limit ?? 100, query.offset ?? 0),
  replay: async ({ params, body }, caller) => ({
    replayed: true,
    msg_id: await queues.replay(caller, params.name, body.msg_id),
  }),
  metrics: ({ params }, caller) => queues.metrics(caller, params.name),
})

interface Ids {
  msg_id?: number
  msg_ids?: number[]
}
const idsIn = ({ msg_id, msg_ids }: Ids): number[] => msg_ids ?? [msg_id!]
const told = ({ msg_ids }: Ids, done: number[]) => (msg_ids ? { msg_ids: done } : {})
