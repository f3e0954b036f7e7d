import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import type { RawRequest } from '#src/kernel/http/request.ts'
import type { Run } from '#src/query/run.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { preferencesFrom } from './preferences.ts'
import { readRequest } from './request.ts'
import { write } from './write.ts'

const caller = { tenant: { exposedSchemas: ['public'] }, role: 'service_role' } as unknown as Caller

function rawRequest(method: string, search: string, body: unknown): RawRequest {
  const text = JSON.stringify(body)
  return {
    id: 'r',
    method,
    path: '/v1/rest/p/notes',
    params: {},
    headers: { 'content-length': String(Buffer.byteLength(text)) },
    ip: '127.0.0.1',
    signal: new AbortController().signal,
    onDisconnect: () => () => {},
    search,
    body: Readable.from([Buffer.from(text)]),
  }
}

async function keyOf(method: 'PUT' | 'PATCH' | 'POST', search: string, body: unknown): Promise<string> {
  let seen = ''
  const run = (async (_for: unknown, key: string) => {
    seen = key
    throw new Error('planned')
  }) as unknown as Run
  const kind = { PUT: 'put', PATCH: 'update', POST: 'insert' } as const
  const request = readRequest(caller, rawRequest(method, search, body), preferencesFrom(undefined))
  await assert.rejects(write(request, 'notes', kind[method], run), { message: 'planned' })
  return seen
}

test('writes: requests that differ only in their values share one plan', async () => {
  for (const method of ['PUT', 'PATCH', 'POST'] as const) {
    const keys = new Set<string>()
    for (let id = 0; id < 500; id++) keys.add(await keyOf(method, `id=eq.${id}`, { id, name: `name ${id}` }))
    assert.equal(keys.size, 1, method)
  }
})

test('writes: a body without rows and other columns have plans of their own', async () => {
  const keys = [
    await keyOf('POST', '', [{ a: 1 }]),
    await keyOf('POST', '', { a: 1 }),
    await keyOf('POST', '', [{ b: 1 }]),
    await keyOf('POST', '', []),
    await keyOf('POST', '', [{}]),
  ]
  assert.equal(new Set(keys).size, keys.length)
})
