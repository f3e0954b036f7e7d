// signInWithOAuth, signInWithIdToken and identities, with a real OpenID provider.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { Provider, SignInWithIdTokenCredentials } from '@supabase/supabase-js'
import { type IdentityProvider, startIdentityProvider } from '../identity-provider.ts'
import {
  claimsOf,
  granted,
  looksLikeSession,
  looksLikeUser,
  methodsOf,
  refused,
  sessionMissing,
  uuid,
} from './auth-objects.ts'
import { openProviderStage, type ProviderStage } from './auth-provider-stage.ts'
import {
  type Auth,
  canSignIn,
  follow,
  land,
  member,
  password,
  type Stage,
  siteUrl,
  someone,
} from './auth-stage.ts'

const redirectTo = 'https://app.example.com/back?from=there'
const back = 'https://app.example.com/back'

export function providerTests(stage: () => Stage): void {
  let identity: IdentityProvider
  let here: ProviderStage
  before(async () => {
    identity = await startIdentityProvider()
    here = await openProviderStage(stage(), identity)
  })
  after(() => identity?.close())

  /** Starts a sign-in with the provider and answers where the browser ends up. */
  async function signInAt(place: ProviderStage, auth: Auth, name: string, to = redirectTo) {
    const { url } = granted(await auth.signInWithOAuth({ provider: 'google', options: { redirectTo: to } }))
    return place.browse(url, name)
  }

  describe('signInWithOAuth', () => {
    test('sends the browser to the provider with what was asked for', async () => {
      const auth = here.project.connect()
      const { provider, url } = granted(
        await auth.signInWithOAuth({
          provider: 'google',
          options: {
            redirectTo,
            scopes: 'openid email profile',
            queryParams: { login_hint: 'alice', state: 'x' },
          },
        }),
      )
      assert.equal(provider, 'google')
      const { status, place, query } = await follow(url)
      assert.deepEqual([status, place], [302, identity.authorizeUrl])
      assert.partialDeepStrictEqual(query, {
        client_id: here.client.client_id,
        response_type: 'code',
        login_hint: 'alice',
      })
      assert.match(query['state']!, uuid, 'what the protocol reserves is not the caller’s')
      assert.match(query['redirect_uri']!, /\/callback$/)
      for (const scope of ['openid', 'email', 'profile'])
        assert.ok(query['scope']?.split(' ').includes(scope), scope)
    })

    test('brings a newcomer back with a session in the fragment', async () => {
      const auth = here.project.connect()
      const { name, account } = here.account({ picture: 'https://example.com/me.png' })
      const landing = await signInAt(here, auth, name)
      assert.deepEqual([landing.place, landing.query], [back, { from: 'there' }])
      const { access_token, refresh_token, expires_at, provider_token, provider_refresh_token, ...rest } =
        landing.fragment
      assert.deepEqual(rest, { expires_in: '3600', token_type: 'bearer', sb: '' })
      assert.ok(access_token && refresh_token && provider_token)
      assert.ok(provider_refresh_token === undefined || provider_refresh_token.length > 0)
      assert.ok(Number(expires_at) > Date.now() / 1000)
      const { session, user } = await land(auth, landing)
      looksLikeUser(user)
      assert.partialDeepStrictEqual(user, {
        email: account.email,
        role: 'authenticated',
        is_anonymous: false,
      })
      assert.ok(user.email_confirmed_at && user.last_sign_in_at)
      assert.deepEqual(user.app_metadata, { provider: 'google', providers: ['google'] })
      const known = { sub: account.sub, email: account.email, email_verified: true, name: account.name }
      assert.partialDeepStrictEqual(user.user_metadata, known)
      const [only, ...others] = user.identities!
      assert.deepEqual(others, [])
      assert.partialDeepStrictEqual(only, {
        provider: 'google',
        id: account.sub,
        user_id: user.id,
        email: account.email,
      })
      assert.partialDeepStrictEqual(only?.identity_data, known)
      assert.deepEqual(methodsOf(session), ['oauth'])
      assert.equal(claimsOf(session).email, account.email)
    })

    test('knows somebody who comes again, even under another address', async () => {
      const { name, account } = here.account()
      const first = await land(here.project.connect(), await signInAt(here, here.project.connect(), name))
      identity.accounts.set(name, { ...account, email: someone('renamed'), name: 'Another Name' })
      const auth = here.project.connect()
      const second = await land(auth, await signInAt(here, auth, name))
      assert.equal(second.user.id, first.user.id)
      assert.equal(second.user.identities?.length, 1)
      assert.notEqual(claimsOf(second.session).session_id, claimsOf(first.session).session_id)
    })

    test('in the PKCE flow brings a code back, and the exchange the provider’s tokens', async () => {
      const auth = here.project.connect({ flow: 'pkce' })
      const { name, account } = here.account()
      const landing = await signInAt(here, auth, name)
      assert.deepEqual([landing.place, landing.fragment], [back, {}])
      const { code, ...query } = landing.query
      assert.deepEqual(query, { from: 'there' })
      const other = here.project.connect({ flow: 'pkce' })
      granted(await other.signInWithOAuth({ provider: 'google' }))
      refused(await other.exchangeCodeForSession(code!), 400, 'bad_code_verifier')
      const { session, user } = granted(await auth.exchangeCodeForSession(code!))
      looksLikeSession(session)
      assert.ok(session.provider_token)
      assert.equal(user.email, account.email)
      assert.deepEqual(methodsOf(session), ['oauth'])
      const again = here.project.connect({ flow: 'pkce' })
      granted(await again.signInWithOAuth({ provider: 'google' }))
      refused(await again.exchangeCodeForSession(code!), 404, 'flow_state_not_found')
    })

    test('two sign-ins of one client at once do not get in each other’s way', async () => {
      const auth = here.project.connect({ flow: 'pkce', keepsFlowsApart: true })
      const [one, two] = [here.account(), here.account()]
      const start = async () =>
        granted(await auth.signInWithOAuth({ provider: 'google', options: { redirectTo } }))
      const [first, second] = [await start(), await start()]
      for (const [{ url, flowId }, { name, account }] of [
        [first, one],
        [second, two],
      ] as const) {
        const { code, ...query } = (await here.browse(url, name)).query
        assert.deepEqual(query, { from: 'there', sb_flow_id: flowId })
        const { user } = granted(await auth.exchangeCodeForSession(code!, { flowId: flowId! }))
        assert.equal(user.email, account.email)
      }
    })

    test('finds the user by an address the provider has verified', async () => {
      const { project } = here
      const known = await member(project)
      const { name } = here.account({ email: known.email })
      const auth = project.connect()
      const { user } = await land(auth, await signInAt(here, auth, name))
      assert.equal(user.id, known.user.id)
      assert.deepEqual(user.identities?.map(each => each.provider).sort(), ['email', 'google'])
      assert.deepEqual(user.app_metadata.providers?.toSorted(), ['email', 'google'])
      assert.equal(await canSignIn(project, known.email, password), true)
    })

    test('an address the provider has not verified opens nobody’s account', async () => {
      const known = await member(here.project)
      const { name } = here.account({ email: known.email, email_verified: false })
      const landing = await signInAt(here, here.project.connect(), name)
      assert.equal('access_token' in landing.fragment, false)
      assert.ok(landing.fragment['error'])
      const { identities } = granted(await known.auth.getUserIdentities())
      assert.deepEqual(
        identities.map(each => each.provider),
        ['email'],
      )
    })

    test('whoever turns back at the provider comes back with the reason, in both places', async () => {
      const landing = await signInAt(here, here.project.connect(), 'nobody-by-this-name')
      assert.equal(landing.place, back)
      for (const found of [landing.query, landing.fragment]) {
        assert.equal(found['error'], 'access_denied')
        assert.ok(found['error_code'] && found['error_description'])
      }
      assert.equal('access_token' in landing.fragment, false)
    })

    test('comes back to a place the project knows, and to no other', async () => {
      const { name } = here.account()
      const landing = await signInAt(here, here.project.connect(), name, 'https://evil.example.org/')
      assert.equal(landing.place, siteUrl)
    })

    test('a provider that is unknown or not set up is 400 without a redirect', async () => {
      for (const provider of ['discord', 'keycloak', 'nonsense']) {
        const { url } = granted(
          await here.project.connect().signInWithOAuth({ provider: provider as Provider }),
        )
        const reply = await fetch(url, { redirect: 'manual' })
        assert.equal(reply.status, 400, provider)
        const { error_code } = (await reply.json()) as { error_code: string }
        assert.equal(error_code, 'validation_failed', provider)
      }
    })

    test('a banned user, or a newcomer where nobody may sign up, gets no session', async () => {
      const { project } = here
      const { name } = here.account()
      const auth = project.connect()
      const { user } = await land(auth, await signInAt(here, auth, name))
      granted(await project.admin.updateUserById(user.id, { ban_duration: '1h' }))
      const banned = await signInAt(here, project.connect(), name)
      assert.equal(banned.fragment['error_code'], 'user_banned')
      assert.equal('access_token' in banned.fragment, false)
      const closed = await openProviderStage(stage(), identity, { signup_enabled: false })
      const refusal = await signInAt(closed, closed.project.connect(), closed.account().name)
      assert.equal(refusal.fragment['error_code'], 'signup_disabled')
      assert.equal(refusal.query['error_code'], 'signup_disabled')
    })
  })

  describe('linkIdentity and unlinkIdentity', () => {
    const linkUrl = async (auth: Auth) => {
      const options = { redirectTo, skipBrowserRedirect: true }
      const { provider, url } = granted(await auth.linkIdentity({ provider: 'google', options }))
      assert.equal(provider, 'google')
      assert.ok(url.startsWith(identity.authorizeUrl), url)
      return url
    }

    test('add an identity to the user who is signed in, and take it away again', async () => {
      const { auth, user } = await member(here.project)
      const { name, account } = here.account()
      const landing = await here.browse(await linkUrl(auth), name)
      assert.equal(landing.place, back)
      const linked = await land(auth, landing)
      assert.equal(linked.user.id, user.id)
      assert.equal(linked.user.email, user.email)
      const { identities } = granted(await auth.getUserIdentities())
      assert.deepEqual(identities.map(each => each.provider).sort(), ['email', 'google'])
      assert.deepEqual(linked.user.app_metadata.providers?.toSorted(), ['email', 'google'])
      const google = identities.find(each => each.provider === 'google')!
      assert.equal(google.id, account.sub)
      const again = here.project.connect()
      assert.equal((await land(again, await signInAt(here, again, name))).user.id, user.id)

      assert.deepEqual(await auth.unlinkIdentity(google), { data: {}, error: null })
      const left = granted(await auth.getUserIdentities()).identities
      assert.deepEqual(
        left.map(each => each.provider),
        ['email'],
      )
      assert.deepEqual(granted(await auth.getUser()).user.app_metadata['providers'], ['email'])
      refused(await auth.unlinkIdentity(left[0]!), 422, 'single_identity_not_deletable')
      refused(await auth.unlinkIdentity(google), 422, 'identity_not_found')
    })

    test('in the PKCE flow as well', async () => {
      const { auth, user } = await member(here.project, { flow: 'pkce' })
      const { name } = here.account()
      const { query } = await here.browse(await linkUrl(auth), name)
      const exchanged = granted(await auth.exchangeCodeForSession(query['code']!))
      assert.equal(exchanged.user.id, user.id)
      assert.deepEqual(exchanged.user.identities?.map(each => each.provider).sort(), ['email', 'google'])
    })

    test('make somebody anonymous permanent', async () => {
      const auth = here.project.connect()
      const { user: nobody } = granted(await auth.signInAnonymously())
      const { name, account } = here.account()
      const { user } = await land(auth, await here.browse(await linkUrl(auth), name))
      assert.partialDeepStrictEqual(user, { id: nobody?.id, email: account.email, is_anonymous: false })
    })

    test('another user’s identity cannot be added', async () => {
      const { name } = here.account()
      const first = here.project.connect()
      await land(first, await signInAt(here, first, name))
      const { auth } = await member(here.project)
      const landing = await here.browse(await linkUrl(auth), name)
      for (const found of [landing.query, landing.fragment])
        assert.equal(found['error_code'], 'identity_already_exists')
      assert.equal(granted(await auth.getUserIdentities()).identities.length, 1)
    })

    test('another user’s identity cannot be taken away', async () => {
      const { auth } = await member(here.project)
      const victim = await member(here.project)
      const [identity_] = granted(await victim.auth.getUserIdentities()).identities
      const { error } = await auth.unlinkIdentity(identity_!)
      assert.ok(error?.status === 422 || error?.status === 404, `${error?.status}`)
      assert.equal(granted(await victim.auth.getUserIdentities()).identities.length, 1)
    })

    test('are for those who are signed in', async () => {
      const { project } = here
      const linking = await project.connect().linkIdentity({ provider: 'google' })
      assert.deepEqual([linking.error?.status, linking.error?.code], [401, 'no_authorization'])
      sessionMissing({ ...(await project.connect().getUserIdentities()) })
      const [one] = granted(await (await member(project)).auth.getUserIdentities()).identities
      refused(await project.connect().unlinkIdentity(one!), 401, 'no_authorization')
    })
  })

  describe('signInWithIdToken', () => {
    const tokensOf = (name: string, nonce?: string) =>
      identity.tokens(here.client, here.callback, name, nonce)

    test('signs in whom the provider vouches for', async () => {
      const { project } = here
      const { name, account } = here.account()
      const { id_token: token, access_token } = await tokensOf(name)
      const auth = project.connect()
      const { session, user } = granted(
        await auth.signInWithIdToken({ provider: 'google', token, access_token }),
      )
      looksLikeSession(session)
      looksLikeUser(user)
      assert.equal(user.email, account.email)
      assert.deepEqual(user.app_metadata, { provider: 'google', providers: ['google'] })
      assert.equal(user.identities?.[0]?.id, account.sub)
      assert.deepEqual((await auth.getSession()).data.session, session)
      const again = granted(await project.connect().signInWithIdToken(await fresh(name)))
      assert.equal(again.user.id, user.id)
    })
    const fresh = async (name: string): Promise<SignInWithIdTokenCredentials> => {
      const { id_token: token, access_token } = await tokensOf(name)
      return { provider: 'google', token, access_token }
    }

    test('holds a token to the nonce it was asked for with', async () => {
      const { project } = here
      const { name } = here.account()
      const nonce = randomBytes(16).toString('hex')
      const hashed = createHash('sha256').update(nonce).digest('hex')
      const { id_token: token, access_token } = await tokensOf(name, hashed)
      const attempt = (given?: string) =>
        project.connect().signInWithIdToken({
          provider: 'google',
          token,
          access_token,
          ...(given !== undefined && { nonce: given }),
        })
      for (const wrong of [undefined, 'another nonce', hashed]) {
        const { data, error } = await attempt(wrong)
        assert.deepEqual([error?.status, data.session], [400, null], `${wrong}`)
      }
      granted(await attempt(nonce))
    })

    test('refuses tokens of another issuer, for another client, forged or expired', async () => {
      const { project } = here
      const { name, account } = here.account()
      const other = await startIdentityProvider({ accounts: { [name]: account } })
      try {
        const stranger = await other.register(here.callback)
        const elsewhere = await identity.register(here.callback)
        const [head, body] = (await tokensOf(name)).id_token.split('.')
        const tokens = {
          'another issuer': (await other.tokens(stranger, here.callback, name)).id_token,
          'another client': (await identity.tokens(elsewhere, here.callback, name)).id_token,
          'a forged signature': `${head}.${body}.${'A'.repeat(342)}`,
          'no signature': `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`,
          'no token': 'nonsense',
        }
        for (const [what, token] of Object.entries(tokens)) {
          const { data, error } = await project.connect().signInWithIdToken({ provider: 'google', token })
          assert.deepEqual([error?.status, data.session, data.user], [400, null, null], what)
        }
      } finally {
        await other.close()
      }
    })

    test('refuses providers that are not set up', async () => {
      const { id_token: token } = await tokensOf(here.account().name)
      for (const provider of ['apple', 'nonsense']) {
        const { error } = await here.project.connect().signInWithIdToken({ provider, token })
        assert.equal(error?.status, 400, provider)
      }
    })

    test('links with linkIdentity when somebody is signed in', async () => {
      const { auth, user } = await member(here.project)
      const { name } = here.account()
      const linked = granted(await auth.linkIdentity(await fresh(name)))
      looksLikeSession(linked.session)
      assert.equal(linked.user.id, user.id)
      assert.deepEqual(linked.user.identities?.map(each => each.provider).sort(), ['email', 'google'])
      const { auth: second } = await member(here.project)
      const taken = await second.linkIdentity(await fresh(name))
      refused(taken, 422, 'identity_already_exists')
    })
  })
}
