// linkIdentity, unlinkIdentity and getUserIdentities.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { dataOf, refused, sessionMissing } from './auth-objects.ts'
import { back, redirectTo, signInAt, withProvider } from './auth-provider-setup.ts'
import type { Setup } from './auth-setup.ts'
import type { Auth } from './auth-shapes.ts'
import { applyFragment, newUser } from './auth-users.ts'

export function identityTests(setup: () => Setup): void {
  const here = withProvider(setup)

  describe('linkIdentity and unlinkIdentity', () => {
    const linkUrl = async (auth: Auth) => {
      const options = { redirectTo, skipBrowserRedirect: true }
      const { provider, url } = dataOf(await auth.linkIdentity({ provider: 'google', options }))
      assert.equal(provider, 'google')
      assert.ok(url.startsWith(here().identity.authorizeUrl), url)
      return url
    }

    test('link an identity to the signed-in user and unlink it', async () => {
      const { auth, user } = await newUser(here().project)
      const { name, account } = here().account()
      const landing = await here().browse(await linkUrl(auth), name)
      assert.equal(landing.place, back)
      const linked = await applyFragment(auth, landing)
      assert.equal(linked.user.id, user.id)
      assert.equal(linked.user.email, user.email)
      const { identities } = dataOf(await auth.getUserIdentities())
      assert.deepEqual(identities.map(each => each.provider).sort(), ['email', 'google'])
      assert.deepEqual(linked.user.app_metadata.providers?.toSorted(), ['email', 'google'])
      const google = identities.find(each => each.provider === 'google')!
      assert.equal(google.id, account.sub)
      const again = here().project.connect()
      assert.equal((await applyFragment(again, await signInAt(here(), again, name))).user.id, user.id)

      assert.deepEqual(await auth.unlinkIdentity(google), { data: {}, error: null })
      const left = dataOf(await auth.getUserIdentities()).identities
      assert.deepEqual(
        left.map(each => each.provider),
        ['email'],
      )
      assert.deepEqual(dataOf(await auth.getUser()).user.app_metadata['providers'], ['email'])
      refused(await auth.unlinkIdentity(left[0]!), 422, 'single_identity_not_deletable')
      refused(await auth.unlinkIdentity(google), 422, 'identity_not_found')
    })

    test('work in the PKCE flow', async () => {
      const { auth, user } = await newUser(here().project, { flow: 'pkce' })
      const { name } = here().account()
      const { query } = await here().browse(await linkUrl(auth), name)
      const exchanged = dataOf(await auth.exchangeCodeForSession(query['code']!))
      assert.equal(exchanged.user.id, user.id)
      assert.deepEqual(exchanged.user.identities?.map(each => each.provider).sort(), ['email', 'google'])
    })

    test('make an anonymous user permanent', async () => {
      const auth = here().project.connect()
      const { user: nobody } = dataOf(await auth.signInAnonymously())
      const { name, account } = here().account()
      const { user } = await applyFragment(auth, await here().browse(await linkUrl(auth), name))
      assert.partialDeepStrictEqual(user, { id: nobody?.id, email: account.email, is_anonymous: false })
    })

    test('another user’s identity cannot be linked', async () => {
      const { name } = here().account()
      const first = here().project.connect()
      await applyFragment(first, await signInAt(here(), first, name))
      const { auth } = await newUser(here().project)
      const landing = await here().browse(await linkUrl(auth), name)
      for (const found of [landing.query, landing.fragment])
        assert.equal(found['error_code'], 'identity_already_exists')
      assert.equal(dataOf(await auth.getUserIdentities()).identities.length, 1)
    })

    test('another user’s identity cannot be unlinked', async () => {
      const { auth } = await newUser(here().project)
      const victim = await newUser(here().project)
      const [identity_] = dataOf(await victim.auth.getUserIdentities()).identities
      const { error } = await auth.unlinkIdentity(identity_!)
      assert.ok(error?.status === 422 || error?.status === 404, `${error?.status}`)
      assert.equal(dataOf(await victim.auth.getUserIdentities()).identities.length, 1)
    })

    test('need a signed-in user', async () => {
      const { project } = here()
      const linking = await project.connect().linkIdentity({ provider: 'google' })
      assert.deepEqual([linking.error?.status, linking.error?.code], [401, 'no_authorization'])
      sessionMissing({ ...(await project.connect().getUserIdentities()) })
      const [one] = dataOf(await (await newUser(project)).auth.getUserIdentities()).identities
      refused(await project.connect().unlinkIdentity(one!), 401, 'no_authorization')
    })
  })
}
