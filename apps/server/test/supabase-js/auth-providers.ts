// signInWithOAuth with a real OpenID provider.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Provider } from '@supabase/supabase-js'
import {
  claimsOf,
  dataOf,
  looksLikeSession,
  looksLikeUser,
  methodsOf,
  refused,
  uuid,
} from './auth-objects.ts'
import { back, openProviderSetup, redirectTo, signInAt, withProvider } from './auth-provider-setup.ts'
import { type Setup, siteUrl } from './auth-setup.ts'
import { applyFragment, canSignIn, follow, newAddress, newUser, password } from './auth-users.ts'

export function providerTests(setup: () => Setup): void {
  const here = withProvider(setup)

  describe('signInWithOAuth', () => {
    test('redirects to the provider with the requested parameters', async () => {
      const auth = here().project.connect()
      const { provider, url } = dataOf(
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
      assert.deepEqual([status, place], [302, here().identity.authorizeUrl])
      assert.partialDeepStrictEqual(query, {
        client_id: here().client.client_id,
        response_type: 'code',
        login_hint: 'alice',
      })
      assert.match(query['state']!, uuid, 'the caller cannot set reserved parameters')
      assert.match(query['redirect_uri']!, /\/callback$/)
      for (const scope of ['openid', 'email', 'profile'])
        assert.ok(query['scope']?.split(' ').includes(scope), scope)
    })

    test('returns a new user with a session in the fragment', async () => {
      const auth = here().project.connect()
      const { name, account } = here().account({ picture: 'https://example.com/me.png' })
      const landing = await signInAt(here(), auth, name)
      assert.deepEqual([landing.place, landing.query], [back, { from: 'there' }])
      const { access_token, refresh_token, expires_at, provider_token, provider_refresh_token, ...rest } =
        landing.fragment
      assert.deepEqual(rest, { expires_in: '3600', token_type: 'bearer', sb: '' })
      assert.ok(access_token && refresh_token && provider_token)
      assert.ok(provider_refresh_token === undefined || provider_refresh_token.length > 0)
      assert.ok(Number(expires_at) > Date.now() / 1000)
      const { session, user } = await applyFragment(auth, landing)
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

    test('recognizes a returning user, also with another address', async () => {
      const { name, account } = here().account()
      const first = await applyFragment(
        here().project.connect(),
        await signInAt(here(), here().project.connect(), name),
      )
      here().identity.accounts.set(name, { ...account, email: newAddress('renamed'), name: 'Another Name' })
      const auth = here().project.connect()
      const second = await applyFragment(auth, await signInAt(here(), auth, name))
      assert.equal(second.user.id, first.user.id)
      assert.equal(second.user.identities?.length, 1)
      assert.notEqual(claimsOf(second.session).session_id, claimsOf(first.session).session_id)
    })

    test('in the PKCE flow returns a code, and the exchange returns the provider’s tokens', async () => {
      const auth = here().project.connect({ flow: 'pkce' })
      const { name, account } = here().account()
      const landing = await signInAt(here(), auth, name)
      assert.deepEqual([landing.place, landing.fragment], [back, {}])
      const { code, ...query } = landing.query
      assert.match(code!, uuid)
      assert.deepEqual(query, { from: 'there' })
      const other = here().project.connect({ flow: 'pkce' })
      dataOf(await other.signInWithOAuth({ provider: 'google' }))
      refused(await other.exchangeCodeForSession(code!), 400, 'bad_code_verifier')
      const { session, user } = dataOf(await auth.exchangeCodeForSession(code!))
      looksLikeSession(session)
      assert.ok(session.provider_token)
      assert.equal(user.email, account.email)
      assert.deepEqual(methodsOf(session), ['oauth'])
      const again = here().project.connect({ flow: 'pkce' })
      dataOf(await again.signInWithOAuth({ provider: 'google' }))
      refused(await again.exchangeCodeForSession(code!), 404, 'flow_state_not_found')
    })

    test('two concurrent sign-ins of one client do not interfere', async () => {
      const auth = here().project.connect({ flow: 'pkce', keepsFlowsApart: true })
      const [one, two] = [here().account(), here().account()]
      const start = async () =>
        dataOf(await auth.signInWithOAuth({ provider: 'google', options: { redirectTo } }))
      const [first, second] = [await start(), await start()]
      for (const [{ url, flowId }, { name, account }] of [
        [first, one],
        [second, two],
      ] as const) {
        const { code, ...query } = (await here().browse(url, name)).query
        assert.deepEqual(query, { from: 'there', sb_flow_id: flowId })
        const { user } = dataOf(await auth.exchangeCodeForSession(code!, { flowId: flowId! }))
        assert.equal(user.email, account.email)
      }
    })

    test('links to the user with the same confirmed and verified address', async () => {
      const { project, setup: place } = here()
      const known = await newUser(project)
      dataOf(await known.auth.signInWithOtp({ email: known.email }))
      const { code: token } = await place.mailbox.nextCode(known.email)
      dataOf(await known.auth.verifyOtp({ type: 'email', email: known.email, token }))
      const { name } = here().account({ email: known.email })
      const auth = project.connect()
      const { user } = await applyFragment(auth, await signInAt(here(), auth, name))
      assert.equal(user.id, known.user.id)
      assert.deepEqual(user.identities?.map(each => each.provider).sort(), ['email', 'google'])
      assert.deepEqual(user.app_metadata.providers?.toSorted(), ['email', 'google'])
      assert.equal(await canSignIn(project, known.email, password), true)
    })

    test('an unconfirmed account is reset when the owner of the address signs in', async () => {
      const { project } = here()
      const claimed = await newUser(project)
      const { name } = here().account({ email: claimed.email })
      const auth = project.connect()
      const { user } = await applyFragment(auth, await signInAt(here(), auth, name))
      assert.equal(user.email, claimed.email)
      assert.deepEqual(
        user.identities?.map(each => each.provider),
        ['google'],
      )
      assert.equal(await canSignIn(project, claimed.email, password), false)
      assert.notEqual((await claimed.auth.getUser()).error, null)
    })

    test('an unverified address does not link to an existing user', async () => {
      const known = await newUser(here().project)
      const { name } = here().account({ email: known.email, email_verified: false })
      const landing = await signInAt(here(), here().project.connect(), name)
      assert.equal('access_token' in landing.fragment, false)
      assert.ok(landing.fragment['error'])
      const { identities } = dataOf(await known.auth.getUserIdentities())
      assert.deepEqual(
        identities.map(each => each.provider),
        ['email'],
      )
    })

    test('a cancelled sign-in returns the error in query and fragment', async () => {
      const landing = await signInAt(here(), here().project.connect(), 'nobody-by-this-name')
      assert.equal(landing.place, back)
      for (const found of [landing.query, landing.fragment]) {
        assert.equal(found['error'], 'access_denied')
        assert.ok(found['error_code'] && found['error_description'])
      }
      assert.equal('access_token' in landing.fragment, false)
    })

    test('redirects only to allowed URLs', async () => {
      const { name } = here().account()
      const landing = await signInAt(here(), here().project.connect(), name, 'https://evil.example.org/')
      assert.equal(landing.place, siteUrl)
    })

    test('an unknown or unconfigured provider is 400 without a redirect', async () => {
      for (const provider of ['discord', 'keycloak', 'nonsense']) {
        const { url } = dataOf(
          await here()
            .project.connect()
            .signInWithOAuth({ provider: provider as Provider }),
        )
        const reply = await fetch(url, { redirect: 'manual' })
        assert.equal(reply.status, 400, provider)
        const { error_code } = (await reply.json()) as { error_code: string }
        assert.equal(error_code, 'validation_failed', provider)
      }
    })

    test('a banned user, or a new user with sign-up disabled, gets no session', async () => {
      const { project } = here()
      const { name } = here().account()
      const auth = project.connect()
      const { user } = await applyFragment(auth, await signInAt(here(), auth, name))
      dataOf(await project.admin.updateUserById(user.id, { ban_duration: '1h' }))
      const banned = await signInAt(here(), project.connect(), name)
      assert.equal(banned.fragment['error_code'], 'user_banned')
      assert.equal('access_token' in banned.fragment, false)
      const closed = await openProviderSetup(setup(), here().identity, { signup_enabled: false })
      const rejected = await signInAt(closed, closed.project.connect(), closed.account().name)
      assert.equal(rejected.fragment['error_code'], 'signup_disabled')
      assert.equal(rejected.query['error_code'], 'signup_disabled')
    })
  })
}
