// 1 §5, auth contract §3, §5 and case 21: forged, stolen and foreign access tokens.
import assert from 'node:assert/strict'
import { generateKeyPairSync, sign } from 'node:crypto'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertRefused,
  authProject,
  authRoot,
  claimsOf,
  type SignedIn,
  succeeded,
} from '../auth.ts'
import { jwt, nowSeconds, someId } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let other: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  other = await authProject(it)
})
after(() => it.stop())

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** All kinds of forged tokens, made from a valid one. */
function forgeries({ token }: SignedIn): Record<string, string> {
  const good = claimsOf(token)
  const { jwt_secret: secret } = auth.project
  const [header = '', payload = '', signature = ''] = token.split('.')
  const { role: _role, ...withoutRole } = good
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const publicPem = rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const byRsa = (head: Record<string, unknown>) => {
    const text = `${encode(head)}.${payload}`
    return `${text}.${sign('sha256', Buffer.from(text), rsa.privateKey).toString('base64url')}`
  }
  const withKid = (kid: string, key: string) => jwt(good, key, { alg: 'HS256', typ: 'JWT', kid })
  return {
    'alg none': `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.`,
    'alg NonE, with the signature': `${encode({ alg: 'NonE', typ: 'JWT' })}.${payload}.${signature}`,
    'no signature': `${header}.${payload}.`,
    'two parts': `${header}.${payload}`,
    'RS256 with a key of the attacker': byRsa({ alg: 'RS256', typ: 'JWT' }),
    'RS256 naming the key': byRsa({ alg: 'RS256', jwk: rsa.publicKey.export({ format: 'jwk' }) }),
    'RS256 in name, HMAC with the secret': jwt(good, secret, { alg: 'RS256', typ: 'JWT' }),
    'HS256 with a public key as secret': jwt(good, publicPem),
    HS512: jwt(good, secret, { alg: 'HS512', typ: 'JWT' }, 'sha512'),
    'the secret of another project': jwt(good, other.project.jwt_secret),
    'an empty secret': jwt(good, ''),
    'the anon key as secret': jwt(good, auth.project.anon_key),
    expired: jwt({ ...good, exp: nowSeconds() - 1 }, secret),
    'exp as a string': jwt({ ...good, exp: String(nowSeconds() + 60) }, secret),
    'not yet valid': jwt({ ...good, nbf: nowSeconds() + 3600 }, secret),
    'without a role': jwt(withoutRole, secret),
    'an unknown role': jwt({ ...good, role: 'postgres' }, secret),
    'kid with the path of an empty file': withKid('../../../../../../dev/null', ''),
    'kid with SQL': withKid("x' union select 'known' --", 'known'),
    'a replaced payload': `${header}.${encode({ ...good, role: 'service_role' })}.${signature}`,
    'a replaced header': `${encode({ alg: 'HS256' })}.${payload}.${signature}`,
    'only dots': '..',
  }
}

test('case 21: a forged token is 401 on rows, in both shapes of the URL', async () => {
  await auth.sql('create table public.diary (id int primary key)')
  const user = await auth.signUp()
  const { anon_key: apikey, id } = auth.project
  const paths = [`/v1/rest/${id}/diary`, `/v1/${id}/rest/v1/diary`]
  for (const path of paths) {
    succeeded(await it.call('GET', path, { apikey, token: user.token }))
    for (const [what, token] of Object.entries(forgeries(user))) {
      const reply = await it.call('GET', path, { apikey, token })
      assert.equal(reply.status, 401, `${path} ${what}: ${reply.status} ${reply.text}`)
    }
  }
})

test('case 21: a forged token is refused on all auth routes', async () => {
  const user = await auth.signUp()
  const factor = succeeded(await auth.post('/factors', { factor_type: 'totp' }, user)).id
  const routes: [method: string, path: string, body?: unknown][] = [
    ['GET', '/user'],
    ['PUT', '/user', { data: { forged: true } }],
    ['POST', '/logout'],
    ['GET', '/reauthenticate'],
    ['POST', '/factors', { factor_type: 'totp' }],
    ['DELETE', `/factors/${factor}`],
    ['GET', '/admin/users'],
    ['DELETE', `/admin/users/${user.id}`, {}],
  ]
  for (const [what, token] of Object.entries(forgeries(user)))
    for (const [method, path, body] of routes)
      assertRefused(
        await auth.ask(method, path, { token, body }),
        401,
        'bad_jwt',
        `${what}: ${method} ${path}`,
      )
  const now = succeeded(await auth.get('/user', user))
  assert.equal(now.user_metadata.forged, undefined)
  assert.equal(now.factors.length, 1)
})

test('case 21: native routes check tokens the same way', async () => {
  const user = await auth.signUp()
  for (const [what, token] of Object.entries(forgeries(user)))
    for (const [method, path] of [
      ['GET', '/session'],
      ['POST', '/sign-out'],
    ] as const)
      assertRefused(
        await auth.ask(method, path, { token, shape: 'native' }),
        401,
        'bad_jwt',
        `${what}: ${path}`,
      )
  succeeded(await auth.get('/session', { ...user, shape: 'native' }))
})

test('case 21: a token of 1 MB is 4xx, and the server keeps running', async () => {
  const user = await auth.signUp()
  const huge = jwt({ ...claimsOf(user.token), padding: 'x'.repeat(1_000_000) }, auth.project.jwt_secret)
  for (const path of [`${authRoot(auth.project)}/user`, `/v1/rest/${auth.project.id}/diary`]) {
    const { status } = await it.call('GET', path, { apikey: auth.project.anon_key, token: huge })
    assert.ok(status >= 400 && status < 500, `${path}: ${status}`)
  }
  succeeded(await auth.get('/user', user))
})

test('case 1 and 21: a token is valid in its project only', async () => {
  const user = await auth.signUp()
  assertRefused(await other.get('/user', user), 401, 'bad_jwt')
  const reply = await it.call('GET', `${authRoot(auth.project)}/user`, {
    apikey: other.project.anon_key,
    token: user.token,
  })
  assert.equal(reply.status, 401, reply.text)
})

test('1 §5 a token is read only from its header, together with a key', async () => {
  const { token } = await auth.signUp()
  const path = `${authRoot(auth.project)}/user`
  const { anon_key: apikey } = auth.project
  const ways: Record<string, Parameters<Target['call']>[2]> = {
    'without a key': { token },
    'as the key': { apikey: token },
    'as the key and itself': { apikey: token, token },
    'with another scheme': { apikey, headers: { authorization: `Basic ${token}` } },
    twice: { apikey, headers: { authorization: `Bearer ${token} ${token}` } },
    'without a scheme': { apikey, headers: { authorization: token } },
    'in a cookie': { apikey, headers: { cookie: `sb-access-token=${token}; access_token=${token}` } },
  }
  for (const [what, options] of Object.entries(ways))
    assert.equal((await it.call('GET', path, options)).status, 401, what)
  const inQuery = await it.call('GET', `${path}?access_token=${token}&token=${token}`, { apikey })
  assert.equal(inQuery.status, 401, 'in the query')
  assert.equal((await it.call('GET', path, { apikey, token })).status, 200)
})

test('auth §3 a self-signed token still needs an existing user and session', async () => {
  const user = await auth.signUp()
  const neighbour = await auth.signUp()
  const { jwt_secret: secret } = auth.project
  const good = claimsOf(user.token)
  const { session_id: _session, ...withoutSession } = good
  const { sub: _sub, ...withoutSub } = good
  const read = (claims: object) => auth.get('/user', { token: jwt(claims, secret) })
  succeeded(await read(good))
  assertRefused(await read(withoutSession), 403, 'session_not_found')
  assertRefused(await read({ ...good, session_id: someId }), 403, 'session_not_found')
  assertRefused(await read({ ...good, session_id: neighbour.sessionId }), 403, 'session_not_found')
  assertRefused(await read({ ...good, session_id: 'nonsense' }), 403, 'session_not_found')
  assertRefused(await read({ ...good, sub: someId }), 403, 'user_not_found')
  assertRefused(await read({ ...good, sub: neighbour.id }), 403, 'session_not_found')
  assertRefused(await read({ ...good, sub: "' or true --" }), 403, 'user_not_found')
  assertRefused(await read(withoutSub), 403, 'user_not_found')
})
