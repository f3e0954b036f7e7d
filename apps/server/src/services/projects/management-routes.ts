import type { projectsApi } from '@plinth/contract/projects.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { ProjectsService } from './service.ts'

export const projectsRoutes = (projects: ProjectsService): Handlers<typeof projectsApi, Actor> => ({
  create: ({ body }, actor) => projects.create(actor, body),
  list: ({ query }, actor) => projects.list(actor, query.status, paging(query)),
  read: ({ params }) => projects.read(params.id),
  update: ({ params, body }) => projects.update(params.id, body),
  remove: async ({ params }) => void (await projects.remove(params.id)),
  suspend: ({ params }) => projects.suspend(params.id),
  resume: ({ params }) => projects.resume(params.id),
  revealServiceRoleKey: ({ params }) => projects.revealServiceRoleKey(params.id),
  rotateJwtSecret: ({ params }) => projects.rotateJwtSecret(params.id),
  rotateApiKeys: ({ params }) => projects.rotateApiKeys(params.id),
})
