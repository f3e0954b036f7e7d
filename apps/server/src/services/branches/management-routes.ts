import type { branchesApi } from '@plinth/contract/branches.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { BranchesService } from './service.ts'

export const branchesRoutes = (branches: BranchesService): Handlers<typeof branchesApi, Actor> => ({
  list: ({ params, query }) => branches.list(params.id, paging(query)),
  create: ({ params, body }, actor) => branches.create(actor, params.id, body),
  read: ({ params }) => branches.read(params.id, params.slug),
  remove: async ({ params }) => void (await branches.remove(params.id, params.slug)),
  diff: ({ params }) => branches.diff(params.id, params.slug),
  reset: ({ params }) => branches.reset(params.id, params.slug),
})
