import { pitrApi } from '@plinth/contract/pitr.ts'
import { Type } from '@plinth/contract/type.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { PitrService, UnavailablePitr } from './service.ts'

export const pitrRoutes = (pitr: PitrService): Handlers<typeof pitrApi, Actor> => ({
  restorePoints: ({ params }) => pitr.restorePoints(params.id),
  preview: ({ params, query }) => pitr.preview(params.id, query.target_time),
  restore: ({ params, body }) => pitr.restore(params.id, body.target_time),
  jobs: ({ params, query }) => pitr.jobs(params.id, paging(query)),
})

/** Without an archive, the answer does not depend on the time, so it is not validated. */
export const unavailableApi = {
  ...pitrApi,
  preview: { ...pitrApi.preview, query: Type.Object({}) },
  restore: { ...pitrApi.restore, body: Type.Unknown() },
}

export const unavailableRoutes = (pitr: UnavailablePitr): Handlers<typeof unavailableApi, Actor> => ({
  restorePoints: ({ params }) => pitr.restorePoints(params.id),
  preview: ({ params }) => pitr.refuse(params.id),
  restore: ({ params }) => pitr.refuse(params.id),
  jobs: ({ params, query }) => pitr.jobs(params.id, paging(query)),
})
