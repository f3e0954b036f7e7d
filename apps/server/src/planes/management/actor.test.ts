import assert from 'node:assert/strict'
import { test } from 'node:test'
import { projectsApi } from '@plinth/contract/projects.ts'
import type { ManagementRoute, Scope } from '@plinth/contract/route.ts'
import type { MemberRole } from '@plinth/contract/team.ts'
import { type Actor, mayCall, scopeOf, visibleProjects } from './actor.ts'

const user = (
  role: 'super_admin' | 'project_admin' | 'developer' | 'viewer',
  member?: MemberRole,
): Actor => ({
  kind: 'user',
  id: 'u',
  email: 'u@example.com',
  role,
  memberships: new Map(member ? [['p', member]] : []),
})

test('scopes: a session has on a project at most what both its role and its membership allow', () => {
  const table: [Actor, Scope | 'nothing'][] = [
    [user('project_admin', 'owner'), 'admin'],
    [user('project_admin', 'admin'), 'admin'],
    [user('project_admin', 'editor'), 'deploy'],
    [user('project_admin', 'read_only'), 'read'],
    [user('developer', 'owner'), 'deploy'],
    [user('viewer', 'owner'), 'read'],
    [user('project_admin'), 'nothing'],
    [user('super_admin'), 'admin'],
  ]
  for (const [actor, expected] of table) assert.equal(scopeOf(actor, 'p'), expected)
})

test('scopes: on the platform only super_admin, the admin token and platform tokens have a scope', () => {
  assert.equal(scopeOf(user('project_admin', 'owner'), undefined), 'nothing')
  assert.equal(scopeOf(user('super_admin'), undefined), 'admin')
  assert.equal(scopeOf({ kind: 'admin_token' }, undefined), 'admin')
  assert.equal(scopeOf({ kind: 'token', id: 't', name: 't', scope: 'deploy' }, undefined), 'deploy')
})

test('scopes: admin includes deploy, deploy includes read', () => {
  const route = (scope: ManagementRoute['scope']): ManagementRoute => ({ ...projectsApi.read, scope })
  const token = (scope: Scope): Actor => ({ kind: 'token', id: 't', name: 't', scope })
  for (const [index, scope] of (['read', 'deploy', 'admin'] as const).entries()) {
    const allowed = (['read', 'deploy', 'admin'] as const).map(wanted =>
      mayCall(token(scope), route(wanted), 'p'),
    )
    assert.deepEqual(allowed, [true, index >= 1, index >= 2])
  }
})

test('scopes: a session lists its own projects, a super_admin lists all', () => {
  assert.ok(mayCall(user('viewer'), projectsApi.list, undefined))
  assert.deepEqual(visibleProjects(user('viewer', 'read_only')), ['p'])
  assert.equal(visibleProjects(user('super_admin')), undefined)
})
