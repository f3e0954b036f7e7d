// Holding a session: getSession, setSession, getUser, getClaims, and what ends one from outside.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import {
  claimsOf,
  granted,
  looksLikeSession,
  looksLikeUser,
  refused,
  sessionMissing,
} from './auth-objects.ts'
import { member, password, signIn } from './auth-people.ts'
import { inMemory, type Storage } from './auth-shapes.ts'
import type { AuthProject, Stage } from './auth-stage.ts'

/** The same token, had it been issued two hours ago. */
function expired(project: AuthProject, session: { access_token: string }): string {
  const { iat, exp, ...claims } = claimsOf(session)
  return signJwt({ ...claims, iat: iat - 7200, exp: exp - 7200 }, project.jwtSecret)
}

/** Makes the client believe that its access token lasts this long. */
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

export function sessionTests(stage: () => Stage): void {
  describe('getSession', () => {
    test('is empty before, the session after, and empty again', async () => {
      const { open } = stage()
      const auth = open.connect()
      assert.deepEqual(await auth.getSession(), { data: { session: null }, error: null })
      const { email } = await member(open)
      const { session } = granted(await auth.signInWithPassword({ email, password }))
      assert.deepEqual((await auth.getSession()).data.session, session)
      assert.equal((await auth.signOut()).error, null)
      assert.deepEqual(await auth.getSession(), { data: { session: null }, error: null })
    })

    test('a client opened later on the same storage goes on where the other stopped', async () => {
      const { open } = stage()
      const storage = inMemory()
      const { session, user } = await member(open, { storage })
      const later = open.connect({ storage })
      assert.deepEqual(await later.initialize(), { error: null })
      assert.deepEqual((await later.getSession()).data.session, session)
      assert.equal(granted(await later.getUser()).user.id, user.id)
    })

    test('refreshes a session that is about to end', async () => {
      const { open } = stage()
      const storage = inMemory()
      const { auth, session } = await member(open, { storage })
      remaining(storage, 30)
      const { data, error } = await auth.getSession()
      assert.equal(error, null)
      looksLikeSession(data.session)
      assert.notEqual(data.session.refresh_token, session.refresh_token)
      assert.equal(claimsOf(data.session).session_id, claimsOf(session).session_id)
    })
  })

  describe('getUser', () => {
    test('answers the user as it is now, by session or by token', async () => {
      const { open } = stage()
      const { auth, session, user } = await member(open)
      granted(await open.admin.updateUserById(user.id, { user_metadata: { seen: true } }))
      const { user: own } = granted(await auth.getUser())
      looksLikeUser(own)
      assert.equal(own.user_metadata['seen'], true)
      const { user: byToken } = granted(await open.connect().getUser(session.access_token))
      assert.deepEqual(byToken, own)
    })

    test('a project key is no user', async () => {
      const { open } = stage()
      const { status, body } = await open.call('GET', '/user', { token: open.anonKey })
      assert.deepEqual([status, body.error_code], [401, 'no_authorization'])
      const bare = await open.call('GET', '/user')
      assert.deepEqual([bare.status, bare.body.error_code], [401, 'no_authorization'])
    })

    test('a token that is garbage, expired, forged or another project’s is refused', async () => {
      const { open, careful } = stage()
      const { session } = await member(open)
      const [head, body] = session.access_token.split('.')
      const tokens: Record<string, string> = {
        garbage: 'nonsense',
        expired: expired(open, session),
        forged: `${head}.${body}.${'A'.repeat(43)}`,
        unsigned: `${Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')}.${body}.`,
        foreign: (await member(careful)).session.access_token,
      }
      for (const [what, token] of Object.entries(tokens)) {
        const { data, error } = await open.connect().getUser(token)
        assert.deepEqual([error?.status, error?.code, data.user], [401, 'bad_jwt', null], what)
      }
    })

    test('a banned user is refused at once, a deleted one too', async () => {
      const { open } = stage()
      const { auth, user } = await member(open)
      granted(await open.admin.updateUserById(user.id, { ban_duration: '1h' }))
      refused(await auth.getUser(), 403, 'user_banned')
      refused(await auth.updateUser({ data: { a: 1 } }), 403, 'user_banned')
      granted(await open.admin.updateUserById(user.id, { ban_duration: 'none' }))
      granted(await auth.getUser())
      granted(await open.admin.deleteUser(user.id))
      refused(await auth.getUser(), 403, 'user_not_found')
    })

    test('a session ended elsewhere is gone here, and the client forgets it', async () => {
      const { open } = stage()
      const { auth, email, session } = await member(open)
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
      stage().platform.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anonKey, token })

    test('is the user there, until the session ends', async () => {
      const { open } = stage()
      const { auth, session, user } = await member(open)
      const { status, body } = await whoami(open, session.access_token)
      assert.deepEqual([status, body.role, body.user_id], [200, 'authenticated', user.id])
      assert.equal((await auth.signOut()).error, null)
      await soon(async () => assert.equal((await whoami(open, session.access_token)).status, 401))
    })

    test('a ban counts there too', async () => {
      const { open } = stage()
      const { session, user } = await member(open)
      assert.equal((await whoami(open, session.access_token)).status, 200)
      granted(await open.admin.updateUserById(user.id, { ban_duration: '1h' }))
      await soon(async () => assert.notEqual((await whoami(open, session.access_token)).status, 200))
    })
  })

  describe('getClaims', () => {
    test('answers what the token says once the server has vouched for it', async () => {
      const { open } = stage()
      const { auth, session } = await member(open)
      const { claims, header, signature } = granted(await auth.getClaims())
      assert.deepEqual(claims, claimsOf(session))
      assert.equal(header.typ, 'JWT')
      assert.ok(signature.length > 0)
      const byToken = granted(await open.connect().getClaims(session.access_token))
      assert.deepEqual(byToken.claims, claims)
      assert.deepEqual(await open.connect().getClaims(), { data: null, error: null })
    })

    test('refuses a token that is expired, forged or nonsense', async () => {
      const { open } = stage()
      const { session } = await member(open)
      const past = await open.connect().getClaims(expired(open, session))
      assert.equal(past.error?.name, 'AuthInvalidJwtError')
      const [head, body] = session.access_token.split('.')
      const forged = await open.connect().getClaims(`${head}.${body}.${'A'.repeat(43)}`)
      refused(forged, 401, 'bad_jwt')
      const nonsense = await open.connect().getClaims('nonsense')
      assert.equal(nonsense.error?.name, 'AuthInvalidJwtError')
    })

    test('the published keys hold no secret: a shared one is not published', async () => {
      const { status, headers, body } = await stage().open.call('GET', '/.well-known/jwks.json')
      assert.equal(status, 200)
      assert.ok(headers.get('content-type')?.startsWith('application/json'))
      assert.ok(Array.isArray(body.keys))
      for (const key of body.keys) assert.ok(key.kty !== 'oct' && !('d' in key) && !('k' in key))
    })
  })

  describe('setSession', () => {
    test('takes over a session that lives', async () => {
      const { open } = stage()
      const { session, user } = await member(open)
      const auth = open.connect()
      const answer = granted(await auth.setSession(session))
      assert.equal(answer.session?.access_token, session.access_token)
      assert.deepEqual(answer.user, granted(await open.connect().getUser(session.access_token)).user)
      assert.equal(granted(await auth.getUser()).user.id, user.id)
    })

    test('refreshes one whose access token has expired', async () => {
      const { open } = stage()
      const { session, user } = await member(open)
      const { refresh_token } = session
      const auth = open.connect()
      const answer = granted(await auth.setSession({ access_token: expired(open, session), refresh_token }))
      looksLikeSession(answer.session)
      assert.equal(answer.user?.id, user.id)
      assert.notEqual(answer.session.refresh_token, refresh_token)
    })

    test('refuses tokens that are not ours', async () => {
      const { open, careful } = stage()
      const { session } = await member(open)
      const auth = open.connect()
      const stale = { access_token: expired(open, session), refresh_token: 'nosuchtoken1' }
      refused(await auth.setSession(stale), 400, 'refresh_token_not_found')
      const foreign = (await member(careful)).session
      refused(await auth.setSession(foreign), 401, 'bad_jwt')
      sessionMissing(await auth.setSession({ access_token: '', refresh_token: '' }))
      assert.equal((await auth.getSession()).data.session, null)
    })
  })

  describe('throwOnError', () => {
    test('the client throws what it would have returned', async () => {
      const auth = stage().open.connect({ throwOnError: true })
      assert.equal(auth.isThrowOnErrorEnabled(), true)
      assert.equal(stage().open.connect().isThrowOnErrorEnabled(), false)
      await assert.rejects(auth.signInWithPassword({ email: 'nobody@example.com', password }), {
        name: 'AuthApiError',
        status: 400,
        code: 'invalid_credentials',
      })
    })
  })
}

/** Until it is so: what other routes know of a session may lag a moment. */
async function soon(claim: () => Promise<void>): Promise<void> {
  for (const deadline = Date.now() + 30_000; ; await sleep(50)) {
    try {
      return await claim()
    } catch (error) {
      if (Date.now() > deadline) throw error
    }
  }
}
