import type { usersApi } from '@plinth/contract/users.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { UsersService } from './service.ts'

export const usersRoutes = (users: UsersService): Handlers<typeof usersApi, Actor> => ({
  readSettings: ({ params }) => users.readSettings(params.id),
  changeSettings: ({ params, body }) => users.changeSettings(params.id, body),
  saveProvider: ({ params, body }) => users.saveProvider(params.id, body),
  removeProvider: async ({ params }) => void (await users.removeProvider(params.id, params.provider)),
  rotateSigningKey: ({ params }) => users.rotateSigningKey(params.id),
  listProviderTemplates: ({ query }) => users.listProviderTemplates(paging(query)),
  list: ({ params, query }) => users.list(params.id, query.search, paging(query)),
  create: ({ params, body }) => users.create(params.id, body),
  import: ({ params, body }) => users.importUsers(params.id, body.users),
  read: ({ params }) => users.read(params.id, params.user_id),
  remove: async ({ params }) => void (await users.remove(params.id, params.user_id)),
  ban: ({ params, body }) => users.ban(params.id, params.user_id, body ?? {}),
  unban: ({ params }) => users.unban(params.id, params.user_id),
  listSessions: ({ params, query }) => users.listSessions(params.id, params.user_id, paging(query)),
  revokeSessions: async ({ params }) => void (await users.revokeSessions(params.id, params.user_id)),
  revokeSession: async ({ params }) =>
    void (await users.revokeSession(params.id, params.user_id, params.token)),
})
