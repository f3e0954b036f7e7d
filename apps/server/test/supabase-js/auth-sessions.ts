// getSession, setSession, getUser and getClaims, and sessions ended by the server.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { claimsOf, dataOf, looksLikeSession, looksLikeUser, refused, sessionMissing } from './auth-objects.ts'
import type { AuthProject, Setup } from './auth-setup.ts'
import { inMemory, type Storage } from './auth-shapes.ts'
import { newUser, password, signIn } from './auth-users.ts'

/** The same token, as if issued two hours ago. */
function expired(project: AuthProject, session: { access_token: string }): string {
  const { iat, exp, ...claims } = claimsOf(session)
  return signJwt({ ...claims, iat: iat - 7200, exp: exp - 7200 }, project.jwtSecret)
}

/** Sets the expiry that the client has stored for its access token. */
export function remaining(storage: Storage, seconds: number): void {
  for (const [key, value] of storage.values) {
    const session = JSON.parse(value)
    if (!session?.access_token) continue
    storage.values.set(
      key,
      JSON.stringify({ ...session, expires_at: Math.floor(Date.now() / 1000) + seconds }),
    )
  }
}

export function sessionTests(setup: () => Setup): void {
  describe('getSession', () => {
    test('is empty before sign-in and after sign-out', async () => {
      const { open } = setup()
      const auth = open.connect()
      assert.deepEqual(await auth.getSession(), { data: { session: null }, error: null })
      const { email } = await newUser(open)
      const { session } = dataOf(await auth.signInWithPassword({ email, password }))
      assert.deepEqual((await auth.getSession()).data.session, session)
      assert.equal((await auth.signOut()).error, null)
      assert.deepEqual(await auth.getSession(), { data: { session: null }, error: null })
    })

    test('a later client with the same storage continues the session', async () => {
      const { open } = setup()
      const storage = inMemory()
      const { session, user } = await newUser(open, { storage })
      const later = open.connect({ storage })
      assert.deepEqual(await later.initialize(), { error: null })
      assert.deepEqual((await later.getSession()).data.session, session)
      assert.equal(dataOf(await later.getUser()).user.id, user.id)
    })

    test('refreshes a session that is about to expire', async () => {
      const { open } = setup()
      const storage = inMemory()
      const { auth, session } = await newUser(open, { storage })
      remaining(storage, 30)
      const { data, error } = await auth.getSession()
      assert.equal(error, null)
      looksLikeSession(data.session)
      assert.notEqual(data.session.refresh_token, session.refresh_token)
      assert.equal(claimsOf(data.session).session_id, claimsOf(session).session_id)
    })
  })

  describe('getUser', () => {
    test('returns the current user, by session or by token', async () => {
      const { open } = setup()
      const { auth, session, user } = await newUser(open)
      dataOf(await open.admin.updateUserById(user.id, { user_metadata: { seen: true } }))
      const { user: own } = dataOf(await auth.getUser())
      looksLikeUser(own)
      assert.equal(own.user_metadata['seen'], true)
      const { user: byToken } = dataOf(await open.connect().getUser(session.access_token))
      assert.deepEqual(byToken, own)
    })

    test('a project key is not a user', async () => {
      const { open } = setup()
      const { status, body } = await open.call('GET', '/user', { token: open.anonKey })
      assert.deepEqual([status, body.error_code], [401, 'no_authorization'])
      const bare = await open.call('GET', '/user')
      assert.deepEqual([bare.status, bare.body.error_code], [401, 'no_authorization'])
    })

    test('an invalid, expired or forged token, or one of another project, is refused', async () => {
      const { open, confirming } = setup()
      const { session } = await newUser(open)
      const [head, body] = session.access_token.split('.')
      const tokens: Record<string, string> = {
        garbage: 'nonsense',
        expired: expired(open, session),
        forged: `${head}.${body}.${'A'.repeat(43)}`,
        unsigned: `${Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')}.${body}.`,
        foreign: (await newUser(confirming)).session.access_token,
      }
      for (const [what, token] of Object.entries(tokens)) {
        const { data, error } = await open.connect().getUser(token)
        assert.deepEqual([error?.status, error?.code, data.user], [401, 'bad_jwt', null], what)
      }
    })

    test('banned and deleted users are refused immediately', async () => {
      const { open } = setup()
      const { auth, user } = await newUser(open)
      dataOf(await open.admin.updateUserById(user.id, { ban_duration: '1h' }))
      refused(await auth.getUser(), 403, 'user_banned')
      refused(await auth.updateUser({ data: { a: 1 } }), 403, 'user_banned')
      dataOf(await open.admin.updateUserById(user.id, { ban_duration: 'none' }))
      dataOf(await auth.getUser())
      dataOf(await open.admin.deleteUser(user.id))
      refused(await auth.getUser(), 403, 'user_not_found')
    })

    test('a session ended elsewhere is invalid, and the client removes it', async () => {
      const { open } = setup()
      const { auth, email, session } = await newUser(open)
      const other = await signIn(open, email)
      assert.equal((await other.auth.signOut({ scope: 'others' })).error, null)
      const { status, body } = await open.call('GET', '/user', { token: session.access_token })
      assert.deepEqual([status, body.error_code], [403, 'session_not_found'])
      sessionMissing(await auth.getUser())
      assert.equal((await auth.getSession()).data.session, null)
    })
  })

  describe('an access token on other routes', () => {
    const whoami = (project: AuthProject, token: string) =>
      setup().platform.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anonKey, token })

    test('identifies the user until the session ends', async () => {
      const { open } = setup()
      const { auth, session, user } = await newUser(open)
      const { status, body } = await whoami(open, session.access_token)
      assert.deepEqual([status, body.role, body.user_id], [200, 'authenticated', user.id])
      assert.equal((await auth.signOut()).error, null)
      await soon(async () => assert.equal((await whoami(open, session.access_token)).status, 401))
    })

    test('a ban applies there, too', async () => {
      const { open } = setup()
      const { session, user } = await newUser(open)
      assert.equal((await whoami(open, session.access_token)).status, 200)
      dataOf(await open.admin.updateUserById(user.id, { ban_duration: '1h' }))
      await soon(async () => assert.notEqual((await whoami(open, session.access_token)).status, 200))
    })
  })

  describe('getClaims', () => {
    test('returns the claims after the server has verified the token', async () => {
      const { open } = setup()
      const { auth, session } = await newUser(open)
      const { claims, header, signature } = dataOf(await auth.getClaims())
      assert.deepEqual(claims, claimsOf(session))
      assert.equal(header.typ, 'JWT')
      assert.ok(signature.length > 0)
      const byToken = dataOf(await open.connect().getClaims(session.access_token))
      assert.deepEqual(byToken.claims, claims)
      assert.deepEqual(await open.connect().getClaims(), { data: null, error: null })
    })

    test('refuses an expired, forged or invalid token', async () => {
      const { open } = setup()
      const { session } = await newUser(open)
      const past = await open.connect().getClaims(expired(open, session))
      assert.equal(past.error?.name, 'AuthInvalidJwtError')
      const [head, body] = session.access_token.split('.')
      const forged = await open.connect().getClaims(`${head}.${body}.${'A'.repeat(43)}`)
      refused(forged, 401, 'bad_jwt')
      const nonsense = await open.connect().getClaims('nonsense')
      assert.equal(nonsense.error?.name, 'AuthInvalidJwtError')
    })

    test('the JWKS does not contain the shared secret', async () => {
      const { status, headers, body } = await setup().open.call('GET', '/.well-known/jwks.json')
      assert.equal(status, 200)
      assert.ok(headers.get('content-type')?.startsWith('application/json'))
      assert.ok(Array.isArray(body.keys))
      for (const key of body.keys) assert.ok(key.kty !== 'oct' && !('d' in key) && !('k' in key))
    })
  })

  describe('setSession', () => {
    test('accepts an existing session', async () => {
      const { open } = setup()
      const { session, user } = await newUser(open)
      const auth = open.connect()
      const answer = dataOf(await auth.setSession(session))
      assert.equal(answer.session?.access_token, session.access_token)
      assert.deepEqual(answer.user, dataOf(await open.connect().getUser(session.access_token)).user)
      assert.equal(dataOf(await auth.getUser()).user.id, user.id)
    })

    test('refreshes a session with an expired access token', async () => {
      const { open } = setup()
      const { session, user } = await newUser(open)
      const { refresh_token } = session
      const auth = open.connect()
      const answer = dataOf(await auth.setSession({ access_token: expired(open, session), refresh_token }))
      looksLikeSession(answer.session)
      assert.equal(answer.user?.id, user.id)
      assert.notEqual(answer.session.refresh_token, refresh_token)
    })

    test('refuses tokens of other issuers', async () => {
      const { open, confirming } = setup()
      const { session } = await newUser(open)
      const auth = open.connect()
      const stale = { access_token: expired(open, session), refresh_token: 'nosuchtoken1' }
      refused(await auth.setSession(stale), 400, 'refresh_token_not_found')
      const foreign = (await newUser(confirming)).session
      refused(await auth.setSession(foreign), 401, 'bad_jwt')
      sessionMissing(await auth.setSession({ access_token: '', refresh_token: '' }))
      assert.equal((await auth.getSession()).data.session, null)
    })
  })

  describe('throwOnError', () => {
    test('the client throws the error that it would return', async () => {
      const auth = setup().open.connect({ throwOnError: true })
      assert.equal(auth.isThrowOnErrorEnabled(), true)
      assert.equal(setup().open.connect().isThrowOnErrorEnabled(), false)
      await assert.rejects(auth.signInWithPassword({ email: 'nobody@example.com', password }), {
        name: 'AuthApiError',
        status: 400,
        code: 'invalid_credentials',
      })
    })
  })
}

/** Polls until the condition holds, because other routes cache revocations for a moment. */
async function soon(claim: () => Promise<void>): Promise<void> {
  for (const deadline = Date.now() + 120_000; ; await sleep(50)) {
    try {
      return await claim()
    } catch (error) {
      if (Date.now() > deadline) throw error
    }
  }
}
