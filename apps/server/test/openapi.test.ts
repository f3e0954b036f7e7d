import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { addresses } from '@plinth/contract/openapi.ts'
import type { Routes } from '@plinth/contract/route.ts'
import { routeTables } from '@plinth/contract/routes.ts'
import { Validator } from '@seriousme/openapi-schema-validator'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

test('openapi: the document is valid OpenAPI 3.1', async () => {
  const { status, headers, body } = await platform.call('GET', '/api/v1/openapi.json')
  assert.equal(status, 200)
  assert.match(headers.get('content-type')!, /^application\/json/)
  const validator = new Validator()
  const result = await validator.validate(body)
  assert.deepEqual(result, { valid: true })
  assert.equal(validator.version, '3.1')
})

test('openapi: the document has exactly the declared routes with all their addresses', async () => {
  const { body } = await platform.call('GET', '/api/v1/openapi.json')
  const documented = Object.entries(body.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
  )
  const declared = Object.values(routeTables as Record<string, Routes>).flatMap(routes =>
    Object.values(routes).flatMap(route => addresses(route).map(address => `${route.method} ${address}`)),
  )
  assert.deepEqual(documented.sort(), declared.sort())
})

test('openapi: health may have a credential and refuses none', async () => {
  const { body } = await platform.call('GET', '/api/v1/openapi.json')
  const { security, responses } = body.paths['/health/services'].get
  assert.deepEqual(security, [{}, { managementToken: [] }])
  assert.deepEqual([responses['401'], responses['403']], [undefined, undefined])
})

test('openapi: every address of every declared route is mounted', async () => {
  for (const routes of Object.values(routeTables as Record<string, Routes>))
    for (const route of Object.values(routes))
      for (const address of addresses(route)) {
        const path = address.replace(/\{\w+\}/g, crypto.randomUUID())
        const { status, body } = await platform.call(route.method, path, { token: platform.adminToken })
        assert.notEqual(body?.error?.code ?? body?.code, 'route_not_found', `${route.method} ${address}`)
        assert.ok(status < 500, `${route.method} ${address} answered ${status}`)
      }
})
