// signInAnonymously, and making an anonymous user permanent.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { claimsOf, dataOf, looksLikeSession, methodsOf, refused } from './auth-objects.ts'
import type { Setup } from './auth-setup.ts'
import { canSignIn, newAddress, newUser, password } from './auth-users.ts'

export function anonymousTests(setup: () => Setup): void {
  describe('signInAnonymously', () => {
    test('creates a user without address, identity or provider, with the given data', async () => {
      for (const project of [setup().open, setup().confirming]) {
        const auth = project.connect()
        const answer = await auth.signInAnonymously({ options: { data: { theme: 'dark' } } })
        const { session, user } = dataOf(answer)
        looksLikeSession(session)
        assert.partialDeepStrictEqual(user, {
          role: 'authenticated',
          email: '',
          phone: '',
          is_anonymous: true,
        })
        assert.deepEqual(
          [user?.app_metadata, user?.user_metadata, user?.identities],
          [{}, { theme: 'dark' }, []],
        )
        const claims = claimsOf(session)
        assert.partialDeepStrictEqual(claims, { role: 'authenticated', is_anonymous: true, email: '' })
        assert.deepEqual(methodsOf(session), ['anonymous'])
        const { user: seen } = dataOf(await auth.getUser())
        assert.equal(seen?.id, user?.id)
        assert.equal(seen?.is_anonymous, true)
      }
    })

    test('each call creates a new user, and a refresh keeps the user', async () => {
      const { open } = setup()
      const [one, two] = [open.connect(), open.connect()]
      const first = dataOf(await one.signInAnonymously()).user!
      const second = dataOf(await two.signInAnonymously()).user!
      assert.notEqual(first.id, second.id)
      const { user, session } = dataOf(await one.refreshSession())
      assert.equal(user?.id, first.id)
      assert.equal(claimsOf(session!).is_anonymous, true)
    })

    test('is refused if it is disabled', async () => {
      const named = await setup().project({ anonymous_enabled: false })
      refused(await named.connect().signInAnonymously(), 422, 'anonymous_provider_disabled')
      dataOf(await named.connect().signUp({ email: newAddress(), password }))
    })

    test('with auto_confirm an address makes the user permanent immediately', async () => {
      const { open } = setup()
      const auth = open.connect()
      const { user: nobody } = dataOf(await auth.signInAnonymously({ options: { data: { theme: 'dark' } } }))
      const email = newAddress()
      const { user } = dataOf(await auth.updateUser({ email }))
      assert.partialDeepStrictEqual(user, { id: nobody?.id, email, is_anonymous: false })
      assert.ok(user?.email_confirmed_at)
      assert.equal('new_email' in user, false)
      assert.deepEqual(user.app_metadata, { provider: 'email', providers: ['email'] })
      assert.equal(user.user_metadata['theme'], 'dark')
      assert.deepEqual(
        user.identities?.map(({ provider, id }) => [provider, id]),
        [['email', user.id]],
      )
      const { session } = dataOf(await auth.refreshSession())
      assert.partialDeepStrictEqual(claimsOf(session!), { is_anonymous: false, email })
      dataOf(await auth.updateUser({ password }))
      assert.equal(await canSignIn(open, email, password), true)
    })

    test('address and password can be set together', async () => {
      const { open } = setup()
      const auth = open.connect()
      dataOf(await auth.signInAnonymously())
      const email = newAddress()
      const { user } = dataOf(await auth.updateUser({ email, password }))
      assert.equal(user?.is_anonymous, false)
      assert.equal(await canSignIn(open, email, password), true)
    })

    test('without auto_confirm the user is permanent after confirming the address', async () => {
      const { confirming, mailbox } = setup()
      const auth = confirming.connect()
      const { user: nobody } = dataOf(await auth.signInAnonymously())
      const email = newAddress()
      const { user: waiting } = dataOf(await auth.updateUser({ email }))
      assert.partialDeepStrictEqual(waiting, { email: '', new_email: email, is_anonymous: true })
      const { code } = await mailbox.nextCode(email)
      const { user, session } = dataOf(await auth.verifyOtp({ type: 'email_change', email, token: code }))
      looksLikeSession(session)
      assert.partialDeepStrictEqual(user, { id: nobody?.id, email, is_anonymous: false })
      assert.ok(user?.email_confirmed_at)
      assert.equal('new_email' in user, false)
      assert.equal(claimsOf(session).is_anonymous, false)
      dataOf(await auth.updateUser({ password }))
      assert.equal(await canSignIn(confirming, email, password), true)
    })

    test('a password alone, or an address of another user, is refused', async () => {
      const { open } = setup()
      const auth = open.connect()
      dataOf(await auth.signInAnonymously())
      const alone = await auth.updateUser({ password })
      assert.deepEqual([alone.error?.status, alone.data.user], [422, null])
      const { email } = await newUser(open)
      refused(await auth.updateUser({ email }), 422, 'email_exists')
      assert.equal(dataOf(await auth.getUser()).user?.is_anonymous, true)
    })
  })
}
