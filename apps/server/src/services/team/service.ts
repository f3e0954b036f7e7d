// The team of a project: invites and members. A project that has an owner must keep at least one active owner.
import type { CreatedInvite, Joined, Member, MemberRole } from '@plinth/contract/team.ts'
import { type DeriveKey, hmac, randomToken } from '#src/kernel/crypto/keys.ts'
import { Refusal, unauthorized } from '#src/kernel/errors.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import * as store from './store.ts'

const tokenPrefix = 'platform_invite_'
const inviteSeconds = 7 * 24 * 60 * 60
const maxPending = 1000
/** For this long an expired token is reported as expired instead of unknown. */
const expiredKeptDays = 30

export type TeamService = ReturnType<typeof teamService>

export function teamService(control: Database, deriveKey: DeriveKey) {
  const inviteKey = deriveKey('project invite')

  const requireProject = async (id: string) => (await store.findProject(control, id)) ?? throwNoProject()

  /** Runs the work with the user and the project locked, so that concurrent changes wait. */
  const changeMember = <T>(
    actor: Actor,
    projectId: string,
    userId: string,
    work: (session: Session, member: Member, isOwner: boolean) => Promise<T>,
  ): Promise<T> =>
    control.transaction(async session => {
      await store.lockUser(session, userId)
      if (!(await store.lockProject(session, projectId))) throwNoProject()
      const member = (await store.findMember(session, projectId, userId)) ?? throwNoMember()
      return work(session, member, await actsAsOwner(session, actor, projectId))
    })

  return {
    invite(
      actor: Actor,
      projectId: string,
      request: { email: string; role?: MemberRole },
    ): Promise<CreatedInvite> {
      const email = request.email.toLowerCase()
      const role = request.role ?? 'editor'
      const token = tokenPrefix + randomToken()
      return control.transaction(async session => {
        if (!(await store.lockProject(session, projectId))) throwNoProject()
        if (role === 'owner' && !(await actsAsOwner(session, actor, projectId))) throwOwnerRequired()
        if (await store.findMemberByEmail(session, projectId, email))
          throw new Refusal('already_member', `${email} is a member already; change the role instead`)
        await store.deleteExpiredInvites(session, projectId, expiredKeptDays)
        if ((await store.countOtherInvites(session, projectId, email)) >= maxPending)
          throw new Refusal(
            'too_many_invites',
            `${maxPending} invites are pending; revoke some that are not needed`,
          )
        const invite = await store.saveInvite(session, {
          projectId,
          email,
          role,
          hash: hmac(inviteKey, token),
          invitedBy: labelOf(actor),
          lifeSeconds: inviteSeconds,
        })
        return { ...invite!, expires_in: inviteSeconds, invite_token: token }
      })
    },

    async listInvites(projectId: string, page: Paging) {
      await requireProject(projectId)
      const { rows, total } = await store.listInvites(control, projectId, page)
      return { invites: rows, total, ...page }
    },

    async revokeInvite(projectId: string, inviteId: string): Promise<void> {
      await requireProject(projectId)
      if ((await store.deletePendingInvite(control, projectId, inviteId)) === 0)
        throw new Refusal('invite_not_found', 'The project has no pending invite of this id')
    },

    accept(actor: Actor, token: string, userId: string | undefined): Promise<Joined> {
      if (actor.kind !== 'user')
        throw new Refusal(
          'session_required',
          'An invite is accepted by a platform user, and this credential is none; log in and send the token of the session',
        )
      if (userId !== undefined && userId.toLowerCase() !== actor.id)
        throw new Refusal('invite_mismatch', 'Field "user_id" is not the user of the session; leave it out')
      const hash = hmac(inviteKey, token)
      return control.transaction(async session => {
        const user = await store.lockUser(session, actor.id)
        if (!user) throw unauthorized('This session has ended: sign in again')
        const { project_id } = (await store.findInvite(session, hash)) ?? throwNoInvite()
        if (!(await store.lockProject(session, project_id))) throwNoInvite()
        // An error after this point rolls back and restores the invite.
        const invite = (await store.consumeInvite(session, hash)) ?? throwNoInvite()
        if (invite.is_expired)
          throw new Refusal('invite_expired', 'This invite has expired; ask for a new one')
        if (invite.email !== user.email)
          throw new Refusal(
            'invite_mismatch',
            'This invite is for another e-mail address; log in as the platform user of that address',
          )
        const member = await store.findMember(session, project_id, actor.id)
        await store.saveRole(session, project_id, actor.id, higherRole(invite.role, member?.role))
        return { project_id, ...(await store.findMember(session, project_id, actor.id))! }
      })
    },

    async listMembers(projectId: string, page: Paging) {
      await requireProject(projectId)
      const { rows, total } = await store.listMembers(control, projectId, page)
      return { members: rows, total, ...page }
    },

    updateMember: (actor: Actor, projectId: string, userId: string, role: MemberRole): Promise<Member> =>
      changeMember(actor, projectId, userId, async (session, member, isOwner) => {
        if (member.role === role) return member
        if ((member.role === 'owner' || role === 'owner') && !isOwner) throwOwnerRequired()
        if (member.role === 'owner') await checkProjectKeepsOwner(session, projectId, userId)
        await store.saveRole(session, projectId, userId, role)
        return { ...member, role }
      }),

    removeMember: (actor: Actor, projectId: string, userId: string): Promise<void> =>
      changeMember(actor, projectId, userId, async (session, member, isOwner) => {
        if (member.role === 'owner') {
          if (!isOwner) throwOwnerRequired()
          await checkProjectKeepsOwner(session, projectId, userId)
        }
        await store.deleteMember(session, projectId, userId)
      }),
  }
}

/**
 * Refuses to delete a platform user who is the last active owner of a project. The caller has locked the user and
 * deletes it in the same transaction.
 */
export async function checkProjectsKeepOwner(session: Session, userId: string): Promise<void> {
  await store.lockOwnedProjects(session, userId)
  const orphan = await store.findProjectOnlyOwnedBy(session, userId)
  if (orphan)
    throw new Refusal(
      'last_owner',
      `The user is the last active owner of the project ${JSON.stringify(orphan.name)} (${orphan.id}); make another member owner or delete the project first`,
    )
}

async function checkProjectKeepsOwner(session: Session, projectId: string, userId: string): Promise<void> {
  if (!(await store.hasAnotherOwner(session, projectId, userId)))
    throw new Refusal('last_owner', 'This is the last active owner of the project; make another one first')
}

/** The caller has locked the project, so that a concurrent demotion of the actor is visible. */
async function actsAsOwner(session: Session, actor: Actor, projectId: string): Promise<boolean> {
  if (actor.kind !== 'user' || actor.role === 'super_admin') return true
  return (await store.findMember(session, projectId, actor.id))?.role === 'owner'
}

const rank: Record<MemberRole, number> = { read_only: 0, editor: 1, admin: 2, owner: 3 }
const higherRole = (offered: MemberRole, held: MemberRole = offered): MemberRole =>
  rank[held] > rank[offered] ? held : offered

function labelOf(actor: Actor): string {
  switch (actor.kind) {
    case 'user':
      return actor.email
    case 'token':
      return actor.name
    default:
      return 'admin token'
  }
}

function throwNoProject(): never {
  throw new Refusal('project_not_found', 'No project has this id')
}

function throwNoMember(): never {
  throw new Refusal('member_not_found', 'The user is not a member of this project')
}

function throwNoInvite(): never {
  throw new Refusal(
    'invite_not_found',
    'No invite is pending with this token: it was used, revoked or replaced by a newer one; ask for a new one',
  )
}

function throwOwnerRequired(): never {
  throw new Refusal(
    'owner_required',
    'Only an owner of the project, a super_admin or an admin token makes or unmakes owners',
  )
}
