import type { teamApi } from '@plinth/contract/team.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { TeamService } from './service.ts'

export const teamRoutes = (team: TeamService): Handlers<typeof teamApi, Actor> => ({
  invite: ({ params, body }, actor) => team.invite(actor, params.id, body),
  listInvites: ({ params, query }) => team.listInvites(params.id, paging(query)),
  revokeInvite: async ({ params }) => void (await team.revokeInvite(params.id, params.invite_id)),
  accept: ({ body }, actor) => team.accept(actor, body.token, body.user_id),
  listMembers: ({ params, query }) => team.listMembers(params.id, paging(query)),
  updateMember: ({ params, body }, actor) => team.updateMember(actor, params.id, params.user_id, body.role),
  removeMember: async ({ params }, actor) => void (await team.removeMember(actor, params.id, params.user_id)),
})
