// linkIdentity, unlinkIdentity and getUserIdentities: more than one way in for one user.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { granted, refused, sessionMissing } from './auth-objects.ts'
import { land, member } from './auth-people.ts'
import { back, redirectTo, signInAt, withProvider } from './auth-provider-stage.ts'
import type { Auth } from './auth-shapes.ts'
import type { Stage } from './auth-stage.ts'

export function identityTests(stage: () => Stage): void {
  const here = withProvider(stage)

  describe('linkIdentity and unlinkIdentity', () => {
    const linkUrl = async (auth: Auth) => {
      const options = { redirectTo, skipBrowserRedirect: true }
      const { provider, url } = granted(await auth.linkIdentity({ provider: 'google', options }))
      assert.equal(provider, 'google')
      assert.ok(url.startsWith(here().identity.authorizeUrl), url)
      return url
    }

    test('add an identity to the user who is signed in, and take it away again', async () => {
      const { auth, user } = await member(here().project)
      const { name, account } = here().account()
      const landing = await here().browse(await linkUrl(auth), name)
      assert.equal(landing.place, back)
      const linked = await land(auth, landing)
      assert.equal(linked.user.id, user.id)
      assert.equal(linked.user.email, user.email)
      const { identities } = granted(await auth.getUserIdentities())
      assert.deepEqual(identities.map(each => each.provider).sort(), ['email', 'google'])
      assert.deepEqual(linked.user.app_metadata.providers?.toSorted(), ['email', 'google'])
      const google = identities.find(each => each.provider === 'google')!
      assert.equal(google.id, account.sub)
      const again = here().project.connect()
      assert.equal((await land(again, await signInAt(here(), again, name))).user.id, user.id)

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
      const { auth, user } = await member(here().project, { flow: 'pkce' })
      const { name } = here().account()
      const { query } = await here().browse(await linkUrl(auth), name)
      const exchanged = granted(await auth.exchangeCodeForSession(query['code']!))
      assert.equal(exchanged.user.id, user.id)
      assert.deepEqual(exchanged.user.identities?.map(each => each.provider).sort(), ['email', 'google'])
    })

    test('make somebody anonymous permanent', async () => {
      const auth = here().project.connect()
      const { user: nobody } = granted(await auth.signInAnonymously())
      const { name, account } = here().account()
      const { user } = await land(auth, await here().browse(await linkUrl(auth), name))
      assert.partialDeepStrictEqual(user, { id: nobody?.id, email: account.email, is_anonymous: false })
    })

    test('another user’s identity cannot be added', async () => {
      const { name } = here().account()
      const first = here().project.connect()
      await land(first, await signInAt(here(), first, name))
      const { auth } = await member(here().project)
      const landing = await here().browse(await linkUrl(auth), name)
      for (const found of [landing.query, landing.fragment])
        assert.equal(found['error_code'], 'identity_already_exists')
      assert.equal(granted(await auth.getUserIdentities()).identities.length, 1)
    })

    test('another user’s identity cannot be taken away', async () => {
      const { auth } = await member(here().project)
      const victim = await member(here().project)
      const [identity_] = granted(await victim.auth.getUserIdentities()).identities
      const { error } = await auth.unlinkIdentity(identity_!)
      assert.ok(error?.status === 422 || error?.status === 404, `${error?.status}`)
      assert.equal(granted(await victim.auth.getUserIdentities()).identities.length, 1)
    })

    test('are for those who are signed in', async () => {
      const { project } = here()
      const linking = await project.connect().linkIdentity({ provider: 'google' })
      assert.deepEqual([linking.error?.status, linking.error?.code], [401, 'no_authorization'])
      sessionMissing({ ...(await project.connect().getUserIdentities()) })
      const [one] = granted(await (await member(project)).auth.getUserIdentities()).identities
      refused(await project.connect().unlinkIdentity(one!), 401, 'no_authorization')
    })
  })
}
