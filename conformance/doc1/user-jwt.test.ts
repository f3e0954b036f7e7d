// 1 §2.2 and §5, case 21: valid and invalid user JWTs.
import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { after, before, test } from 'node:test'
import { type CreatedProject, createProject, jwt, nowSeconds, someId, unlimited, userJwt } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let project: CreatedProject
let other: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it, { quotas: unlimited })
  other = await createProject(it, { quotas: unlimited })
})
after(() => it.stop())

const whoami = (token: string) =>
  it.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key, token })
const good = () => ({ sub: someId, role: 'authenticated', exp: nowSeconds() + 3600 })
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

async function assertRefused(tokens: Record<string, string>): Promise<void> {
  for (const [what, token] of Object.entries(tokens)) {
    const reply = await whoami(token)
    assert.equal(reply.status, 401, `${what}: ${reply.status} ${reply.text}`)
    assertDataError(reply, 'unauthorized')
  }
}

function signedWith(key: KeyObject, header: Record<string, unknown>): string {
  const text = `${encode(header)}.${encode(good())}`
  const signature = sign('sha256', Buffer.from(text), key)
  return `${text}.${signature.toString('base64url')}`
}

test('1 §5 an HS256 JWT signed with the project’s secret is valid', async () => {
  const { status, body } = await whoami(userJwt(project))
  assert.equal(status, 200)
  assert.deepEqual(body, { project_id: project.id, role: 'authenticated', user_id: someId })
})

test('1 §5, case 21: unsigned tokens are 401', async () => {
  const payload = encode(good())
  const [header, , signature] = userJwt(project).split('.')
  const unsigned = (alg: unknown) => `${encode({ alg, typ: 'JWT' })}.${payload}`
  await assertRefused({
    none: `${unsigned('none')}.`,
    None: `${unsigned('None')}.`,
    NONE: `${unsigned('NONE')}.`,
    'none with a signature': `${unsigned('none')}.${signature}`,
    'no alg': `${encode({ typ: 'JWT' })}.${payload}.`,
    'empty alg': `${unsigned('')}.`,
    'alg null': `${unsigned(null)}.`,
    'HS256 without signature': `${header}.${payload}.`,
    'two parts': `${header}.${payload}`,
    'four parts': `${userJwt(project)}.x`,
    'signature cut': userJwt(project).slice(0, -4),
    'signature of another payload': `${header}.${payload}.${signature}`.replace(
      payload,
      encode({ ...good(), x: 1 }),
    ),
  })
})

test('1 §5, case 21: another algorithm is 401 for any key', async () => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const publicPem = rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  await assertRefused({
    'RS256 header, HMAC with the secret': jwt(good(), project.jwt_secret, { alg: 'RS256', typ: 'JWT' }),
    'RS256 with a key of our own': signedWith(rsa.privateKey, { alg: 'RS256', typ: 'JWT' }),
    'RS256 naming its own key': signedWith(rsa.privateKey, {
      alg: 'RS256',
      jwk: rsa.publicKey.export({ format: 'jwk' }),
    }),
    'RS256 with x5u and jku': signedWith(rsa.privateKey, {
      alg: 'RS256',
      jku: 'http://127.0.0.1/jwks.json',
      x5u: 'http://127.0.0.1/cert.pem',
    }),
    'HS256 with a public key as secret': jwt(good(), publicPem),
    ES256: signedWith(ec.privateKey, { alg: 'ES256', typ: 'JWT' }),
    HS384: jwt(good(), project.jwt_secret, { alg: 'HS384', typ: 'JWT' }, 'sha384'),
    HS512: jwt(good(), project.jwt_secret, { alg: 'HS512', typ: 'JWT' }, 'sha512'),
    'HS512 header, HS256 signature': jwt(good(), project.jwt_secret, { alg: 'HS512', typ: 'JWT' }),
    'a list of algorithms': jwt(good(), project.jwt_secret, { alg: ['HS256'], typ: 'JWT' }),
  })
})

test('1 §5, case 21: another secret is 401', async () => {
  await assertRefused({
    'another project’s': userJwt(other),
    'the empty one': jwt(good(), ''),
    'the anon key': jwt(good(), project.anon_key),
    'the service_role key': jwt(good(), project.service_role_key),
    'the admin token': jwt(good(), it.adminToken),
    'the project’s id': jwt(good(), project.id),
    'the text undefined': jwt(good(), 'undefined'),
    'the secret in capitals': jwt(good(), project.jwt_secret.toUpperCase()),
    'the secret decoded from base64': jwt(
      good(),
      Buffer.from(project.jwt_secret, 'base64').toString('latin1'),
    ),
    'a secret usual elsewhere': jwt(good(), 'super-secret-jwt-token-with-at-least-32-characters-long'),
  })
})

test('1 §5, case 21: the kid header is ignored', async () => {
  const withKid = (kid: unknown, secret: string) => jwt(good(), secret, { alg: 'HS256', typ: 'JWT', kid })
  await assertRefused({
    '/dev/null': withKid('../../../../../../dev/null', ''),
    '/etc/passwd': withKid('/etc/passwd', 'root'),
    SQL: withKid("x' union select 'known' --", 'known'),
    'other project': withKid(other.id, other.jwt_secret),
  })
  assert.equal((await whoami(withKid('../../dev/null', project.jwt_secret))).status, 200, 'it is ignored')
})

test('1 §5, case 21: exp and nbf are enforced', async () => {
  const claims = (extra: Record<string, unknown>) => userJwt(project, extra)
  await assertRefused({
    'expired an hour ago': claims({ exp: nowSeconds() - 3600 }),
    'expired at the epoch': claims({ exp: 0 }),
    'expired before it': claims({ exp: -1 }),
    'not before an hour from now': claims({ nbf: nowSeconds() + 3600 }),
    'exp that is text': claims({ exp: 'never' }),
    'exp that is a number as text': claims({ exp: String(nowSeconds() + 3600) }),
    'exp that is a list': claims({ exp: [nowSeconds() + 3600] }),
    'exp that is null': claims({ exp: null }),
    'nbf that is text': claims({ nbf: 'now' }),
  })
  assert.equal((await whoami(claims({ nbf: nowSeconds() - 60 }))).status, 200)
})

test('1 §5 the role of a JWT must be anon, authenticated or service_role', async () => {
  for (const role of ['anon', 'authenticated', 'service_role']) {
    const { status, body } = await whoami(userJwt(project, { role }))
    assert.equal(status, 200)
    assert.equal(body.role, role)
  }
  const { role: _, ...withoutRole } = good()
  await assertRefused({
    missing: jwt(withoutRole, project.jwt_secret),
    ...Object.fromEntries(
      [
        '',
        'postgres',
        'Authenticated',
        'authenticated ',
        'admin',
        'super_admin',
        'none',
        'public',
        'root',
        5,
        null,
        true,
        ['authenticated'],
        { a: 1 },
      ].map(role => [JSON.stringify(role), userJwt(project, { role })]),
    ),
  })
})

test('1 §5 a payload that is not an object is 401', async () => {
  await assertRefused(
    Object.fromEntries(
      [null, [], 'authenticated', 5, true].map(payload => [
        JSON.stringify(payload),
        jwt(payload, project.jwt_secret),
      ]),
    ),
  )
})

test('1 §5, case 21: three parts that are not a JWT are 401', async () => {
  await assertRefused({
    dots: '..',
    'empty parts': '.e30.',
    'no base64': '!!!.???.***',
    'no JSON': `${Buffer.from('x').toString('base64url')}.${Buffer.from('y').toString('base64url')}.z`,
    '__proto__ in the header': jwt(good(), 'x', JSON.parse('{"__proto__":{"alg":"none"}}')),
    'many dots': '.'.repeat(2000),
  })
})

test('1 §5, case 21: a token of 1 MB is 4xx, one of 10 KB is valid', async () => {
  const padded = (length: number, secret: string) => jwt({ ...good(), padding: 'x'.repeat(length) }, secret)
  const huge = await whoami(padded(1_000_000, project.jwt_secret))
  assert.ok(huge.status >= 400 && huge.status < 500, `${huge.status}`)
  await assertRefused({ '10 KB with the wrong secret': padded(7000, 'wrong') })
  const large = await whoami(padded(4000, project.jwt_secret))
  assert.equal(large.status, 200, 'metadata makes tokens of a few KB')
  assert.equal((await whoami(userJwt(project))).status, 200, 'the server goes on')
})
