// Permissions on the management plane. Scopes nest; the scope of a session depends on the project.
import type { PlatformRole } from '@plinth/contract/platform.ts'
import type { ManagementRoute, Scope } from '@plinth/contract/route.ts'
import type { MemberRole } from '@plinth/contract/team.ts'

export type Actor =
  | { kind: 'admin_token' }
  | { kind: 'token'; id: string; name: string; scope: Scope }
  | {
      kind: 'user'
      id: string
      email: string
      role: PlatformRole
      memberships: ReadonlyMap<string, MemberRole>
    }
  | { kind: 'anonymous' }

const rank: Record<Scope | 'nothing', number> = { nothing: 0, read: 1, deploy: 2, admin: 3 }

const scopeOfRole: Record<PlatformRole, Scope> = {
  super_admin: 'admin',
  project_admin: 'admin',
  developer: 'deploy',
  viewer: 'read',
}
const scopeOfMember: Record<MemberRole, Scope> = {
  owner: 'admin',
  admin: 'admin',
  editor: 'deploy',
  read_only: 'read',
}

/** Whether the actor's scope, on this project or on the platform, covers the scope of the route. */
export function mayCall(actor: Actor, route: ManagementRoute, projectId: string | undefined): boolean {
  if (route.scope === 'none') return true
  if (actor.kind === 'anonymous') return false
  if (route.scope === 'session' || (route.showsOwn && actor.kind === 'user')) return true
  return rank[scopeOf(actor, projectId)] >= rank[route.scope]
}

/** An operator has admin scope on the platform, not only on projects. */
export const isOperator = (actor: Actor): boolean => scopeOf(actor, undefined) === 'admin'

export function scopeOf(actor: Actor, projectId: string | undefined): Scope | 'nothing' {
  switch (actor.kind) {
    case 'admin_token':
      return 'admin'
    case 'token':
      return actor.scope
    case 'anonymous':
      return 'nothing'
    case 'user': {
      if (actor.role === 'super_admin') return 'admin'
      const membership = projectId === undefined ? undefined : actor.memberships.get(projectId)
      if (!membership) return 'nothing'
      return smaller(scopeOfRole[actor.role], scopeOfMember[membership])
    }
  }
}

const smaller = (a: Scope, b: Scope): Scope => (rank[a] < rank[b] ? a : b)

/** Who becomes the owner of a project that the actor creates. */
export const ownerIdOf = (actor: Actor): string | undefined => (actor.kind === 'user' ? actor.id : undefined)

/** The projects that an actor may see; undefined means all. */
export const visibleProjects = (actor: Actor): string[] | undefined =>
  actor.kind === 'user' && actor.role !== 'super_admin' ? [...actor.memberships.keys()] : undefined
