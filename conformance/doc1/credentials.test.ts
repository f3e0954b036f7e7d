// 1 §1, §2.2 and §5: the credentials of the data plane, and the one response to all invalid ones.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CreatedProject, createProject, someId, unique, unlimited, userJwt } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertDataError, type CallOptions, type Reply, sendBytes } from '../wire.ts'

let it: Target
let project: CreatedProject
let other: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it, { quotas: unlimited })
  other = await createProject(it, { quotas: unlimited })
})
after(() => it.stop())

const shapes = {
  native: (id: string) => `/v1/whoami/${id}`,
  alias: (id: string) => `/v1/${id}/whoami/v1`,
}
const whoami = (options: CallOptions, id = project.id) => it.call('GET', shapes.native(id), options)

async function assertIs(options: CallOptions, role: string, userId: string | null = null): Promise<void> {
  const reply = await whoami(options)
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(reply.body, { project_id: project.id, role, user_id: userId })
}

/** Everything in a response that a caller can compare. */
const seen = ({ status, text, headers }: Reply) => ({
  status,
  text,
  headers: [...headers].filter(([name]) => !['date', 'x-request-id'].includes(name)),
})

test('1 §5 the anon key gives the role anon, in apikey or as Bearer', async () => {
  await assertIs({ apikey: project.anon_key }, 'anon')
  await assertIs({ token: project.anon_key }, 'anon')
  await assertIs({ apikey: project.anon_key, token: project.anon_key }, 'anon')
})

test('1 §5 the service_role key gives the role service_role, in apikey or as Bearer', async () => {
  await assertIs({ apikey: project.service_role_key }, 'service_role')
  await assertIs({ token: project.service_role_key }, 'service_role')
  await assertIs({ apikey: project.service_role_key, token: project.service_role_key }, 'service_role')
})

test('1 §5 a valid Bearer token determines the role', async () => {
  await assertIs({ apikey: project.anon_key, token: project.service_role_key }, 'service_role')
  await assertIs({ apikey: project.service_role_key, token: project.anon_key }, 'anon')
  await assertIs({ apikey: project.service_role_key, token: userJwt(project) }, 'authenticated', someId)
})

test('1 §5 the anon key with a user JWT gives the role authenticated and the user’s id', async () => {
  const sub = '6f1f0a3e-7d0b-4f6e-9a59-6b5f0a8b2c11'
  const token = userJwt(project, {
    sub,
    email: 'user@example.test',
    aud: 'authenticated',
    app_metadata: {},
    user_metadata: { name: 'Ü' },
    session_id: someId,
  })
  await assertIs({ apikey: project.anon_key, token }, 'authenticated', sub)
})

test('1 §9 both shapes of a path reach the same handler', async () => {
  for (const options of [
    { apikey: project.anon_key },
    { token: project.service_role_key },
    { apikey: project.anon_key, token: userJwt(project) },
    {},
    { apikey: other.anon_key },
  ]) {
    const [native, alias] = await Promise.all([
      it.call('GET', shapes.native(project.id), options),
      it.call('GET', shapes.alias(project.id), options),
    ])
    assert.deepEqual(seen(native), seen(alias))
  }
})

test('1 §4 a project’s api_url is the base of the alias shape', async () => {
  const { pathname } = new URL(project.api_url)
  assert.equal(pathname, `/v1/${project.id}`)
  const reply = await it.call('GET', `${pathname}/whoami/v1`, { apikey: project.anon_key })
  assert.equal(reply.status, 200)
})

test('1 §5.1 without a credential the answer is 401', async () => {
  for (const path of [shapes.native(project.id), shapes.alias(project.id)])
    assertDataError(await it.call('GET', path), 'unauthorized')
})

test('1 §5 a user JWT without a project key is 401', async () => {
  const token = userJwt(project)
  assertDataError(await whoami({ token }), 'unauthorized')
  assertDataError(await whoami({ apikey: token }), 'unauthorized')
  assertDataError(await whoami({ apikey: token, token }), 'unauthorized')
  assertDataError(await whoami({ apikey: other.anon_key, token }), 'unauthorized')
  const service = userJwt(project, { role: 'service_role' })
  assertDataError(await whoami({ token: service }), 'unauthorized')
})

test('1 §5.1 an invalid Bearer is 401 even with a valid key', async () => {
  for (const token of [
    'x',
    'a.b.c',
    other.anon_key,
    other.service_role_key,
    userJwt(other),
    `${project.anon_key}x`,
    it.adminToken,
  ])
    for (const apikey of [project.anon_key, project.service_role_key])
      assertDataError(await whoami({ apikey, token }), 'unauthorized')
})

test('1 §5.1 a key must match exactly', async () => {
  for (const key of [
    project.anon_key.slice(0, -1),
    `${project.anon_key}x`,
    project.anon_key.toUpperCase(),
    project.anon_key.slice('platform_'.length),
    `platform_anon_${project.slug}_`,
    `${project.anon_key},${project.anon_key}`,
    project.jwt_secret,
    project.id,
    project.slug,
    '*',
    '%',
    "' or '1'='1",
    'x'.repeat(4000),
  ]) {
    assertDataError(await whoami({ apikey: key }), 'unauthorized')
    assertDataError(await whoami({ token: key }), 'unauthorized')
  }
  assertDataError(await whoami({ headers: { authorization: project.anon_key } }), 'unauthorized')
  assertDataError(
    await it.call('GET', `${shapes.native(project.id)}?apikey=${project.anon_key}`),
    'unauthorized',
  )
})

test('1 §5.1 repeated headers are not combined into a credential', async () => {
  const request = (lines: string[]) =>
    `GET ${shapes.native(project.id)} HTTP/1.1\r\nhost: x\r\n${lines.join('\r\n')}\r\n\r\n`
  const twice = await sendBytes(it.url, request(['apikey: wrong', `apikey: ${project.anon_key}`]))
  assert.ok([400, 401].includes(twice.status), `${twice.status}`)
  const bearers = ['authorization: Bearer wrong', `authorization: Bearer ${project.service_role_key}`]
  const twoBearers = await sendBytes(it.url, request(bearers))
  assert.ok([400, 401].includes(twoBearers.status), `${twoBearers.status}`)
})

test('1 §1, case 1: other projects’ keys, unknown keys and unknown projects get the same 401', async () => {
  const deleted = await createProject(it)
  await it.manage('DELETE', `/projects/${deleted.id}`)
  const rotated = await createProject(it)
  await it.manage('POST', `/projects/${rotated.id}/rotate/api-keys`)

  const cases: [string, string, CallOptions][] = [
    ['an unknown key', project.id, { apikey: `platform_anon_${project.slug}_${unique('x')}` }],
    ['no key at all, but a wrong one', project.id, { apikey: 'wrong' }],
    ['another project’s anon key', project.id, { apikey: other.anon_key }],
    ['another project’s service_role key', project.id, { apikey: other.service_role_key }],
    ['another project’s key as Bearer', project.id, { token: other.service_role_key }],
    ['another project’s key and user', project.id, { apikey: other.anon_key, token: userJwt(other) }],
    ['an unknown project', someId, { apikey: project.anon_key }],
    ['an unknown project, as Bearer', someId, { token: project.service_role_key }],
    ['an unknown project and user', someId, { apikey: project.anon_key, token: userJwt(project) }],
    ['a deleted project', deleted.id, { apikey: deleted.anon_key }],
    ['a key that was rotated away', rotated.id, { apikey: rotated.anon_key }],
    ['a project id that is none', 'not-an-id', { apikey: project.anon_key }],
    ['a slug for an id', project.slug, { apikey: project.anon_key }],
  ]
  const reference = await whoami({ apikey: 'wrong' })
  assertDataError(reference, 'unauthorized')
  for (const [what, id, options] of cases)
    for (const [shape, pathOf] of Object.entries(shapes)) {
      const reply = await it.call('GET', pathOf(id), options)
      assert.deepEqual(seen(reply), seen(reference), `${what} (${shape})`)
    }
})

test('1 §1, case 1: the same applies to paths without a service', async () => {
  const reference = await whoami({ apikey: 'wrong' })
  for (const path of [
    `/v1/rest/${project.id}/t`,
    `/v1/${project.id}/storage/v1/bucket`,
    `/v1/rest/${someId}/t`,
  ])
    for (const apikey of [other.anon_key, 'wrong'])
      assert.deepEqual(seen(await it.call('GET', path, { apikey })), seen(reference), path)
})

test('1 §1 an unknown route is 401 without a key, and with one 404 in the error format of the data plane', async () => {
  for (const [method, path] of [
    ['POST', `/v1/nosuchservice/${project.id}/x`],
    ['GET', `/v1/${project.id}/nosuchservice/v1/x`],
    ['DELETE', `/v1/whoami/${project.id}`],
    ['POST', `/v1/${project.id}/whoami/v1`],
    ['GET', `/v1/whoami/${project.id}/more`],
    ['GET', `/v1/${project.id}/whoami/v1/more`],
    ['GET', `/v1/${project.id}/whoami`],
    ['GET', `/v1/${project.id}/whoami/v2`],
  ] as const) {
    assertDataError(await it.call(method, path), 'unauthorized')
    assertDataError(await it.call(method, path, { apikey: other.anon_key }), 'unauthorized')
    for (const options of [{ apikey: project.anon_key }, { token: project.service_role_key }])
      assertDataError(await it.call(method, path, options), 'route_not_found')
  }
  for (const path of ['/v1/', '/v1/nothing', '/v1/nothing/at/all'])
    assertDataError(await it.call('GET', path), 'unauthorized')
})

test('1 §5.1 the credential is checked before the body', async () => {
  const path = `/v1/rest/${project.id}/t`
  assertDataError(await it.call('POST', path, { body: '{"broken' }), 'PGRST302')
  assertDataError(await it.call('POST', path, { apikey: 'wrong', body: 'x'.repeat(100_000) }), 'unauthorized')
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\napikey: wrong\r\ncontent-type: application/json\r\n`
  assertDataError(await sendBytes(it.url, `${head}content-length: 1000\r\n\r\n{`), 'unauthorized')
})
