// updateUser: data, password and address of somebody who is signed in.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  claimsOf,
  granted,
  looksLikeSession,
  looksLikeUser,
  refused,
  sessionMissing,
} from './auth-objects.ts'
import { canSignIn, follow, land, member, password, signIn, someone } from './auth-people.ts'
import { type Stage, siteUrl } from './auth-stage.ts'

const fresh = 'a fresh new password'

export function changeTests(stage: () => Stage): void {
  describe('updateUser with data', () => {
    test('merges the keys given, and null removes one', async () => {
      const { open } = stage()
      const { auth, user: before } = await member(open)
      const first = { name: 'Ada', address: { town: 'London', street: 'Square' }, lost: 1 }
      const { user } = granted(await auth.updateUser({ data: first }))
      looksLikeUser(user)
      assert.deepEqual(user.user_metadata, { ...before.user_metadata, ...first })
      assert.notEqual(user.updated_at, before.updated_at)
      const second = { address: { town: 'Turin' }, lost: null, age: 36 }
      const { user: changed } = granted(await auth.updateUser({ data: second }))
      assert.deepEqual(changed.user_metadata, {
        ...before.user_metadata,
        name: 'Ada',
        address: { town: 'Turin' },
        age: 36,
      })
      assert.deepEqual((await auth.getSession()).data.session?.user, changed)
      const { session } = granted(await auth.refreshSession())
      assert.deepEqual(claimsOf(session!).user_metadata, changed.user_metadata)
    })

    test('cannot reach what only an administrator may change', async () => {
      const { open } = stage()
      const { auth, user } = await member(open)
      const app = await auth.updateUser({ app_metadata: { plan: 'gold' } } as object)
      assert.deepEqual([app.error?.status, app.data.user], [403, null])
      await auth.updateUser({ role: 'service_role', aud: 'all', email_confirmed_at: null } as object)
      granted(await auth.updateUser({ data: { role: 'service_role' } }))
      const { user: now } = granted(await auth.getUser())
      assert.partialDeepStrictEqual(now, { role: 'authenticated', aud: 'authenticated' })
      assert.deepEqual(now.app_metadata, user.app_metadata)
      assert.ok(now.email_confirmed_at)
    })

    test('is for those who are signed in', async () => {
      const { open } = stage()
      sessionMissing(await open.connect().updateUser({ data: { a: 1 } }))
      const { status, body } = await open.call('PUT', '/user', { body: { data: { a: 1 } } })
      assert.deepEqual([status, body.error_code], [401, 'no_authorization'])
    })
  })

  describe('updateUser with a password', () => {
    test('ends the other sessions of the user, not this one', async () => {
      const { open } = stage()
      const { auth, email } = await member(open)
      const other = await signIn(open, email)
      granted(await auth.updateUser({ password: fresh }))
      assert.deepEqual(
        [await canSignIn(open, email, password), await canSignIn(open, email, fresh)],
        [false, true],
      )
      granted(await auth.getUser())
      granted(await auth.refreshSession())
      sessionMissing(await other.auth.getUser())
      const { refresh_token } = other.session
      assert.equal((await open.connect().refreshSession({ refresh_token })).error?.status, 400)
    })

    test('the same, a weak or an endless one is refused', async () => {
      const { open } = stage()
      const { auth, email } = await member(open)
      refused(await auth.updateUser({ password }), 422, 'same_password')
      const weak = refused(await auth.updateUser({ password: '12345' }), 422, 'weak_password')
      assert.equal(weak.name, 'AuthWeakPasswordError')
      const endless = await auth.updateUser({ password: 'x'.repeat(73) })
      assert.equal(endless.error?.status, 400)
      assert.equal(await canSignIn(open, email, password), true)
    })

    test('a current password sent along must be right', async () => {
      const { open } = stage()
      const { auth, email } = await member(open)
      const wrong = await auth.updateUser({ password: fresh, current_password: 'wrong password' })
      refused(wrong, 400, 'current_password_invalid')
      granted(await auth.updateUser({ password: fresh, current_password: password }))
      assert.equal(await canSignIn(open, email, fresh), true)
    })
  })

  describe('updateUser with an address', () => {
    test('both addresses must agree, by code, in either order', async () => {
      const { open, mailbox } = stage()
      for (const order of ['old first', 'new first']) {
        const { auth, email, user } = await member(open)
        const next = someone('new')
        const { user: waiting } = granted(await auth.updateUser({ email: next.toUpperCase() }))
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
        assert.partialDeepStrictEqual(granted(await auth.getUser()).user, { email, new_email: next })
        const whole = await auth.verifyOtp({ type: 'email_change', email: second!, token: codes[second!]! })
        const { session, user: changed } = granted(whole)
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

    test('and by link', async () => {
      const { open, mailbox } = stage()
      const { auth, email } = await member(open)
      const next = someone('new')
      granted(await auth.updateUser({ email: next }, { emailRedirectTo: 'https://app.example.com/moved' }))
      const half = await follow((await mailbox.nextLink(email)).link)
      assert.deepEqual([half.status, half.place], [303, 'https://app.example.com/moved'])
      assert.deepEqual(Object.keys(half.fragment).sort(), ['message', 'sb'])
      const whole = await follow((await mailbox.nextLink(next)).link)
      assert.equal(whole.fragment['type'], 'email_change')
      assert.equal((await land(auth, whole)).user.email, next)
    })

    test('in the PKCE flow the second link brings a code', async () => {
      const { open, mailbox } = stage()
      const { auth, email } = await member(open, { flow: 'pkce' })
      const next = someone('new')
      granted(await auth.updateUser({ email: next }))
      const half = await follow((await mailbox.nextLink(email)).link)
      assert.deepEqual([half.status, half.place, half.query['code']], [303, siteUrl, undefined])
      const whole = await follow((await mailbox.nextLink(next)).link)
      const { user } = granted(await auth.exchangeCodeForSession(whole.query['code']!))
      assert.equal(user.email, next)
    })

    test('one address cannot agree twice', async () => {
      const { open, mailbox } = stage()
      const { auth, email } = await member(open)
      const next = someone('new')
      granted(await auth.updateUser({ email: next }))
      const { code } = await mailbox.nextCode(next)
      const verify = () => auth.verifyOtp({ type: 'email_change', email: next, token: code })
      granted(await verify())
      refused(await verify(), 403, 'otp_expired')
      assert.equal(granted(await auth.getUser()).user.email, email)
    })

    test('an address that is taken, or none, is refused', async () => {
      const { open } = stage()
      const { auth } = await member(open)
      const { email: taken } = await member(open)
      refused(await auth.updateUser({ email: taken }), 422, 'email_exists')
      refused(await auth.updateUser({ email: 'ada' }), 400, 'validation_failed')
    })

    test('the same address is no change', async () => {
      const { open } = stage()
      const { auth, email } = await member(open)
      const { user } = granted(await auth.updateUser({ email }))
      assert.equal('new_email' in user, false)
    })
  })
}
