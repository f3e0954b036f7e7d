// 3 §4 "Health and description" and §9.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { addresses } from '@plinth/contract/openapi.ts'
import { routeTables } from '@plinth/contract/routes.ts'
import { type Target, target } from '../target.ts'
import { assertRequestId } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const semver = /^\d+\.\d+\.\d+(-[\w.]+)?(\+[\w.]+)?$/

for (const path of ['/health', '/api/v1/health'])
  test(`3 §4 ${path} returns liveness, database state and version without a credential`, async () => {
    const reply = await it.call('GET', path)
    assert.equal(reply.status, 200)
    assert.deepEqual(Object.keys(reply.body).sort(), ['database', 'status', 'version'])
    assert.equal(reply.body.status, 'ok')
    assert.equal(reply.body.database, 'ok')
    assert.match(reply.body.version, semver)
    assertRequestId(reply)
  })

for (const path of ['/health/services', '/api/v1/health/services'])
  test(`3 §4 ${path} returns status, warnings, services and version`, async () => {
    const reply = await it.call('GET', path)
    assert.equal(reply.status, 200)
    assert.deepEqual(Object.keys(reply.body).sort(), ['services', 'status', 'version', 'warnings'])
    assert.equal(typeof reply.body.status, 'string')
    assert.ok(Array.isArray(reply.body.warnings))
    assert.ok(Object.keys(reply.body.services).length > 0)
    for (const service of Object.values<{ status: string }>(reply.body.services))
      assert.equal(typeof service.status, 'string')
    assert.match(reply.body.version, semver)
  })

test('3 §9 all routes report the same version', async () => {
  const versions = await Promise.all(
    ['/health', '/api/v1/health', '/health/services', '/api/v1/health/services', '/api/v1/openapi.json'].map(
      async path => {
        const { body } = await it.call('GET', path)
        return body.version ?? body.info.version
      },
    ),
  )
  assert.equal(new Set(versions).size, 1)
})

test('3 §4 health answers contain no hosts, paths or secrets', async () => {
  const { text } = await it.call('GET', '/health/services')
  assert.doesNotMatch(text, /password|postgres:\/\/|\/tmp|\/var|\/home|\/root/)
})

test('3 §4 openapi.json needs no credential and describes every route', async () => {
  const reply = await it.call('GET', '/api/v1/openapi.json')
  assert.equal(reply.status, 200)
  assert.match(reply.headers.get('content-type') ?? '', /^application\/json/)
  assert.match(reply.body.openapi, /^3\.1\.\d+$/)
  const routes = Object.values(routeTables).flatMap(table => Object.values(table))
  for (const route of routes)
    for (const address of addresses(route)) {
      const operation = reply.body.paths[address]?.[route.method.toLowerCase()]
      assert.ok(operation, `${route.method} ${address}`)
      assert.ok(operation.responses[String(route.status ?? 200)], `${route.method} ${address}: its answer`)
      for (const [, name] of address.matchAll(/\{(\w+)\}/g))
        assert.ok(
          operation.parameters.some((each: any) => each.in === 'path' && each.name === name && each.required),
          `${address}: {${name}}`,
        )
    }
})

test('3 §4 every route in openapi.json exists', async () => {
  const { body } = await it.call('GET', '/api/v1/openapi.json')
  for (const [path, operations] of Object.entries<Record<string, any>>(body.paths))
    for (const [method, operation] of Object.entries(operations)) {
      const at = path.replace(/\{\w+\}/g, '00000000-0000-4000-8000-000000000000')
      const { status, body: answer } = await it.call(method.toUpperCase(), at)
      // Needs no credential, although one shows more. The project in this path does not exist.
      const showsMore = operation.security.some((each: object) => Object.keys(each).length === 0)
      const isOpen = operation.security.length === 0 || showsMore
      const isThere = status !== 404 || (showsMore && answer.error.code === 'project_not_found')
      assert.ok(isOpen ? isThere : status === 401, `${method} ${path}: ${status}`)
    }
})

test('3 §4 operation ids are unique', async () => {
  const { body } = await it.call('GET', '/api/v1/openapi.json')
  const ids = Object.values<Record<string, any>>(body.paths).flatMap(operations =>
    Object.values(operations).map(({ operationId }) => operationId),
  )
  assert.ok(ids.every(id => typeof id === 'string'))
  assert.equal(new Set(ids).size, ids.length)
})
