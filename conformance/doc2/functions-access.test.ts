// Who may call a function (the issue replaces 2 §5), preflights of browsers, and what strangers learn.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { WebSocket } from 'ws'
import { type FunctionsApi, functionsProject, saying } from '../functions.ts'
import { nowSeconds, someId, userJwt } from '../people.ts'
import { freshTarget, type Target, target } from '../target.ts'
import { assertDataError, type CallOptions } from '../wire.ts'

let it: Target
let own: FunctionsApi
let other: FunctionsApi
before(async () => {
  it = await target()
  own = await functionsProject(it)
  other = await functionsProject(it)
  await own.deploy('closed', saying('closed'))
  await own.deploy('open', { code: saying('open'), verify_jwt: false })
  await own.deploy('cors', {
    verify_jwt: false,
    code: `Deno.serve(req => req.method === 'OPTIONS'
      ? new Response('ok', { headers: { 'access-control-allow-origin': 'https://app.test', 'access-control-allow-credentials': 'true' } })
      : new Response('cors', { headers: { 'access-control-allow-origin': 'https://app.test' } }))`,
  })
})
after(() => it.stop())

const credentials = (): [string, number, CallOptions][] => {
  const { anon_key, service_role_key } = own.project
  const user = userJwt(own.project)
  return [
    ['nobody', 401, {}],
    ['the anon key', 401, { apikey: anon_key }],
    ['the anon key as a client library sends it', 401, { apikey: anon_key, token: anon_key }],
    ['a user without a key', 401, { token: user }],
    ['an expired user', 401, { apikey: anon_key, token: userJwt(own.project, { exp: nowSeconds() - 60 }) }],
    ['a user of another project', 401, { apikey: anon_key, token: userJwt(other.project) }],
    ['the key of another project', 401, { apikey: other.project.service_role_key }],
    ['no key at all', 401, { apikey: 'x' }],
    ['the management token', 401, { token: it.adminToken }],
    ['a user', 200, { apikey: anon_key, token: user }],
    ['the service_role key', 200, { apikey: service_role_key }],
    [
      'the service_role key as a client library sends it',
      200,
      { apikey: service_role_key, token: service_role_key },
    ],
  ]
}

test('Issue: with verify_jwt a user beside a key or the service_role key is needed', async () => {
  for (const [who, status, options] of credentials()) {
    const reply = await own.callOpen('closed', options)
    assert.equal(reply.status, status, `${who}: ${reply.text}`)
    if (status === 401) assertDataError(reply, 'unauthorized')
    assert.equal(reply.headers.get('x-relay-error'), null)
  }
  const anon = await own.callOpen('closed', { apikey: own.project.anon_key })
  assert.match(anon.body.hint, /token of a user.*verify_jwt/)
})

test('Issue: without verify_jwt nothing is needed, and a foreign Authorization does not matter', async () => {
  for (const [who, , options] of credentials())
    assert.equal((await own.callOpen('open', options)).status, 200, who)
  for (const authorization of ['Basic dXNlcjpwYXNz', 'Bearer sk_live_123', 'Signature x'])
    assert.equal((await own.callOpen('open', { headers: { authorization } })).text, 'open')
})

test('2 §4.5 an unknown function is 404 for callers of the project, and 401 for strangers, as an unknown project', async () => {
  const unknown = await own.callOpen('absent', { apikey: own.project.anon_key })
  assertDataError(unknown, 'NOT_FOUND')
  assert.equal(unknown.headers.get('x-relay-error'), 'true')
  assertDataError(await own.callOpen('absent'), 'unauthorized')
  const nowhere = await it.call('POST', `/v1/functions/${someId}/absent`, { apikey: own.project.anon_key })
  assertDataError(nowhere, 'unauthorized')
  assertDataError(await other.call('closed'), 'NOT_FOUND')
  for (const name of ['..%2f..', 'a%00b', 'a%20b'])
    assert.equal((await own.callOpen(name, { apikey: own.project.anon_key })).status, 400)
})

test('Contract: a preflight reaches the function, or is answered for it', async () => {
  const asking = {
    origin: 'https://app.test',
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization, x-own',
  }
  const answered = await own.callOpen('cors', { method: 'OPTIONS', headers: asking })
  assert.equal(answered.headers.get('access-control-allow-origin'), 'https://app.test')
  assert.equal(answered.headers.get('access-control-allow-credentials'), 'true')
  for (const name of ['closed', 'open', 'absent']) {
    const reply = await own.callOpen(name, { method: 'OPTIONS', headers: asking })
    assert.equal(reply.status, 204, name)
    assert.equal(reply.headers.get('access-control-allow-origin'), '*')
    assert.match(reply.headers.get('access-control-allow-headers')!, /authorization.*x-own/)
    assert.match(reply.headers.get('access-control-allow-methods')!, /DELETE/)
  }
  const call = await own.callOpen('cors', { headers: { origin: 'https://app.test' } })
  assert.equal(call.headers.get('access-control-allow-origin'), 'https://app.test')
  for (const name of ['open', 'closed'])
    assert.equal(
      (await own.callOpen(name, { headers: { origin: 'https://app.test' } })).headers.get(
        'access-control-allow-origin',
      ),
      '*',
    )
})

test('Issue: OPTIONS that is no preflight needs the same credentials as other methods', async () => {
  assertDataError(await own.callOpen('closed', { method: 'OPTIONS' }), 'unauthorized')
  assert.equal((await own.call('closed', { method: 'OPTIONS' })).text, 'closed')
})

test('Issue: a suspended project answers no calls', async () => {
  const paused = await functionsProject(it)
  await paused.deploy('open', { code: saying('open'), verify_jwt: false })
  assert.equal((await paused.callOpen('open')).status, 200)
  await it.manage('POST', `/projects/${paused.project.id}/suspend`)
  assertDataError(await paused.callOpen('open'), 'project_suspended')
  await it.manage('POST', `/projects/${paused.project.id}/resume`)
  assert.equal((await paused.callOpen('open')).text, 'open')
})

test('Issue: a WebSocket needs the same credentials, which browsers send in the query', async () => {
  const code = `Deno.serve(req => Deno.upgradeWebSocket(req).response)`
  await own.deploy('socket', code)
  const open = (query: string, headers: Record<string, string> = {}) =>
    new Promise<number>(resolve => {
      const address = `${it.url.replace('http', 'ws')}/v1/functions/${own.project.id}/socket${query}`
      const socket = new WebSocket(address, { headers })
      socket.on('open', () => {
        socket.close()
        resolve(101)
      })
      socket.on('unexpected-response', (request, { statusCode = 0 }) => {
        request.destroy()
        resolve(statusCode)
      })
      socket.on('error', () => {})
    })
  const { anon_key, service_role_key } = own.project
  assert.equal(await open(''), 401)
  assert.equal(await open(`?apikey=${anon_key}`), 401)
  assert.equal(await open(`?token=${userJwt(own.project)}`), 401)
  assert.equal(await open(`?apikey=${anon_key}&token=${userJwt(own.project)}`), 101)
  assert.equal(await open('', { apikey: service_role_key }), 101)
})

test('Issue: calls without a credential are counted per address', async () => {
  const limited = await freshTarget({ PLATFORM_RATE_LIMIT_ANON: '3' })
  try {
    const functions = await functionsProject(limited)
    await functions.deploy('open', { code: saying('open'), verify_jwt: false })
    await functions.deploy('closed', saying('closed'))
    const statuses: number[] = []
    for (let call = 0; call < 5; call++) statuses.push((await functions.callOpen('open')).status)
    assert.deepEqual(statuses, [200, 200, 200, 429, 429])
    const refused = await functions.callOpen('open')
    assertDataError(refused, 'over_request_rate_limit')
    assert.ok(Number(refused.headers.get('retry-after')) > 0)
    assert.equal((await functions.call('closed')).status, 200)
  } finally {
    await limited.stop()
  }
})
