// Members of a project and their invites.
import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Empty, Id, PageQuery, page, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const MemberRole = Type.Enum(['owner', 'admin', 'editor', 'read_only'] as const)
export type MemberRole = Static<typeof MemberRole>

const invite = {
  id: Id,
  email: Type.String(),
  role: MemberRole,
  invited_by: Type.String({ description: 'E-mail of a user, name of a token.' }),
  created_at: Timestamp,
  expires_at: Timestamp,
}
export const Invite = Type.Object(invite)
export type Invite = Static<typeof Invite>

/** The only answer that contains the token. */
export const CreatedInvite = Type.Object({
  ...invite,
  expires_in: Type.Integer({ description: 'Seconds until the token expires.' }),
  invite_token: Type.String({ description: 'Send it to `POST /invites/accept`.' }),
})
export type CreatedInvite = Static<typeof CreatedInvite>

const member = {
  user_id: Id,
  email: Type.String(),
  name: Type.String(),
  role: MemberRole,
  is_active: Type.Boolean({ description: 'Whether the platform user may log in.' }),
  created_at: Timestamp,
}
export const Member = Type.Object(member)
export type Member = Static<typeof Member>

export const Joined = Type.Object({ project_id: Id, ...member })
export type Joined = Static<typeof Joined>

const ById = Type.Object({ id: Id })
const MemberById = Type.Object({ id: Id, user_id: Id })

export const teamApi = {
  invite: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/invites',
    scope: 'admin',
    audit: 'team.invite_created',
    summary:
      'Invite an e-mail address; the default role is editor. Revokes an older invite of the same address. Only this answer contains the token',
    params: ById,
    body: Type.Object(
      { email: Type.String({ format: 'email', maxLength: 320 }), role: Type.Optional(MemberRole) },
      { additionalProperties: false },
    ),
    reply: CreatedInvite,
    status: 201,
  },
  listInvites: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/invites',
    scope: 'read',
    summary: 'List pending invites, newest first, without their tokens',
    params: ById,
    query: PageQuery,
    reply: page('invites', Invite),
  },
  revokeInvite: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/invites/{invite_id}',
    scope: 'admin',
    audit: 'team.invite_revoked',
    summary: 'Revoke a pending invite; its token stops working at once',
    params: Type.Object({ id: Id, invite_id: Id }),
    reply: Empty,
    status: 204,
  },
  accept: {
    plane: 'management',
    method: 'POST',
    path: '/invites/accept',
    scope: 'session',
    audit: 'team.invite_accepted',
    summary:
      'Join a project with an invite token, as the user of the session; `user_id`, if given, must be that user',
    body: Type.Object(
      {
        token: Type.String({ minLength: 1, maxLength: 200 }),
        user_id: Type.Optional(Id),
      },
      { additionalProperties: false },
    ),
    reply: Joined,
  },
  listMembers: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/members',
    scope: 'admin',
    summary: 'List members, owners first',
    params: ById,
    query: PageQuery,
    reply: page('members', Member),
  },
  updateMember: {
    plane: 'management',
    method: 'PATCH',
    path: '/projects/{id}/members/{user_id}',
    scope: 'admin',
    audit: 'team.member_updated',
    summary: 'Change the role of a member; the last owner must remain owner',
    params: MemberById,
    body: Type.Object({ role: MemberRole }, { additionalProperties: false }),
    reply: Member,
  },
  removeMember: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/members/{user_id}',
    scope: 'admin',
    audit: 'team.member_removed',
    summary: 'Remove a member; the last owner cannot be removed',
    params: MemberById,
    reply: Empty,
    status: 204,
  },
} as const satisfies Routes
