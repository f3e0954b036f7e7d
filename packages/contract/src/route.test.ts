import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addresses } from './openapi.ts'
import { aliasPath, type Routes } from './route.ts'
import { routeTables } from './routes.ts'

test('routes: a native data-plane path has an alias with the project first', () => {
  assert.equal(aliasPath('/cache/{project}/get/{key}'), '/{project}/cache/v1/get/{key}')
  assert.equal(aliasPath('/graphql/{project}'), '/{project}/graphql/v1')
  assert.equal(aliasPath('/projects/{id}'), undefined)
})

test('routes: method and path are unique, and every declared parameter is in its path', () => {
  const seen = new Set<string>()
  for (const routes of Object.values(routeTables as Record<string, Routes>))
    for (const route of Object.values(routes)) {
      for (const address of addresses(route)) {
        const name = `${route.method} ${address.replace(/\{\w+\}/g, '{}')}`
        assert.ok(!seen.has(name), name)
        seen.add(name)
      }
      const inPath = [...route.path.matchAll(/\{(\w+)\}/g)].map(match => match[1]).sort()
      const { properties = {} } = (route.params ?? {}) as { properties?: object }
      assert.deepEqual(Object.keys(properties).sort(), inPath, route.path)
    }
})
