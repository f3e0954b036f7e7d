// Invites and members of a project.
import type { Invite, Member, MemberRole } from '@plinth/contract/team.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { connect, type Platform } from '../platform.ts'
import { clean, fields, minute, table } from '../print.ts'
import { isId, openProject } from '../project.ts'

export async function createInvite(context: Context): Promise<Answer> {
  const { email, role } = context.given.values
  const { platform, id } = await openProject(context)
  const body = { email: email!, ...(role && { role: role as MemberRole }) }
  const invite = await platform.team.invite({ params: { id }, body })
  return {
    data: { project_id: id, ...invite },
    text: paint =>
      fields(paint, [
        ['id', invite.id],
        ['email', invite.email],
        ['role', invite.role],
        ['expires', minute(invite.expires_at)],
        ['token', invite.invite_token],
      ]),
    hints: [
      `The token is shown only now. Send it to ${clean(invite.email)}, who joins with plinth auth invites accept <token>.`,
    ],
  }
}

export async function listInvites(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const invites = await everyPage(async query => {
    const page = await platform.team.listInvites({ params: { id }, query })
    return { items: page.invites, total: page.total }
  })
  return {
    data: { invites, total: invites.length },
    hints: invites.length === 0 ? ['No invites are pending: plinth auth invites create creates one.'] : [],
    text: paint =>
      invites.length === 0
        ? ''
        : table(paint, ['ID', 'EMAIL', 'ROLE', 'INVITED BY', 'EXPIRES', 'CREATED'], invites.map(inviteRow)),
  }
}

const inviteRow = (invite: Invite): string[] => [
  invite.id,
  invite.email,
  invite.role,
  invite.invited_by,
  minute(invite.expires_at),
  minute(invite.created_at),
]

export async function revokeInvite(context: Context): Promise<Answer> {
  const invite = context.given.operands['invite']!
  const { platform, id } = await openProject(context)
  await platform.team.revokeInvite({ params: { id, invite_id: invite } })
  return { data: { id: invite, revoked: true }, text: () => `Revoked ${clean(invite)}.` }
}

export async function acceptInvite(context: Context): Promise<Answer> {
  const joined = await connect(context).team.accept({ body: { token: context.given.operands['token']! } })
  return {
    data: joined,
    text: () => `${clean(joined.email)} is ${joined.role} of project ${joined.project_id}.`,
  }
}

export async function listMembers(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const members = await everyMember(platform, id)
  return {
    data: { members, total: members.length },
    hints: members.length === 0 ? ['No members yet: plinth auth invites create invites one.'] : [],
    text: paint =>
      members.length === 0
        ? ''
        : table(paint, ['USER ID', 'EMAIL', 'NAME', 'ROLE', 'STATE', 'SINCE'], members.map(memberRow)),
  }
}

const memberRow = (member: Member): string[] => [
  member.user_id,
  member.email,
  member.name,
  member.role,
  member.is_active ? 'active' : 'inactive',
  minute(member.created_at),
]

export async function setRole(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const user_id = await memberId(context.given.operands['user']!, platform, id)
  const role = context.given.operands['role'] as MemberRole
  const member = await platform.team.updateMember({ params: { id, user_id }, body: { role } })
  return { data: member, text: () => `${clean(member.email)} is now ${member.role}.` }
}

export async function removeMember(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const named = context.given.operands['user']!
  const user_id = await memberId(named, platform, id)
  await platform.team.removeMember({ params: { id, user_id } })
  return { data: { user_id, removed: true }, text: () => `Removed ${clean(named)} from the project.` }
}

/** An id is used as it is; an address is looked up among the members. */
async function memberId(named: string, platform: Platform, id: string): Promise<string> {
  if (isId(named)) return named.toLowerCase()
  const members = await everyMember(platform, id)
  const found = members.find(member => member.email.toLowerCase() === named.toLowerCase())
  if (found) return found.user_id
  throw new Failure(
    'member_not_found',
    `No member of this project has the address "${named}".`,
    'plinth auth members list shows the members.',
  )
}

const everyMember = (platform: Platform, id: string): Promise<Member[]> =>
  everyPage(async query => {
    const page = await platform.team.listMembers({ params: { id }, query })
    return { items: page.members, total: page.total }
  })
