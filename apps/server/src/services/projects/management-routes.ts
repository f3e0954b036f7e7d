import type { projectsApi } from '@plinth/contract/projects.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { ProjectsService } from './service.ts'

export const projectsRoutes = (projects: ProjectsService): Handlers<typeof projectsApi, Actor> => ({
  create: ({ body }, actor) => projects.create(actor, body),
  list: ({ query }, actor) => projects.list(actor, query.status, paging(query)),
  read: ({ params }) => projects.read(canonical(params.id)),
  update: ({ params, body }, actor) => projects.update(actor, canonical(params.id), body),
  remove: async ({ params }) => void (await projects.remove(canonical(params.id))),
  suspend: ({ params }) => projects.suspend(canonical(params.id)),
  resume: ({ params }) => projects.resume(canonical(params.id)),
  revealServiceRoleKey: ({ params }) => projects.revealServiceRoleKey(canonical(params.id)),
  rotateJwtSecret: ({ params }) => projects.rotateJwtSecret(canonical(params.id)),
  rotateApiKeys: ({ params }) => projects.rotateApiKeys(canonical(params.id)),
})

/** Ids are compared, cached and part of seals as text, so they need one form. */
const canonical = (id: string) => id.toLowerCase()
