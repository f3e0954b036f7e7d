// 3 §1 and §5: permissions of every management route.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { addresses } from '@plinth/contract/openapi.ts'
import type { ManagementRoute, Route } from '@plinth/contract/route.ts'
import { routeTables } from '@plinth/contract/routes.ts'
import {
  type CreatedProject,
  createProject,
  createUser,
  mintToken,
  type Pat,
  sessionOf,
  someId,
  userJwt,
} from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope, sendBytes } from '../wire.ts'

/** The credential column of the specification's route list. */
const specified: Record<string, 'none' | 'session' | 'read' | 'deploy' | 'admin'> = {
  'GET /api/v1/health': 'none',
  'GET /api/v1/health/services': 'none',
  'GET /api/v1/openapi.json': 'none',
  'POST /api/v1/platform/login': 'none',
  'POST /api/v1/platform/tokens': 'admin',
  'GET /api/v1/platform/tokens': 'admin',
  'DELETE /api/v1/platform/tokens/{token_id}': 'admin',
  'POST /api/v1/projects': 'admin',
  'GET /api/v1/projects': 'read',
  'GET /api/v1/projects/{id}': 'read',
  'PATCH /api/v1/projects/{id}': 'admin',
  'DELETE /api/v1/projects/{id}': 'admin',
  'POST /api/v1/projects/{id}/suspend': 'admin',
  'POST /api/v1/projects/{id}/resume': 'admin',
  'GET /api/v1/projects/{id}/keys/service-role': 'admin',
  'POST /api/v1/projects/{id}/rotate/jwt': 'admin',
  'POST /api/v1/projects/{id}/rotate/api-keys': 'admin',
  'POST /api/v1/projects/{id}/invites': 'admin',
  'GET /api/v1/projects/{id}/invites': 'read',
  'DELETE /api/v1/projects/{id}/invites/{invite_id}': 'admin',
  'POST /api/v1/invites/accept': 'session',
  'GET /api/v1/projects/{id}/members': 'admin',
  'PATCH /api/v1/projects/{id}/members/{user_id}': 'admin',
  'DELETE /api/v1/projects/{id}/members/{user_id}': 'admin',
  'GET /api/v1/projects/{id}/auth': 'read',
  'PATCH /api/v1/projects/{id}/auth': 'admin',
  'PUT /api/v1/projects/{id}/auth/providers': 'admin',
  'DELETE /api/v1/projects/{id}/auth/providers/{provider}': 'admin',
  'GET /api/v1/auth/templates': 'read',
  'GET /api/v1/projects/{id}/users': 'read',
  'POST /api/v1/projects/{id}/users': 'admin',
  'GET /api/v1/projects/{id}/users/{user_id}': 'read',
  'DELETE /api/v1/projects/{id}/users/{user_id}': 'admin',
  'GET /api/v1/projects/{id}/users/{user_id}/sessions': 'read',
  'DELETE /api/v1/projects/{id}/users/{user_id}/sessions': 'admin',
  'DELETE /api/v1/projects/{id}/users/{user_id}/sessions/{token}': 'admin',
  'POST /api/v1/projects/{id}/users/{user_id}/ban': 'admin',
  'POST /api/v1/projects/{id}/users/{user_id}/unban': 'admin',
  'POST /api/v1/projects/{id}/users/import': 'admin',
  'GET /api/v1/admin/stats': 'admin',
  'GET /api/v1/admin/audit': 'admin',
  'GET /api/v1/admin/audit/export': 'admin',
  'POST /api/v1/admin/audit/prune': 'admin',
  'POST /api/v1/admin/encrypt-settings-secrets': 'admin',
  'GET /api/v1/admin/users': 'admin',
  'POST /api/v1/admin/users': 'admin',
  'PATCH /api/v1/admin/users/{user_id}': 'admin',
  'DELETE /api/v1/admin/users/{user_id}': 'admin',
  'GET /api/v1/projects/{id}/cache/keys': 'read',
  'GET /api/v1/projects/{id}/cache/keys/{key}': 'read',
  'POST /api/v1/projects/{id}/cache/keys': 'admin',
  'DELETE /api/v1/projects/{id}/cache/keys/{key}': 'admin',
  'POST /api/v1/projects/{id}/cache/flush': 'admin',
  'GET /api/v1/projects/{id}/cache/stats': 'read',
  'GET /api/v1/projects/{id}/cron/jobs': 'read',
  'GET /api/v1/projects/{id}/cron/jobs/{name}/runs': 'read',
  'POST /api/v1/projects/{id}/webhooks': 'admin',
  'GET /api/v1/projects/{id}/webhooks': 'read',
  'PATCH /api/v1/projects/{id}/webhooks/{wid}': 'admin',
  'DELETE /api/v1/projects/{id}/webhooks/{wid}': 'admin',
  'GET /api/v1/projects/{id}/webhooks/{wid}/deliveries': 'read',
  'POST /api/v1/projects/{id}/webhooks/{wid}/deliveries/{delivery_id}/retry': 'admin',
  'POST /api/v1/projects/{id}/webhooks/{wid}/test': 'admin',
  'POST /api/v1/projects/{id}/webhooks/{wid}/attach': 'deploy',
  'DELETE /api/v1/projects/{id}/webhooks/{wid}/attach/{table}': 'deploy',
  'GET /api/v1/projects/{id}/webhooks/{wid}/attachments': 'read',
  'POST /api/v1/admin/webhooks/dlq/purge': 'admin',
  'GET /api/v1/projects/{id}/branches': 'admin',
  'POST /api/v1/projects/{id}/branches': 'admin',
  'DELETE /api/v1/projects/{id}/branches/{slug}': 'admin',
  'GET /api/v1/projects/{id}/pooler': 'admin',
  'GET /api/v1/projects/{id}/backups': 'read',
  'POST /api/v1/projects/{id}/backups': 'admin',
  'GET /api/v1/projects/{id}/backups/settings': 'read',
  'PUT /api/v1/projects/{id}/backups/settings': 'admin',
  'POST /api/v1/projects/{id}/backups/{backup_id}/restore': 'admin',
  'GET /api/v1/projects/{id}/pitr/restore-points': 'read',
  'GET /api/v1/projects/{id}/pitr/restore/preview': 'read',
  'POST /api/v1/projects/{id}/pitr/restore': 'admin',
  'POST /api/v1/admin/platform/upgrade': 'admin',
}

const declared: Route[] = Object.values(routeTables).flatMap(table => Object.values(table))
const management = declared.filter((route): route is ManagementRoute => route.plane === 'management')
const nameOf = (route: Route) => `${route.method} ${addresses(route)[0]}`
const guarded = management.filter(route => route.scope !== 'none')

let it: Target
let project: CreatedProject
let pats: Record<'read' | 'deploy' | 'admin', Pat>
let viewer: string

before(async () => {
  it = await target()
  project = await createProject(it)
  pats = {
    read: await mintToken(it, 'read'),
    deploy: await mintToken(it, 'deploy'),
    admin: await mintToken(it, 'admin'),
  }
  viewer = await sessionOf(it, await createUser(it, 'viewer'))
})
after(() => it.stop())

/** The route with well-formed ids. Only the project exists. */
const pathOf = (route: Route, id = project.id) =>
  addresses(route)[0]!
    .replace('{id}', id)
    .replace(/\{\w+\}/g, someId)

/** An empty object for routes with a body. It is never valid, so it never changes anything. */
const call = (route: Route, token?: string, id?: string) =>
  it.call(route.method, pathOf(route, id), { token, ...(route.body && { body: {} }) })

test('3 §4, §5.2 every management route requires the scope in the specification', () => {
  for (const route of management) {
    const expected = specified[nameOf(route)]
    // Routes that are not in the list are checked by their behaviour below.
    if (expected) assert.equal(route.scope, expected, nameOf(route))
  }
  const names = management.map(nameOf)
  for (const name of Object.keys(specified)) assert.ok(names.includes(name), `${name} is not declared`)
})

test('3 §5.1 a route that is not a GET never has read scope', () => {
  for (const route of guarded)
    if (route.method !== 'GET' && route.method !== 'HEAD') assert.notEqual(route.scope, 'read', nameOf(route))
})

for (const route of guarded) {
  const name = nameOf(route)

  test(`3 §1 ${name} without a credential is 401`, async () => {
    assertManagementError(await call(route), 'unauthorized')
  })

  test(`3 §1 ${name} rejects keys and user tokens of the data plane`, async () => {
    for (const token of [project.anon_key, project.service_role_key, userJwt(project)]) {
      assertManagementError(await call(route, token), 'unauthorized')
      const inApikey = await it.call(route.method, pathOf(route), { apikey: token })
      assertManagementError(inApikey, 'unauthorized')
    }
  })

  test(`3 §5.2 ${name} names the missing scope`, async () => {
    const smaller = { read: [], deploy: ['read'], admin: ['read', 'deploy'], session: [] } as const
    for (const scope of smaller[route.scope as keyof typeof smaller])
      assertNeedsScope(await call(route, pats[scope].token), route.scope)
  })

  test(`3 §5.1 ${name} admits every scope that includes its own`, async () => {
    const enough = {
      read: ['read', 'deploy', 'admin'],
      deploy: ['deploy', 'admin'],
      admin: ['admin'],
    } as const
    for (const scope of enough[route.scope as keyof typeof enough] ?? []) {
      const { status, text } = await call(route, pats[scope].token, someId)
      assert.ok(![401, 403].includes(status) && status < 500, `${scope}: ${status} ${text}`)
    }
  })
}

test('3 §5 login, health and openapi need no credential and ignore a wrong one', async () => {
  // A route that shows more with a credential checks it: see docs.test.ts. Health shows less with a wrong one.
  for (const route of management.filter(each => each.scope === 'none' && (!each.fuller || each.neverRefuses)))
    for (const token of [undefined, 'wrong', viewer])
      for (const address of addresses(route)) {
        const { status } = await it.call(route.method, address, { token, ...(route.body && { body: {} }) })
        assert.equal(status, route.body ? 400 : 200, `${route.method} ${address}`)
      }
})

test('3 §5.1 read scope covers reads except the sensitive ones', async () => {
  const read = (path: string) => it.call('GET', `/api/v1${path}`, { token: pats.read.token })
  assert.equal((await read('/projects')).status, 200)
  assert.equal((await read(`/projects/${project.id}`)).status, 200)
  for (const path of [`/projects/${project.id}/keys/service-role`, '/admin/audit/export', '/admin/users'])
    assertNeedsScope(await read(path), 'admin')
})

test('3 §5.1 deploy scope covers reads, but neither sensitive ones nor administration', async () => {
  const token = pats.deploy.token
  assert.equal((await it.call('GET', `/api/v1/projects/${project.id}`, { token })).status, 200)
  for (const [method, path] of [
    ['GET', `/projects/${project.id}/keys/service-role`],
    ['GET', '/admin/users'],
    ['POST', '/projects'],
    ['DELETE', `/projects/${project.id}`],
  ] as const)
    assertNeedsScope(await it.call(method, `/api/v1${path}`, { token }), 'admin')
  assert.equal((await it.manage('GET', `/projects/${project.id}`)).status, 200)
})

const unknownRoutes = [
  ['GET', '/api/v1/'],
  ['GET', '/api/v1/nothing'],
  ['GET', '/api/v1/projects/nothing/at/all/here'],
  ['GET', `/api/v1/projects/${someId}/nothing`],
  ['PUT', '/api/v1/projects'],
  ['DELETE', '/api/v1/projects'],
  ['POST', '/api/v1/admin/stats'],
  ['OPTIONS', '/api/v1/projects'],
] as const

for (const [method, path] of unknownRoutes)
  test(`3 §5.1 the unknown route ${method} ${path} requires admin, and only then is 404`, async () => {
    assertManagementError(await it.call(method, path), 'unauthorized')
    assertManagementError(await it.call(method, path, { token: project.service_role_key }), 'unauthorized')
    for (const token of [pats.read.token, pats.deploy.token, viewer])
      assertNeedsScope(await it.call(method, path, { token }), 'admin')
    for (const token of [pats.admin.token, it.adminToken])
      assertManagementError(await it.call(method, path, { token }), 'route_not_found')
  })

test('3 §1 another spelling of a path does not bypass the permission check', async () => {
  for (const path of [
    '/api/v1/projects/',
    '/api/v1//projects',
    '//api/v1/projects',
    '/api/v1/%70rojects',
    '/api/v1/./projects',
    '/api/v1/health/../projects',
    '/api/v1/health/%2e%2e/projects',
    '/API/V1/projects',
    '/api/v1/projects?x=/health',
    '/api/v1/projects;/health',
    '/api/v1/projects%00',
    '/api/v1/projects#/health',
  ]) {
    const reply = await sendBytes(it.url, `GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)
    assert.ok([400, 401, 404].includes(reply.status), `${path}: ${reply.status}`)
    assert.ok(!reply.text.includes(project.id), path)
  }
})

test('3 §1 HEAD needs the same permission as GET', async () => {
  assert.equal((await it.call('HEAD', '/api/v1/projects')).status, 401)
  assert.equal((await it.call('HEAD', '/api/v1/admin/users', { token: pats.read.token })).status, 403)
})

test('3 §1 permissions are checked before the body, so validation errors need permission', async () => {
  for (const body of ['{"name":', 'null', '{"name":5}', '{}']) {
    const call = (token?: string) => it.call('POST', '/api/v1/projects', { token, body })
    assertManagementError(await call(), 'unauthorized')
    assertNeedsScope(await call(pats.deploy.token), 'admin')
    assert.equal((await call(pats.admin.token)).status, 400)
  }
  const wrongType = { body: 'name=x', headers: { 'content-type': 'text/plain' } }
  assertManagementError(await it.call('POST', '/api/v1/projects', wrongType), 'unauthorized')
  const badId = await it.call('GET', '/api/v1/projects/not-an-id')
  assertManagementError(badId, 'unauthorized')
})

test('3 §1 the permission check does not wait for the body', async () => {
  const head = (token: string) =>
    `POST /api/v1/projects HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n` +
    'content-type: application/json\r\ncontent-length: 1000\r\n\r\n{'
  assertManagementError(await sendBytes(it.url, head('wrong')), 'unauthorized')
  assertNeedsScope(await sendBytes(it.url, head(pats.read.token)), 'admin')
})
