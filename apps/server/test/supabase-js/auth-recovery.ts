// resetPasswordForEmail, resend and reauthenticate.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { dataOf, looksLikeSession, methodsOf, refused, sessionMissing } from './auth-objects.ts'
import { type Setup, siteUrl } from './auth-setup.ts'
import { listening } from './auth-state-changes.ts'
import { applyFragment, canSignIn, follow, newAddress, newUser, password } from './auth-users.ts'

const fresh = 'a fresh new password'

export function recoveryTests(setup: () => Setup): void {
  describe('resetPasswordForEmail', () => {
    test('the code signs in with event PASSWORD_RECOVERY, and a new password can be set', async () => {
      const { open, mailbox } = setup()
      const { email, user } = await newUser(open)
      const auth = open.connect()
      const watch = await listening(auth)
      assert.deepEqual(await auth.resetPasswordForEmail(email), { data: {}, error: null })
      const { code } = await mailbox.nextCode(email)
      const { session, user: same } = dataOf(await auth.verifyOtp({ type: 'recovery', email, token: code }))
      looksLikeSession(session)
      assert.deepEqual(methodsOf(session), ['otp'])
      assert.equal(same?.id, user.id)
      assert.ok(same.recovery_sent_at)
      assert.deepEqual(watch.events, ['INITIAL_SESSION', 'PASSWORD_RECOVERY'])
      dataOf(await auth.updateUser({ password: fresh }))
      assert.equal(await canSignIn(open, email, password), false)
      assert.equal(await canSignIn(open, email, fresh), true)
      refused(await auth.verifyOtp({ type: 'recovery', email, token: code }), 403, 'otp_expired')
    })

    test('the link works in the implicit flow', async () => {
      const { open, mailbox } = setup()
      const { email, user } = await newUser(open)
      const auth = open.connect()
      dataOf(await auth.resetPasswordForEmail(email, { redirectTo: 'https://app.example.com/reset' }))
      const { link } = await mailbox.nextLink(email)
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place], [303, 'https://app.example.com/reset'])
      assert.equal(landing.fragment['type'], 'recovery')
      assert.equal((await applyFragment(auth, landing)).user.id, user.id)
      dataOf(await auth.updateUser({ password: fresh }))
      assert.equal(await canSignIn(open, email, fresh), true)
    })

    test('the link works in the PKCE flow', async () => {
      const { open, mailbox } = setup()
      const { email, user } = await newUser(open)
      const auth = open.connect({ flow: 'pkce' })
      const watch = await listening(auth)
      dataOf(await auth.resetPasswordForEmail(email))
      const { link } = await mailbox.nextLink(email)
      const { query, place } = await follow(link)
      assert.equal(place, siteUrl)
      const data = dataOf(await auth.exchangeCodeForSession(query['code']!))
      assert.equal((data as unknown as { redirectType: string }).redirectType, 'recovery')
      assert.equal(data.user.id, user.id)
      assert.deepEqual(watch.events, ['INITIAL_SESSION', 'PASSWORD_RECOVERY'])
    })

    test('the answer does not show whether an address exists', async () => {
      const { open, mailbox } = setup()
      const { email } = await newUser(open)
      const unknown = newAddress()
      const toUnknown = await open.connect().resetPasswordForEmail(unknown)
      const toKnown = await open.connect().resetPasswordForEmail(email)
      assert.deepEqual(toUnknown, toKnown)
      assert.deepEqual(toKnown, { data: {}, error: null })
      await mailbox.nextCode(email)
      assert.deepEqual(mailbox.waiting(unknown), [])
      refused(await open.connect().resetPasswordForEmail('ada'), 400, 'validation_failed')
    })

    test('confirms the address and resets an earlier unconfirmed sign-up', async () => {
      const { confirming, mailbox } = setup()
      const email = newAddress()
      const auth = confirming.connect()
      dataOf(await auth.signUp({ email, password, options: { data: { name: 'Eve' } } }))
      await mailbox.nextCode(email)
      dataOf(await auth.resetPasswordForEmail(email))
      const { code } = await mailbox.nextCode(email)
      const { user } = dataOf(await auth.verifyOtp({ type: 'recovery', email, token: code }))
      assert.ok(user?.email_confirmed_at)
      assert.equal('name' in user.user_metadata, false)
      assert.equal(await canSignIn(confirming, email, password), false)
      dataOf(await auth.updateUser({ password: fresh }))
      assert.equal(await canSignIn(confirming, email, fresh), true)
    })

    test('a later magic link replaces it', async () => {
      const { open, mailbox } = setup()
      const { email } = await newUser(open)
      const auth = open.connect()
      dataOf(await auth.resetPasswordForEmail(email))
      const recovery = await mailbox.nextCode(email)
      dataOf(await auth.signInWithOtp({ email }))
      const magic = await mailbox.nextCode(email)
      const late = await auth.verifyOtp({ type: 'recovery', email, token: recovery.code })
      refused(late, 403, 'otp_expired')
      dataOf(await auth.verifyOtp({ type: 'magiclink', email, token: magic.code }))
    })

    test('a password change invalidates mails sent before', async () => {
      const { open, mailbox } = setup()
      const { auth, email } = await newUser(open)
      dataOf(await open.connect().resetPasswordForEmail(email))
      const { code } = await mailbox.nextCode(email)
      dataOf(await auth.updateUser({ password: fresh }))
      const late = await open.connect().verifyOtp({ type: 'recovery', email, token: code })
      refused(late, 403, 'otp_expired')
    })
  })

  describe('resend', () => {
    test('sends the confirmation again and invalidates the first one', async () => {
      const { confirming, mailbox } = setup()
      const email = newAddress()
      const auth = confirming.connect()
      dataOf(await auth.signUp({ email, password }))
      const first = await mailbox.nextCode(email)
      const again = dataOf(await auth.resend({ type: 'signup', email }))
      assert.deepEqual(again, { user: null, session: null })
      const second = await mailbox.nextCode(email)
      refused(await auth.verifyOtp({ type: 'signup', email, token: first.code }), 403, 'otp_expired')
      dataOf(await auth.verifyOtp({ type: 'signup', email, token: second.code }))
    })

    test('in the PKCE flow the new link belongs to the client that called resend', async () => {
      const { confirming, mailbox } = setup()
      const email = newAddress()
      dataOf(await confirming.connect().signUp({ email, password }))
      await mailbox.nextLink(email)
      const auth = confirming.connect({ flow: 'pkce' })
      dataOf(await auth.resend({ type: 'signup', email }))
      const { query } = await follow((await mailbox.nextLink(email)).link)
      assert.equal(dataOf(await auth.exchangeCodeForSession(query['code']!)).user.email, email)
    })

    test('sends the mails of a pending email change again', async () => {
      const { open, mailbox } = setup()
      const { auth, email } = await newUser(open)
      const next = newAddress('new')
      dataOf(await auth.updateUser({ email: next }))
      await mailbox.nextCode(next)
      dataOf(await auth.resend({ type: 'email_change', email }))
      await mailbox.nextCode(next)
    })

    test('gives the same answer and sends no mail if nothing is pending', async () => {
      const { open, confirming, mailbox } = setup()
      const { email: confirmed } = await newUser(confirming)
      const unknown = newAddress()
      for (const email of [confirmed, unknown])
        for (const type of ['signup', 'email_change'] as const) {
          const answer = await confirming.connect().resend({ type, email })
          assert.deepEqual(answer, { data: { user: null, session: null }, error: null })
        }
      const waiting = newAddress()
      dataOf(await confirming.connect().signUp({ email: waiting, password }))
      await mailbox.nextCode(waiting)
      assert.deepEqual([...mailbox.waiting(confirmed), ...mailbox.waiting(unknown)], [])
      const odd = await open.connect().resend({ type: 'magic' as 'signup', email: unknown })
      refused(odd, 400, 'validation_failed')
    })
  })

  describe('reauthenticate', () => {
    test('sends a code that confirms a password change', async () => {
      const { open, mailbox } = setup()
      const { auth, email } = await newUser(open)
      const answer = dataOf(await auth.reauthenticate())
      assert.deepEqual(answer, { user: null, session: null })
      const { code } = await mailbox.nextCode(email)
      const nonce = code === '000000' ? '111111' : '000000'
      refused(await auth.updateUser({ password: fresh, nonce }), 422, 'reauthentication_not_valid')
      assert.equal(await canSignIn(open, email, password), true)
      const { user } = dataOf(await auth.updateUser({ password: fresh, nonce: code }))
      assert.ok('reauthentication_sent_at' in user)
      assert.equal(await canSignIn(open, email, fresh), true)
      const again = await auth.updateUser({ password: 'one more password', nonce: code })
      refused(again, 422, 'reauthentication_not_valid')
    })

    test('needs a signed-in user', async () => {
      sessionMissing(await setup().open.connect().reauthenticate())
      const { status, body } = await setup().open.call('GET', '/reauthenticate')
      assert.deepEqual([status, body.error_code], [401, 'no_authorization'])
    })

    test('needs a user with an email address', async () => {
      const auth = setup().open.connect()
      dataOf(await auth.signInAnonymously())
      const { error } = await auth.reauthenticate()
      assert.ok(error?.status === 400 || error?.status === 422, `${error?.status}`)
    })
  })
}
