import type { pitrApi } from '@plinth/contract/pitr.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { PitrService } from './service.ts'

export const pitrRoutes = (pitr: PitrService): Handlers<typeof pitrApi, Actor> => ({
  restorePoints: ({ params }) => pitr.restorePoints(params.id),
  preview: ({ params, query }) => pitr.preview(params.id, query.target_time),
  restore: ({ params, body }) => pitr.restore(params.id, body.target_time),
  jobs: ({ params, query }) => pitr.jobs(params.id, paging(query)),
})
