import type { webhooksApi } from '@plinth/contract/webhooks.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { DeliveriesService } from './deliveries.ts'
import type { ListenersService } from './listeners.ts'
import type { WebhooksService } from './service.ts'

const defaultWaitSeconds = 20
const id = (text: string) => text.toLowerCase()

export const webhooksRoutes = (
  webhooks: WebhooksService,
  deliveries: DeliveriesService,
  listeners: ListenersService,
): Handlers<typeof webhooksApi, Actor> => ({
  purgeDeadLetters: ({ query }) => deliveries.purge(query.days),
  create: ({ params, body }) => webhooks.create(params.id, body),
  list: ({ params, query }) => webhooks.list(params.id, paging(query)),
  openListener: ({ params, body }) => listeners.open(params.id, body),
  readListener: ({ params, query }, _actor, { signal }) =>
    listeners.read(params.id, id(params.listener_id), {
      after: query.after,
      waitMs: (query.wait_seconds ?? defaultWaitSeconds) * 1000,
      limit: query.limit,
      signal,
    }),
  closeListener: async ({ params }) => void (await listeners.close(params.id, id(params.listener_id))),
  trigger: ({ params, body }) => listeners.trigger(params.id, body.event, body.record),
  read: ({ params }) => webhooks.read(params.id, id(params.wid)),
  update: ({ params, body }) => webhooks.update(params.id, id(params.wid), body),
  remove: async ({ params }) => void (await webhooks.remove(params.id, id(params.wid))),
  rotateSecret: ({ params }) => webhooks.rotateSecret(params.id, id(params.wid)),
  test: ({ params }) => webhooks.test(params.id, id(params.wid)),
  listDeliveries: ({ params, query }) => deliveries.list(params.id, id(params.wid), query),
  readDelivery: ({ params }) => deliveries.read(params.id, id(params.wid), id(params.delivery_id)),
  retry: ({ params }) => deliveries.retry(params.id, id(params.wid), id(params.delivery_id)),
  attach: ({ params, body }) => webhooks.attach(params.id, id(params.wid), body),
  detach: async ({ params, query }) =>
    void (await webhooks.detach(params.id, id(params.wid), query.schema ?? 'public', params.table)),
  listAttachments: ({ params, query }) => webhooks.listAttachments(params.id, id(params.wid), paging(query)),
})
