// Access tokens signed with ES256, the public keys for local verification, and the rotation of keys.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient } from '@supabase/supabase-js'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { address, password } from './auth-project.ts'
import { copyData } from './copied-data.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { RawSocket } from './realtime-raw.ts'
import { claimsOf, headerOf, signingProject } from './signing-keys-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

const storedKeys = (id: string) =>
  platform.app.control.rows<{ kid: string; private_key: string | null; valid_until: string | null }>(
    sql`select kid, private_key, valid_until from signing_keys where project_id = ${id} order by created_at`,
  )

test('signing keys: tokens are signed with HS256 by default, and the JWKS is empty', async () => {
  const project = await signingProject(platform, {})
  assert.deepEqual(headerOf(await project.newToken()), { alg: 'HS256', typ: 'JWT' })
  assert.deepEqual(await project.jwks(), [])
  assert.equal((await project.manage('GET', '/auth')).body.jwt_algorithm, 'HS256')
})

test('signing keys: with ES256, the JWKS has the public key of the tokens at both addresses', async () => {
  const project = await signingProject(platform, {})
  const changed = await project.manage('PATCH', '/auth', { jwt_algorithm: 'ES256' })
  assert.equal(changed.body.jwt_algorithm, 'ES256')
  const keys = await project.jwks()
  assert.equal(keys.length, 1)
  const { kid, x, y, ...fixed } = keys[0]!
  assert.deepEqual(fixed, { kty: 'EC', crv: 'P-256', alg: 'ES256', use: 'sig', key_ops: ['verify'] })
  assert.deepEqual(headerOf(await project.newToken()), { alg: 'ES256', kid, typ: 'JWT' })

  const alias = await platform.call('GET', `/v1/${project.id}/auth/v1/.well-known/jwks.json`)
  assert.deepEqual(alias.body, { keys })
  assert.equal(alias.headers.get('cache-control'), 'public, max-age=60')
})

test('signing keys: an unknown algorithm is rejected', async () => {
  const project = await signingProject(platform, {})
  const { status, body } = await project.manage('PATCH', '/auth', { jwt_algorithm: 'RS256' })
  assert.equal(status, 400)
  assert.match(body.error.message, /jwt_algorithm/)
})

test('signing keys: every service accepts an ES256 token', async () => {
  const project = await signingProject(platform)
  const token = await project.newToken()
  const credentials = { apikey: project.anon_key, token }
  const asUser = async (method: string, path: string, body?: unknown) =>
    (
      await platform.call(method, path.replace('*', project.id), {
        ...credentials,
        ...(body ? { body } : {}),
      })
    ).status
  assert.equal(await project.statusWith(token), 200)
  assert.equal(await asUser('GET', '/v1/*/auth/v1/user'), 200)
  assert.equal(await asUser('GET', '/v1/*/rest/v1/'), 200)
  assert.equal(await asUser('GET', '/v1/*/storage/v1/bucket'), 200)
  const socket = await RawSocket.open(platform, project)
  await socket.join('realtime:room', {}, { access_token: token })
  await socket.close()
  const own = await RawSocket.open(platform, project, token)
  await own.settled()
  await own.close()
})

test('signing keys: a token that the project signs with its secret still works beside ES256', async () => {
  const project = await signingProject(platform)
  await project.newToken()
  const token = signJwt({ role: 'authenticated', sub: crypto.randomUUID() }, project.jwt_secret)
  assert.equal(await project.statusWith(token), 200)
})

test('signing keys: supabase-js verifies tokens locally with getClaims', async () => {
  const project = await signingProject(platform)
  const asked: string[] = []
  const client = createClient(`${platform.url}/v1/${project.id}`, project.anon_key, {
    auth: { persistSession: false, autoRefreshToken: false },
    global: {
      fetch: (input, init) => {
        asked.push(new URL(String(input)).pathname.split('/auth/v1')[1]!)
        return fetch(input, init)
      },
    },
  })
  const email = address()
  await client.auth.signUp({ email, password })
  const first = await client.auth.getClaims()
  assert.equal(first.error, null)
  assert.equal(first.data?.claims.email, email)
  assert.deepEqual(asked, ['/signup', '/.well-known/jwks.json'])

  await project.rotate()
  await client.auth.refreshSession()
  assert.notEqual((await client.auth.getClaims()).data?.header.kid, first.data?.header.kid)
  assert.equal(asked.includes('/user'), false)

  const token = (await client.auth.getSession()).data.session!.access_token
  const [head, , signature] = token.split('.')
  const payload = Buffer.from(JSON.stringify({ ...claimsOf(token), role: 'service_role' })).toString(
    'base64url',
  )
  const forged = await client.auth.getClaims(`${head}.${payload}.${signature}`)
  assert.equal(forged.error?.name, 'AuthInvalidJwtError')
})

test('signing keys: another JWT library verifies tokens with the JWKS', async () => {
  const project = await signingProject(platform)
  const issuer = `${platform.url}/v1/${project.id}/auth/v1`
  const keys = createRemoteJWKSet(new URL(`${issuer}/.well-known/jwks.json`))
  const token = await project.newToken()
  const expected = { issuer, audience: 'authenticated', algorithms: ['ES256'] }
  assert.deepEqual((await jwtVerify(token, keys, expected)).payload, claimsOf(token))
})

test('signing keys: a rotation signs with a new key at once, and the former key stays valid', async () => {
  const project = await signingProject(platform)
  const before = await project.newToken()
  const rotated = await project.rotate()
  const after = await project.newToken()
  assert.equal(headerOf(after).kid, rotated.kid)
  assert.equal(rotated.algorithm, 'ES256')
  assert.deepEqual(
    rotated.former.map(({ kid }: { kid: string }) => kid),
    [headerOf(before).kid],
  )
  assert.deepEqual(
    (await project.jwks()).map(({ kid }) => kid),
    [rotated.kid, headerOf(before).kid],
  )
  assert.deepEqual([await project.statusWith(before), await project.statusWith(after)], [200, 200])
})

test('signing keys: a former key is valid until the last token it signed has expired', async () => {
  const project = await signingProject(platform, {
    jwt_algorithm: 'ES256',
    session_duration_seconds: 60,
  })
  await project.newToken()
  await project.manage('PATCH', '/auth', { session_duration_seconds: 86_400 })
  const { exp } = claimsOf(await project.newToken())
  await project.manage('PATCH', '/auth', { session_duration_seconds: 60 })
  const first = await project.rotate()
  assert.ok(Date.parse(first.former[0].valid_until) >= exp * 1000)
  await project.newToken()
  const second = await project.rotate()
  const [newest] = second.former.filter(({ kid }: { kid: string }) => kid === first.kid)
  assert.ok(Date.parse(newest.valid_until) < exp * 1000, 'the second key signed only short tokens')
})

test('signing keys: a key whose time is over verifies nothing, and the next change deletes it', async () => {
  const project = await signingProject(platform)
  const token = await project.newToken()
  await project.rotate()
  await platform.app.control.run(
    sql`update signing_keys set valid_until = now() where project_id = ${project.id} and valid_until is not null`,
  )
  platform.app.directory.forget(project.id)
  assert.equal((await project.jwks()).length, 1)
  assert.equal(await project.statusWith(token), 401)
  assert.equal((await project.rotate()).former.length, 1)
  assert.equal((await storedKeys(project.id)).length, 2)
})

test('signing keys: a project with HS256 has nothing to rotate', async () => {
  const project = await signingProject(platform, {})
  const { status, body } = await project.manage('POST', '/auth/signing-keys/rotate')
  assert.equal(status, 409)
  assert.equal(body.error.code, 'asymmetric_signing_disabled')
  assert.deepEqual(await storedKeys(project.id), [])
})

test('signing keys: a rotation needs admin scope and leaves an audit entry without key material', async () => {
  const project = await signingProject(platform)
  await project.newToken()
  const { token } = await platform.platform.mintToken({ body: { name: 'deployer', scope: 'deploy' } })
  const path = `/api/v1/projects/${project.id}/auth/signing-keys/rotate`
  assert.equal((await platform.call('POST', path, { token })).status, 403)
  assert.equal((await platform.call('POST', path, { token: project.service_role_key })).status, 401)
  await project.rotate()
  const entries = await platform.app.control.rows<{ action: string; text: string }>(sql`
    select action, audit::text as text from audit
     where project_id = ${project.id} and action = 'auth.signing_key_rotated'`)
  assert.equal(entries.length, 1)
  for (const { x, y } of await project.jwks()) {
    assert.ok(!entries[0]!.text.includes(String(x)))
    assert.ok(!entries[0]!.text.includes(String(y)))
  }
})

test('signing keys: rotate/jwt invalidates the tokens of all keys', async () => {
  const project = await signingProject(platform)
  const oldest = await project.newToken()
  await project.rotate()
  const newest = await project.newToken()
  await platform.projects.rotateJwtSecret({ params: { id: project.id } })
  assert.deepEqual(await project.jwks(), [])
  assert.deepEqual([await project.statusWith(oldest), await project.statusWith(newest)], [401, 401])
  const renewed = await project.newToken()
  assert.equal(await project.statusWith(renewed), 200)
  assert.deepEqual(
    (await project.jwks()).map(({ kid }) => kid),
    [headerOf(renewed).kid],
  )
})

test('signing keys: after a change back to HS256, ES256 tokens stay valid until they expire', async () => {
  const project = await signingProject(platform)
  const token = await project.newToken()
  await project.manage('PATCH', '/auth', { jwt_algorithm: null })
  assert.equal(headerOf(await project.newToken()).alg, 'HS256')
  assert.equal(await project.statusWith(token), 200)
  assert.equal((await project.jwks())[0]!.kid, headerOf(token).kid)
  assert.notEqual((await storedKeys(project.id))[0]!.valid_until, null)

  await project.manage('PATCH', '/auth', { jwt_algorithm: 'ES256' })
  assert.equal(headerOf(await project.newToken()).kid, headerOf(token).kid)
  assert.equal((await storedKeys(project.id)).length, 1)
})

test('signing keys: a setting changed with the project settings takes effect at the next sign-in', async () => {
  const project = await signingProject(platform)
  await project.newToken()
  await project.manage('PATCH', '', { settings: { auth: { jwt_algorithm: 'HS256' } } })
  assert.equal(headerOf(await project.newToken()).alg, 'HS256')
  assert.notEqual((await storedKeys(project.id))[0]!.valid_until, null)
})

test('signing keys: private keys are stored sealed, and replaced keys have none', async () => {
  const project = await signingProject(platform)
  await project.newToken()
  await project.rotate()
  const [former, active] = await storedKeys(project.id)
  assert.equal(former!.private_key, null)
  assert.match(active!.private_key!, /^sealed:v1:/)
})

test('signing keys: a rotation that fails changes nothing', async () => {
  const project = await signingProject(platform)
  const token = await project.newToken()
  const before = await storedKeys(project.id)
  await platform.asSuperuser(platform.control, session =>
    session.script(`
      create function public.fail() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
      create trigger fail before insert on public.signing_keys for each row execute function public.fail()`),
  )
  try {
    assert.equal((await project.manage('POST', '/auth/signing-keys/rotate')).status, 500)
  } finally {
    await platform.asSuperuser(platform.control, session =>
      session.script('drop trigger fail on public.signing_keys; drop function public.fail()'),
    )
  }
  assert.deepEqual(await storedKeys(project.id), before)
  assert.equal(headerOf(await project.newToken()).kid, headerOf(token).kid)
})

test('signing keys: a project has at most ten replaced keys', async () => {
  const project = await signingProject(platform)
  const token = await project.newToken()
  for (let i = 0; i < 10; i++) await project.rotate()
  const { status, body } = await project.manage('POST', '/auth/signing-keys/rotate')
  assert.equal(status, 409)
  assert.equal(body.error.code, 'too_many_signing_keys')
  assert.equal(await project.statusWith(token), 200)
})

test('signing keys: a copy of a project makes its own key', async () => {
  const [origin, copy] = [await signingProject(platform), await signingProject(platform, {})]
  const token = await origin.newToken()
  await platform.app.control.transaction(session => copyData(platform, session, origin.id, copy.id))
  platform.app.directory.forget(copy.id)
  assert.deepEqual(await copy.jwks(), [])
  const own = await copy.newToken()
  assert.equal(headerOf(own).alg, 'ES256')
  assert.notEqual(headerOf(own).kid, headerOf(token).kid)
  assert.deepEqual([await copy.statusWith(token), await origin.statusWith(own)], [401, 401])
})

test('signing keys: a deleted project leaves no keys', async () => {
  const project = await signingProject(platform)
  await project.newToken()
  await platform.projects.remove({ params: { id: project.id } })
  assert.deepEqual(await storedKeys(project.id), [])
})
