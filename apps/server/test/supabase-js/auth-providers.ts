// signInWithOAuth with a real OpenID provider: there, back, and what may go wrong on the way.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Provider } from '@supabase/supabase-js'
import {
  claimsOf,
  granted,
  looksLikeSession,
  looksLikeUser,
  methodsOf,
  refused,
  uuid,
} from './auth-objects.ts'
import { canSignIn, follow, land, member, password, someone } from './auth-people.ts'
import { back, openProviderStage, redirectTo, signInAt, withProvider } from './auth-provider-stage.ts'
import { type Stage, siteUrl } from './auth-stage.ts'

export function providerTests(stage: () => Stage): void {
  const here = withProvider(stage)

  describe('signInWithOAuth', () => {
    test('sends the browser to the provider with what was asked for', async () => {
      const auth = here().project.connect()
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
      assert.deepEqual([status, place], [302, here().identity.authorizeUrl])
      assert.partialDeepStrictEqual(query, {
        client_id: here().client.client_id,
        response_type: 'code',
        login_hint: 'alice',
      })
      assert.match(query['state']!, uuid, 'what the protocol reserves is not the caller’s')
      assert.match(query['redirect_uri']!, /\/callback$/)
      for (const scope of ['openid', 'email', 'profile'])
        assert.ok(query['scope']?.split(' ').includes(scope), scope)
    })

    test('brings a newcomer back with a session in the fragment', async () => {
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
      const { name, account } = here().account()
      const first = await land(
        here().project.connect(),
        await signInAt(here(), here().project.connect(), name),
      )
      here().identity.accounts.set(name, { ...account, email: someone('renamed'), name: 'Another Name' })
      const auth = here().project.connect()
      const second = await land(auth, await signInAt(here(), auth, name))
      assert.equal(second.user.id, first.user.id)
      assert.equal(second.user.identities?.length, 1)
      assert.notEqual(claimsOf(second.session).session_id, claimsOf(first.session).session_id)
    })

    test('in the PKCE flow brings a code back, and the exchange the provider’s tokens', async () => {
      const auth = here().project.connect({ flow: 'pkce' })
      const { name, account } = here().account()
      const landing = await signInAt(here(), auth, name)
      assert.deepEqual([landing.place, landing.fragment], [back, {}])
      const { code, ...query } = landing.query
      assert.match(code!, uuid)
      assert.deepEqual(query, { from: 'there' })
      const other = here().project.connect({ flow: 'pkce' })
      granted(await other.signInWithOAuth({ provider: 'google' }))
      refused(await other.exchangeCodeForSession(code!), 400, 'bad_code_verifier')
      const { session, user } = granted(await auth.exchangeCodeForSession(code!))
      looksLikeSession(session)
      assert.ok(session.provider_token)
      assert.equal(user.email, account.email)
      assert.deepEqual(methodsOf(session), ['oauth'])
      const again = here().project.connect({ flow: 'pkce' })
      granted(await again.signInWithOAuth({ provider: 'google' }))
      refused(await again.exchangeCodeForSession(code!), 404, 'flow_state_not_found')
    })

    test('two sign-ins of one client at once do not get in each other’s way', async () => {
      const auth = here().project.connect({ flow: 'pkce', keepsFlowsApart: true })
      const [one, two] = [here().account(), here().account()]
      const start = async () =>
        granted(await auth.signInWithOAuth({ provider: 'google', options: { redirectTo } }))
      const [first, second] = [await start(), await start()]
      for (const [{ url, flowId }, { name, account }] of [
        [first, one],
        [second, two],
      ] as const) {
        const { code, ...query } = (await here().browse(url, name)).query
        assert.deepEqual(query, { from: 'there', sb_flow_id: flowId })
        const { user } = granted(await auth.exchangeCodeForSession(code!, { flowId: flowId! }))
        assert.equal(user.email, account.email)
      }
    })

    test('finds the user by an address that both the provider and the user have proven', async () => {
      const { project, stage: place } = here()
      const known = await member(project)
      granted(await known.auth.signInWithOtp({ email: known.email }))
      const { code: token } = await place.mailbox.nextCode(known.email)
      granted(await known.auth.verifyOtp({ type: 'email', email: known.email, token }))
      const { name } = here().account({ email: known.email })
      const auth = project.connect()
      const { user } = await land(auth, await signInAt(here(), auth, name))
      assert.equal(user.id, known.user.id)
      assert.deepEqual(user.identities?.map(each => each.provider).sort(), ['email', 'google'])
      assert.deepEqual(user.app_metadata.providers?.toSorted(), ['email', 'google'])
      assert.equal(await canSignIn(project, known.email, password), true)
    })

    test('whoever has signed up with an address they never proved loses it to its owner', async () => {
      const { project } = here()
      const claimed = await member(project)
      const { name } = here().account({ email: claimed.email })
      const auth = project.connect()
      const { user } = await land(auth, await signInAt(here(), auth, name))
      assert.equal(user.email, claimed.email)
      assert.deepEqual(
        user.identities?.map(each => each.provider),
        ['google'],
      )
      assert.equal(await canSignIn(project, claimed.email, password), false)
      assert.notEqual((await claimed.auth.getUser()).error, null)
    })

    test('an address the provider has not verified opens nobody’s account', async () => {
      const known = await member(here().project)
      const { name } = here().account({ email: known.email, email_verified: false })
      const landing = await signInAt(here(), here().project.connect(), name)
      assert.equal('access_token' in landing.fragment, false)
      assert.ok(landing.fragment['error'])
      const { identities } = granted(await known.auth.getUserIdentities())
      assert.deepEqual(
        identities.map(each => each.provider),
        ['email'],
      )
    })

    test('whoever turns back at the provider comes back with the reason, in both places', async () => {
      const landing = await signInAt(here(), here().project.connect(), 'nobody-by-this-name')
      assert.equal(landing.place, back)
      for (const found of [landing.query, landing.fragment]) {
        assert.equal(found['error'], 'access_denied')
        assert.ok(found['error_code'] && found['error_description'])
      }
      assert.equal('access_token' in landing.fragment, false)
    })

    test('comes back to a place the project knows, and to no other', async () => {
      const { name } = here().account()
      const landing = await signInAt(here(), here().project.connect(), name, 'https://evil.example.org/')
      assert.equal(landing.place, siteUrl)
    })

    test('a provider that is unknown or not set up is 400 without a redirect', async () => {
      for (const provider of ['discord', 'keycloak', 'nonsense']) {
        const { url } = granted(
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

    test('a banned user, or a newcomer where nobody may sign up, gets no session', async () => {
      const { project } = here()
      const { name } = here().account()
      const auth = project.connect()
      const { user } = await land(auth, await signInAt(here(), auth, name))
      granted(await project.admin.updateUserById(user.id, { ban_duration: '1h' }))
      const banned = await signInAt(here(), project.connect(), name)
      assert.equal(banned.fragment['error_code'], 'user_banned')
      assert.equal('access_token' in banned.fragment, false)
      const closed = await openProviderStage(stage(), here().identity, { signup_enabled: false })
      const refusal = await signInAt(closed, closed.project.connect(), closed.account().name)
      assert.equal(refusal.fragment['error_code'], 'signup_disabled')
      assert.equal(refusal.query['error_code'], 'signup_disabled')
    })
  })
}
