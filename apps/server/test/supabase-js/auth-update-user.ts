// updateUser: data, password and address of a signed-in user.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { claimsOf, dataOf, looksLikeSession, looksLikeUser, refused, sessionMissing } from './auth-objects.ts'
import { type Setup, siteUrl } from './auth-setup.ts'
import { applyFragment, canSignIn, follow, newAddress, newUser, password, signIn } from './auth-users.ts'

const fresh = 'a fresh new password'

export function updateUserTests(setup: () => Setup): void {
  describe('updateUser with data', () => {
    test('merges the given keys, and null removes a key', async () => {
      const { open } = setup()
      const { auth, user: before } = await newUser(open)
      const first = { name: 'Ada', address: { town: 'London', street: 'Square' }, lost: 1 }
      const { user } = dataOf(await auth.updateUser({ data: first }))
      looksLikeUser(user)
      assert.deepEqual(user.user_metadata, { ...before.user_metadata, ...first })
      assert.notEqual(user.updated_at, before.updated_at)
      const second = { address: { town: 'Turin' }, lost: null, age: 36 }
      const { user: changed } = dataOf(await auth.updateUser({ data: second }))
      assert.deepEqual(changed.user_metadata, {
        ...before.user_metadata,
        name: 'Ada',
        address: { town: 'Turin' },
        age: 36,
      })
      assert.deepEqual((await auth.getSession()).data.session?.user, changed)
      const { session } = dataOf(await auth.refreshSession())
      assert.deepEqual(claimsOf(session!).user_metadata, changed.user_metadata)
    })

    test('cannot change fields that need an administrator', async () => {
      const { open } = setup()
      const { auth, user } = await newUser(open)
      const app = await auth.updateUser({ app_metadata: { plan: 'gold' } } as object)
      assert.deepEqual([app.error?.status, app.data.user], [403, null])
      await auth.updateUser({ role: 'service_role', aud: 'all', email_confirmed_at: null } as object)
      dataOf(await auth.updateUser({ data: { role: 'service_role' } }))
      const { user: now } = dataOf(await auth.getUser())
      assert.partialDeepStrictEqual(now, { role: 'authenticated', aud: 'authenticated' })
      assert.deepEqual(now.app_metadata, user.app_metadata)
      assert.ok(now.email_confirmed_at)
    })

    test('needs a signed-in user', async () => {
      const { open } = setup()
      sessionMissing(await open.connect().updateUser({ data: { a: 1 } }))
      const { status, body } = await open.call('PUT', '/user', { body: { data: { a: 1 } } })
      assert.deepEqual([status, body.error_code], [401, 'no_authorization'])
    })
  })

  describe('updateUser with a password', () => {
    test('ends all other sessions of the user', async () => {
      const { open } = setup()
      const { auth, email } = await newUser(open)
      const other = await signIn(open, email)
      dataOf(await auth.updateUser({ password: fresh }))
      assert.deepEqual(
        [await canSignIn(open, email, password), await canSignIn(open, email, fresh)],
        [false, true],
      )
      dataOf(await auth.getUser())
      dataOf(await auth.refreshSession())
      sessionMissing(await other.auth.getUser())
      const { refresh_token } = other.session
      assert.equal((await open.connect().refreshSession({ refresh_token })).error?.status, 400)
    })

    test('the same, a weak or a too long password is refused', async () => {
      const { open } = setup()
      const { auth, email } = await newUser(open)
      refused(await auth.updateUser({ password }), 422, 'same_password')
      const weak = refused(await auth.updateUser({ password: '12345' }), 422, 'weak_password')
      assert.equal(weak.name, 'AuthWeakPasswordError')
      const endless = await auth.updateUser({ password: 'x'.repeat(73) })
      assert.equal(endless.error?.status, 400)
      assert.equal(await canSignIn(open, email, password), true)
    })

    test('a given current password must be right', async () => {
      const { open } = setup()
      const { auth, email } = await newUser(open)
      const wrong = await auth.updateUser({ password: fresh, current_password: 'wrong password' })
      refused(wrong, 400, 'current_password_invalid')
      dataOf(await auth.updateUser({ password: fresh, current_password: password }))
      assert.equal(await canSignIn(open, email, fresh), true)
    })
  })

  describe('updateUser with an address', () => {
    test('both addresses must confirm by code, in either order', async () => {
      const { open, mailbox } = setup()
      for (const order of ['old first', 'new first']) {
        const { auth, email, user } = await newUser(open)
        const next = newAddress('new')
        const { user: waiting } = dataOf(await auth.updateUser({ email: next.toUpperCase() }))
        looksLikeUser(waiting)
        assert.partialDeepStrictEqual(waiting, { email, new_email: next })
        assert.ok(waiting.email_change_sent_at)
        const codes = {
          [email]: (await mailbox.nextCode(email)).code,
          [next]: (await mailbox.nextCode(next)).code,
        }
        const [first, second] = order === 'old first' ? [email, next] : [next, email]
        const half = await auth.verifyOtp({ type: 'email_change', email: first!, token: codes[first!]! })
        assert.deepEqual(half, { data: { user: null, session: null }, error: null })
        assert.partialDeepStrictEqual(dataOf(await auth.getUser()).user, { email, new_email: next })
        const whole = await auth.verifyOtp({ type: 'email_change', email: second!, token: codes[second!]! })
        const { session, user: changed } = dataOf(whole)
        looksLikeSession(session)
        assert.partialDeepStrictEqual(changed, { id: user.id, email: next })
        assert.ok(changed && !('new_email' in changed))
        assert.partialDeepStrictEqual(changed.user_metadata, { email: next, email_verified: true })
        assert.partialDeepStrictEqual(changed.identities?.[0], { id: user.id, email: next })
        assert.equal(claimsOf(session).email, next)
        assert.deepEqual(
          [await canSignIn(open, email, password), await canSignIn(open, next, password)],
          [false, true],
        )
      }
    })

    test('both addresses can confirm by link', async () => {
      const { open, mailbox } = setup()
      const { auth, email } = await newUser(open)
      const next = newAddress('new')
      dataOf(await auth.updateUser({ email: next }, { emailRedirectTo: 'https://app.example.com/moved' }))
      const half = await follow((await mailbox.nextLink(email)).link)
      assert.deepEqual([half.status, half.place], [303, 'https://app.example.com/moved'])
      assert.deepEqual(Object.keys(half.fragment).sort(), ['message', 'sb'])
      const whole = await follow((await mailbox.nextLink(next)).link)
      assert.equal(whole.fragment['type'], 'email_change')
      assert.equal((await applyFragment(auth, whole)).user.email, next)
    })

    test('in the PKCE flow the second link returns a code', async () => {
      const { open, mailbox } = setup()
      const { auth, email } = await newUser(open, { flow: 'pkce' })
      const next = newAddress('new')
      dataOf(await auth.updateUser({ email: next }))
      const half = await follow((await mailbox.nextLink(email)).link)
      assert.deepEqual([half.status, half.place, half.query['code']], [303, siteUrl, undefined])
      const whole = await follow((await mailbox.nextLink(next)).link)
      const { user } = dataOf(await auth.exchangeCodeForSession(whole.query['code']!))
      assert.equal(user.email, next)
    })

    test('one address that confirms twice is not enough', async () => {
      const { open, mailbox } = setup()
      const { auth, email } = await newUser(open)
      const next = newAddress('new')
      dataOf(await auth.updateUser({ email: next }))
      const { code } = await mailbox.nextCode(next)
      const verify = () => auth.verifyOtp({ type: 'email_change', email: next, token: code })
      dataOf(await verify())
      refused(await verify(), 403, 'otp_expired')
      assert.equal(dataOf(await auth.getUser()).user.email, email)
    })

    test('a taken or invalid address is refused', async () => {
      const { open } = setup()
      const { auth } = await newUser(open)
      const { email: taken } = await newUser(open)
      refused(await auth.updateUser({ email: taken }), 422, 'email_exists')
      refused(await auth.updateUser({ email: 'ada' }), 400, 'validation_failed')
    })

    test('the same address changes nothing', async () => {
      const { open } = setup()
      const { auth, email } = await newUser(open)
      const { user } = dataOf(await auth.updateUser({ email }))
      assert.equal('new_email' in user, false)
    })
  })
}
