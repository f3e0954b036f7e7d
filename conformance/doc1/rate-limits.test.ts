// 1 §8 and REST contract §6 row 24: requests per project, per scope, per 60 seconds.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CreatedProject, createProject, someId, userJwt } from '../people.ts'
import { freshTarget, type Target } from '../target.ts'
import { assertDataError, type CallOptions, type Reply } from '../wire.ts'

let it: Target
let standard: Target
before(async () => {
  it = await freshTarget({
    PLATFORM_RATE_LIMIT_ANON: '3',
    PLATFORM_RATE_LIMIT_AUTHENTICATED: '4',
    PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
  })
  standard = await freshTarget({})
})
after(() => Promise.all([it.stop(), standard.stop()]))

const whoami = (project: CreatedProject, options: CallOptions = { apikey: project.anon_key }) =>
  it.call('GET', `/v1/whoami/${project.id}`, options)
const quotas = (project: CreatedProject, change: Record<string, number | null>) =>
  it.manage('PATCH', `/projects/${project.id}`, { quotas: change })
const window = ({ headers }: Reply) => [
  headers.get('x-ratelimit-limit'),
  headers.get('x-ratelimit-remaining'),
]
const signedIn = (project: CreatedProject, sub = someId) => ({
  apikey: project.anon_key,
  token: userJwt(project, { sub }),
})

function assertLimited(reply: Reply): void {
  assertDataError(reply, 'over_request_rate_limit')
  const wait = reply.headers.get('retry-after') ?? ''
  assert.match(wait, /^\d+$/)
  assert.ok(Number(wait) >= 1 && Number(wait) <= 60, `Retry-After: ${wait}`)
  assert.equal(reply.headers.get('x-ratelimit-remaining'), '0')
}

test('1 §8 the default limits are 100, 1000 and 5000', async () => {
  const project = await createProject(standard)
  const limit = async (options: CallOptions) =>
    (await standard.call('GET', `/v1/whoami/${project.id}`, options)).headers.get('x-ratelimit-limit')
  assert.equal(await limit({ apikey: project.anon_key }), '100')
  assert.equal(await limit({ apikey: project.anon_key, token: userJwt(project) }), '1000')
  assert.equal(await limit({ apikey: project.service_role_key }), '5000')
})

test('1 §8 the 101st anon request of a minute is 429', async () => {
  const project = await createProject(standard)
  const call = () => standard.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key })
  const replies = await Promise.all(Array.from({ length: 100 }, call))
  assert.ok(replies.every(({ status }) => status === 200))
  assertLimited(await call())
})

test('1 §8 each response has the limit and the remaining requests; above the limit it is 429 with Retry-After', async () => {
  const project = await createProject(it)
  for (const remaining of ['2', '1', '0']) {
    const reply = await whoami(project)
    assert.equal(reply.status, 200)
    assert.deepEqual(window(reply), ['3', remaining])
    assert.equal(reply.headers.get('retry-after'), null)
  }
  for (let i = 0; i < 3; i++) {
    const reply = await whoami(project)
    assertLimited(reply)
    assert.deepEqual(window(reply), ['3', '0'])
  }
})

test('1 §8 the hint of a 429 names the quota and the setting of the role', async () => {
  const project = await createProject(it, { quotas: { rate_limit_service_role: 1 } })
  const anon = { apikey: project.anon_key }
  const service = { apikey: project.service_role_key }
  const hint = async (options: CallOptions, limit: number): Promise<string> => {
    for (let i = 0; i < limit; i++) assert.equal((await whoami(project, options)).status, 200)
    const reply = await whoami(project, options)
    assertLimited(reply)
    return reply.body.hint
  }
  const named = (quota: string, setting: string) => new RegExp(`\\b${quota}\\b.*\\b${setting}\\b`)
  assert.match(await hint(anon, 3), named('rate_limit_anon', 'PLATFORM_RATE_LIMIT_ANON'))
  assert.match(
    await hint(signedIn(project), 4),
    named('rate_limit_authenticated', 'PLATFORM_RATE_LIMIT_AUTHENTICATED'),
  )
  assert.match(await hint(service, 1), named('rate_limit_service_role', 'PLATFORM_RATE_LIMIT_SERVICE_ROLE'))
})

test('1 §8 parallel requests are counted exactly', async () => {
  const project = await createProject(it)
  const statuses = (await Promise.all(Array.from({ length: 10 }, () => whoami(project)))).map(r => r.status)
  assert.deepEqual(statuses.toSorted(), [...Array(3).fill(200), ...Array(7).fill(429)])
})

test('1 §8 each project has its own window', async () => {
  const [busy, quiet] = [await createProject(it), await createProject(it)]
  for (let i = 0; i < 4; i++) await whoami(busy)
  assertLimited(await whoami(busy))
  assert.deepEqual(window(await whoami(quiet)), ['3', '2'])
})

test('1 §8 each scope has its own window', async () => {
  const project = await createProject(it)
  for (let i = 0; i < 4; i++) await whoami(project)
  assertLimited(await whoami(project))
  assert.deepEqual(window(await whoami(project, signedIn(project))), ['4', '3'])
  assert.equal((await whoami(project, { apikey: project.service_role_key })).status, 200)
})

test('1 §8 the signed-in users of a project share its window', async () => {
  const project = await createProject(it)
  const users = [someId, '6f1f0a3e-7d0b-4f6e-9a59-6b5f0a8b2c11']
  for (const remaining of ['3', '2', '1', '0']) {
    const reply = await whoami(project, signedIn(project, users[Number(remaining) % 2]))
    assert.deepEqual(window(reply), ['4', remaining])
  }
  assertLimited(await whoami(project, signedIn(project)))
})

test('1 §8 both shapes of a path, and unknown paths, count in one window', async () => {
  const project = await createProject(it)
  const apikey = project.anon_key
  await it.call('GET', `/v1/whoami/${project.id}`, { apikey })
  await it.call('GET', `/v1/${project.id}/whoami/v1`, { apikey })
  const third = await it.call('GET', `/v1/rest/${project.id}/nothing`, { apikey })
  assert.equal(third.status, 404)
  assert.deepEqual(window(third), ['3', '0'])
  assertLimited(await it.call('GET', `/v1/${project.id}/whoami/v1`, { apikey }))
  assertLimited(await it.call('GET', `/v1/rest/${project.id}/nothing`, { apikey }))
})

test('1 §8 a limit of 0 disables it and sends no headers', async () => {
  const project = await createProject(it)
  const replies = await Promise.all(
    Array.from({ length: 30 }, () => whoami(project, { apikey: project.service_role_key })),
  )
  for (const reply of replies) {
    assert.equal(reply.status, 200)
    assert.deepEqual(window(reply), [null, null])
  }
})

test('1 §8 a project’s quotas override the platform’s limits immediately, in both directions', async () => {
  const project = await createProject(it, { quotas: { rate_limit_anon: 2 } })
  assert.deepEqual(window(await whoami(project)), ['2', '1'])
  await whoami(project)
  assertLimited(await whoami(project))

  assert.equal((await quotas(project, { rate_limit_anon: 50 })).status, 200)
  const raised = await whoami(project)
  assert.equal(raised.status, 200)
  assert.equal(window(raised)[0], '50')

  await quotas(project, { rate_limit_anon: 0 })
  const lifted = await whoami(project)
  assert.equal(lifted.status, 200)
  assert.deepEqual(window(lifted), [null, null])

  await quotas(project, { rate_limit_anon: null })
  assert.equal(window(await whoami(project))[0], '3', 'the platform’s own again')
})

test('1 §8 a quota can limit a scope that the platform does not limit', async () => {
  const project = await createProject(it, {
    quotas: { rate_limit_service_role: 1, rate_limit_authenticated: 0 },
  })
  const service = { apikey: project.service_role_key }
  assert.deepEqual(window(await whoami(project, service)), ['1', '0'])
  assertLimited(await whoami(project, service))
  assertLimited(await whoami(project, { token: project.service_role_key }))
  assert.deepEqual(window(await whoami(project, signedIn(project))), [null, null])
  assert.deepEqual(window(await whoami(project)), ['3', '2'])
})

test('1 §8 rotating keys does not reset the window', async () => {
  const project = await createProject(it)
  for (let i = 0; i < 3; i++) await whoami(project)
  const { body } = await it.manage('POST', `/projects/${project.id}/rotate/api-keys`)
  assertLimited(await whoami(project, { apikey: body.anon_key }))
})

test('1 §8 invalid credentials, preflights and the management API do not count', async () => {
  const project = await createProject(it)
  for (const options of [
    {},
    { apikey: 'x' },
    { apikey: project.anon_key, token: 'x' },
    { token: userJwt(project) },
  ])
    for (let i = 0; i < 2; i++) assert.equal((await whoami(project, options)).status, 401)
  const headers = { origin: 'https://app.test', 'access-control-request-method': 'GET' }
  for (let i = 0; i < 4; i++) {
    assert.ok((await it.call('OPTIONS', `/v1/whoami/${project.id}`, { headers })).status < 300)
    assert.equal((await it.manage('GET', `/projects/${project.id}`)).status, 200)
  }
  assert.deepEqual(window(await whoami(project)), ['3', '2'])
})
