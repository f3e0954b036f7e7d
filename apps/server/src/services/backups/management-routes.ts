import type { backupsApi } from '@plinth/contract/backups.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { BackupsService } from './service.ts'

export const backupsRoutes = (backups: BackupsService): Handlers<typeof backupsApi, Actor> => ({
  list: ({ params, query }, actor) => backups.list(actor, params.id, paging(query)),
  listDeleted: ({ query }) => backups.listDeleted(paging(query)),
  create: ({ params }) => backups.create(params.id),
  settings: ({ params }) => backups.settings(params.id),
  configure: ({ params, body }) => backups.configure(params.id, body),
  restore: ({ params, body }, actor) =>
    body?.new_project
      ? backups.restoreAsNew(actor, params.id, params.backup_id, body.new_project)
      : backups.restore(actor, params.id, params.backup_id),
  restores: ({ params, query }, actor) => backups.restores(actor, params.id, paging(query)),
  undo: ({ params }) => backups.undo(params.id, params.restore_id),
  verify: ({ params }) => backups.verify(params.id, params.backup_id),
})
