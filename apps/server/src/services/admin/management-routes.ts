import type { adminApi } from '@plinth/contract/admin.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { AdminService } from './service.ts'

export const adminRoutes = (admin: AdminService): Handlers<typeof adminApi, Actor> => ({
  stats: () => admin.stats(),
  listAudit: ({ query }) => admin.listAudit(query, paging(query)),
  exportAudit: ({ query }) => admin.exportAudit(query, query.format ?? 'json'),
  pruneAudit: ({ query }) => admin.pruneAudit(query.days),
  encryptSettingsSecrets: () => admin.encryptSettingsSecrets(),
  listUsers: ({ query }) => admin.listUsers(paging(query)),
  createUser: ({ body }) => admin.createUser(body),
  updateUser: ({ params, body }) => admin.updateUser(params.user_id, body),
  deleteUser: async ({ params }) => void (await admin.deleteUser(params.user_id)),
})
