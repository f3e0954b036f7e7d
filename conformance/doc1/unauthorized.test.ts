// 1 §5.1, REST contract §5 and Clarifications: a 401 says what is wrong with the credential, and tells a stranger nothing
// about projects and keys.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type CreatedProject,
  createProject,
  createUser,
  jwt,
  mintToken,
  nowSeconds,
  sessionOf,
  someId,
  unique,
  unlimited,
  userJwt,
} from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertDataError, assertManagementError, type CallOptions, type Reply } from '../wire.ts'

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
  native: (id: string) => `/v1/rest/${id}/items`,
  alias: (id: string) => `/v1/${id}/rest/v1/items`,
  rpc: (id: string) => `/v1/rest/${id}/rpc/sum`,
  unknown: (id: string) => `/v1/rest/${id}/a/b/c`,
}
const rows = (options: CallOptions, id = project.id, shape: keyof typeof shapes = 'native') =>
  it.call('GET', shapes[shape](id), options)
const beside = (token: string) => rows({ apikey: project.anon_key, token })
const challenge = (reply: Reply) => reply.headers.get('www-authenticate')

/** Everything in a response that a caller can compare. */
const seen = ({ status, text, headers }: Reply) => ({
  status,
  text,
  headers: [...headers].filter(([name]) => !['date', 'x-request-id'].includes(name)),
})

test('REST contract §5: no credential is PGRST302, on every path and whether or not the project exists', async () => {
  for (const id of [project.id, someId, 'nothing'])
    for (const shape of ['native', 'alias', 'rpc', 'unknown'] as const) {
      const reply = await rows({}, id, shape)
      assertDataError(reply, 'PGRST302')
      assert.match(reply.body.details, /no credential/i)
      assert.match(reply.body.hint, /apikey/)
      assert.equal(challenge(reply), 'Bearer')
    }
})

test('REST contract §5: an expired token beside a key is PGRST303 "JWT expired"', async () => {
  for (const shape of ['native', 'alias', 'rpc', 'unknown'] as const) {
    const token = userJwt(project, { exp: nowSeconds() - 10 })
    const reply = await rows({ apikey: project.anon_key, token }, project.id, shape)
    assertDataError(reply, 'PGRST303')
    assert.equal(reply.body.message, 'JWT expired')
    assert.equal(challenge(reply), 'Bearer error="invalid_token", error_description="JWT expired"')
  }
})

test('REST contract §5: invalid claims are PGRST303 with the claim', async () => {
  const later = nowSeconds() + 3600
  const cases: [Record<string, unknown>, RegExp][] = [
    [{ nbf: later }, /^JWT not yet valid$/],
    [{ iat: later, exp: later + 1 }, /^JWT issued at future$/],
    [{ exp: 'soon' }, /'exp' claim must be a number/],
    [{ exp: null }, /'exp' claim must be a number/],
    [{ nbf: 'soon' }, /'nbf' claim must be a number/],
    [{ nbf: [1] }, /'nbf' claim must be a number/],
    [{ iat: 'soon' }, /'iat' claim must be a number/],
    [{ iat: {} }, /'iat' claim must be a number/],
    [{ aud: 5 }, /'aud' claim must be a string or an array of strings/],
    [{ aud: { a: 1 } }, /'aud' claim must be a string or an array of strings/],
    [{ aud: ['app', 5] }, /'aud' claim must be a string or an array of strings/],
    [{ role: 'postgres' }, /'role' claim must be anon, authenticated or service_role/],
    [{ sub: 'a\0b' }, /'sub' claim/],
  ]
  for (const [claims, message] of cases) {
    const reply = await beside(userJwt(project, claims))
    assertDataError(reply, 'PGRST303')
    assert.match(reply.body.message, message)
    assert.ok(challenge(reply)?.includes(reply.body.message))
  }
})

test('REST contract §5: clocks may differ by some seconds, and any audience is accepted', async () => {
  const soon = nowSeconds() + 10
  for (const claims of [{ nbf: soon, iat: soon }, { aud: 'app' }, { aud: ['app', 'web'] }, { aud: [] }]) {
    const { body } = await it.call('GET', `/v1/whoami/${project.id}`, {
      apikey: project.anon_key,
      token: userJwt(project, claims),
    })
    assert.equal(body.role, 'authenticated', JSON.stringify(claims))
  }
})

test('REST contract §5: a token that cannot be decoded is PGRST301', async () => {
  const [head, payload] = userJwt(project).split('.')
  const cases: [string, RegExp][] = [
    ['x', /Expected 3 parts in JWT; got 1/],
    [`${head}.${payload}`, /Expected 3 parts in JWT; got 2/],
    [`${userJwt(project)}.x`, /Expected 3 parts in JWT; got 4/],
    ['a.b.c', /key/],
    [userJwt(other), /key/],
    [jwt({ role: 'anon' }, 'x'.repeat(40)), /key/],
  ]
  for (const [token, message] of cases) {
    const reply = await beside(token)
    assertDataError(reply, 'PGRST301')
    assert.match(reply.body.message, message)
    assert.equal(challenge(reply), `Bearer error="invalid_token", error_description="${reply.body.message}"`)
  }
  for (const authorization of ['Bearer', 'Basic YTpi'])
    assertDataError(await rows({ apikey: project.anon_key, headers: { authorization } }), 'PGRST301')
})

test('Clarifications: without a valid key, every foreign token and key gets the same answer for every project', async () => {
  const deleted = await createProject(it)
  await it.manage('DELETE', `/projects/${deleted.id}`)
  const reference = await rows({ apikey: 'wrong' })
  assertDataError(reference, 'unauthorized')
  const requests: [string, string, CallOptions][] = [
    ['an unknown key', project.id, { apikey: `platform_anon_${project.slug}_${unique('x')}` }],
    ['another project’s key', project.id, { apikey: other.anon_key }],
    ['another project’s key as Bearer', project.id, { token: other.service_role_key }],
    ['another project’s key beside a key', project.id, { apikey: project.anon_key, token: other.anon_key }],
    ['an unknown key beside a key', project.id, { apikey: project.anon_key, token: 'platform_anon_x_y' }],
    ['an unknown project', someId, { apikey: project.anon_key }],
    ['an unknown project, as Bearer', someId, { token: project.service_role_key }],
    ['a project that is gone', deleted.id, { apikey: deleted.anon_key }],
    ['no id', 'nothing', { apikey: project.anon_key }],
    ['an expired token', someId, { apikey: 'wrong', token: userJwt(project, { exp: 1 }) }],
    [
      'an expired token beside a wrong key',
      project.id,
      { apikey: 'wrong', token: userJwt(project, { exp: 1 }) },
    ],
    ['a user beside a wrong key', project.id, { apikey: 'wrong', token: userJwt(project) }],
  ]
  for (const [what, id, options] of requests)
    for (const shape of ['native', 'alias', 'rpc', 'unknown'] as const)
      assert.deepEqual(seen(await rows(options, id, shape)), seen(reference), `${what} (${shape})`)

  // Without a key, the answer depends on the token alone.
  for (const token of ['wrong', 'a.b.c', userJwt(other), userJwt(deleted)])
    assert.deepEqual(seen(await rows({ token })), seen(await rows({ token }, someId)), token)
})

test('Clarifications: only a token that the project has signed learns that its key is missing', async () => {
  const own = await rows({ token: userJwt(project) })
  assertDataError(own, 'unauthorized')
  assert.match(own.body.message, /needs a key of the project/)
  assertDataError(await rows({ token: userJwt(project, { exp: 1 }) }), 'PGRST303')
  assert.deepEqual(
    seen(await rows({ token: userJwt(project) }, other.id)),
    seen(await rows({ token: userJwt(project) }, someId)),
  )
})

test('Clarifications: a token of the management API gets an answer that says so, for every project', async () => {
  const pat = await mintToken(it, 'admin')
  const session = await sessionOf(it, await createUser(it))
  const replies: Reply[] = []
  for (const token of [it.adminToken, pat.token, `platform_pat_${unique('x')}`, session])
    for (const id of [project.id, someId])
      for (const options of [{ token }, { apikey: token }, { apikey: project.anon_key, token }])
        for (const path of [shapes.native(id), `/v1/whoami/${id}`])
          replies.push(await it.call('GET', path, options))
  for (const reply of replies) {
    assertDataError(reply, 'unauthorized')
    assert.match(reply.body.message, /token of the management API/)
    assert.deepEqual(seen(reply), seen(replies[0]!))
  }
})

test('1 §5.1 the other services say what is wrong in their own format', async () => {
  const services = {
    auth: `/v1/auth/${project.id}/user`,
    storage: `/v1/storage/${project.id}/bucket`,
    whoami: `/v1/whoami/${project.id}`,
  }
  const apikey = project.anon_key
  const cases: [CallOptions, RegExp][] = [
    [{}, /No credential/],
    [{ apikey: 'wrong' }, /Unknown project or key/],
    [{ apikey, token: userJwt(project, { exp: 1 }) }, /JWT expired/],
    [{ apikey, token: 'x' }, /Expected 3 parts in JWT/],
    [{ apikey, token: it.adminToken }, /token of the management API/],
    [{ token: userJwt(project) }, /needs a key of the project/],
  ]
  for (const [name, path] of Object.entries(services))
    for (const [options, message] of cases) {
      const { status, body, text } = await it.call('GET', path, options)
      assert.equal(status, 401, `${name}: ${text}`)
      assert.match(body.message, message, name)
    }
})

test('3 §5 the management API says which credential it does not accept', async () => {
  const ended = await sessionOf(it, await createUser(it))
  const user = await createUser(it)
  const gone = await sessionOf(it, user)
  assert.ok((await it.manage('DELETE', `/admin/users/${user.id}`)).status < 300)
  const cases: [CallOptions, RegExp][] = [
    [{}, /No credential was sent/],
    [{ token: project.anon_key }, /accepts no keys and no user tokens of projects/],
    [{ token: project.service_role_key }, /accepts no keys and no user tokens of projects/],
    [{ token: userJwt(project) }, /accepts no keys and no user tokens of projects/],
    [{ token: `${ended}x` }, /accepts no keys and no user tokens of projects/],
    [{ apikey: project.service_role_key }, /does not read the header apikey/],
    [{ token: 'platform_pat_unknown' }, /unknown, revoked or expired/],
    [{ token: gone }, /session has ended/],
    [{ token: 'wrong' }, /Unknown credential/],
  ]
  for (const [options, message] of cases)
    assertManagementError(await it.call('GET', '/api/v1/projects', options), 'unauthorized', message)
})
