// signInAnonymously, and how somebody without a name gets one.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { claimsOf, granted, looksLikeSession, methodsOf, refused } from './auth-objects.ts'
import { canSignIn, member, password, someone } from './auth-people.ts'
import type { Stage } from './auth-stage.ts'

export function anonymousTests(stage: () => Stage): void {
  describe('signInAnonymously', () => {
    test('makes a user without address, identity or provider, but with the data given', async () => {
      for (const project of [stage().open, stage().careful]) {
        const auth = project.connect()
        const answer = await auth.signInAnonymously({ options: { data: { theme: 'dark' } } })
        const { session, user } = granted(answer)
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
        const { user: seen } = granted(await auth.getUser())
        assert.equal(seen?.id, user?.id)
        assert.equal(seen?.is_anonymous, true)
      }
    })

    test('everybody is somebody else, and stays who they are when refreshed', async () => {
      const { open } = stage()
      const [one, two] = [open.connect(), open.connect()]
      const first = granted(await one.signInAnonymously()).user!
      const second = granted(await two.signInAnonymously()).user!
      assert.notEqual(first.id, second.id)
      const { user, session } = granted(await one.refreshSession())
      assert.equal(user?.id, first.id)
      assert.equal(claimsOf(session!).is_anonymous, true)
    })

    test('is refused where it is switched off', async () => {
      const named = await stage().project({ anonymous_enabled: false })
      refused(await named.connect().signInAnonymously(), 422, 'anonymous_provider_disabled')
      granted(await named.connect().signUp({ email: someone(), password }))
    })

    test('with an address taken at its word the user is permanent at once', async () => {
      const { open } = stage()
      const auth = open.connect()
      const { user: nobody } = granted(await auth.signInAnonymously({ options: { data: { theme: 'dark' } } }))
      const email = someone()
      const { user } = granted(await auth.updateUser({ email }))
      assert.partialDeepStrictEqual(user, { id: nobody?.id, email, is_anonymous: false })
      assert.ok(user?.email_confirmed_at)
      assert.equal('new_email' in user, false)
      assert.deepEqual(user.app_metadata, { provider: 'email', providers: ['email'] })
      assert.equal(user.user_metadata['theme'], 'dark')
      assert.deepEqual(
        user.identities?.map(({ provider, id }) => [provider, id]),
        [['email', user.id]],
      )
      const { session } = granted(await auth.refreshSession())
      assert.partialDeepStrictEqual(claimsOf(session!), { is_anonymous: false, email })
      granted(await auth.updateUser({ password }))
      assert.equal(await canSignIn(open, email, password), true)
    })

    test('address and password can come together', async () => {
      const { open } = stage()
      const auth = open.connect()
      granted(await auth.signInAnonymously())
      const email = someone()
      const { user } = granted(await auth.updateUser({ email, password }))
      assert.equal(user?.is_anonymous, false)
      assert.equal(await canSignIn(open, email, password), true)
    })

    test('with an address that must be proven the user is permanent after that', async () => {
      const { careful, mailbox } = stage()
      const auth = careful.connect()
      const { user: nobody } = granted(await auth.signInAnonymously())
      const email = someone()
      const { user: waiting } = granted(await auth.updateUser({ email }))
      assert.partialDeepStrictEqual(waiting, { email: '', new_email: email, is_anonymous: true })
      const { code } = await mailbox.nextCode(email)
      const { user, session } = granted(await auth.verifyOtp({ type: 'email_change', email, token: code }))
      looksLikeSession(session)
      assert.partialDeepStrictEqual(user, { id: nobody?.id, email, is_anonymous: false })
      assert.ok(user?.email_confirmed_at)
      assert.equal('new_email' in user, false)
      assert.equal(claimsOf(session).is_anonymous, false)
      granted(await auth.updateUser({ password }))
      assert.equal(await canSignIn(careful, email, password), true)
    })

    test('a password alone, or another’s address, is refused', async () => {
      const { open } = stage()
      const auth = open.connect()
      granted(await auth.signInAnonymously())
      const alone = await auth.updateUser({ password })
      assert.deepEqual([alone.error?.status, alone.data.user], [422, null])
      const { email } = await member(open)
      refused(await auth.updateUser({ email }), 422, 'email_exists')
      assert.equal(granted(await auth.getUser()).user?.is_anonymous, true)
    })
  })
}
