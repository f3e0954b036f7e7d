// Mail for those who have forgotten, lost or doubt something: resetPasswordForEmail, resend, reauthenticate.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { granted, looksLikeSession, methodsOf, refused, sessionMissing } from './auth-objects.ts'
import { canSignIn, follow, land, member, password, someone } from './auth-people.ts'
import { type Stage, siteUrl } from './auth-stage.ts'
import { listening } from './auth-watching.ts'

const fresh = 'a fresh new password'

export function recoveryTests(stage: () => Stage): void {
  describe('resetPasswordForEmail', () => {
    test('the code signs in, says that it is a recovery, and lets a new password be set', async () => {
      const { open, mailbox } = stage()
      const { email, user } = await member(open)
      const auth = open.connect()
      const watch = await listening(auth)
      assert.deepEqual(await auth.resetPasswordForEmail(email), { data: {}, error: null })
      const { code } = await mailbox.nextCode(email)
      const { session, user: same } = granted(await auth.verifyOtp({ type: 'recovery', email, token: code }))
      looksLikeSession(session)
      assert.deepEqual(methodsOf(session), ['otp'])
      assert.equal(same?.id, user.id)
      assert.ok(same.recovery_sent_at)
      assert.deepEqual(watch.events, ['INITIAL_SESSION', 'PASSWORD_RECOVERY'])
      granted(await auth.updateUser({ password: fresh }))
      assert.equal(await canSignIn(open, email, password), false)
      assert.equal(await canSignIn(open, email, fresh), true)
      refused(await auth.verifyOtp({ type: 'recovery', email, token: code }), 403, 'otp_expired')
    })

    test('the link does the same in the implicit flow', async () => {
      const { open, mailbox } = stage()
      const { email, user } = await member(open)
      const auth = open.connect()
      granted(await auth.resetPasswordForEmail(email, { redirectTo: 'https://app.example.com/reset' }))
      const { link } = await mailbox.nextLink(email)
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place], [303, 'https://app.example.com/reset'])
      assert.equal(landing.fragment['type'], 'recovery')
      assert.equal((await land(auth, landing)).user.id, user.id)
      granted(await auth.updateUser({ password: fresh }))
      assert.equal(await canSignIn(open, email, fresh), true)
    })

    test('and in the PKCE flow', async () => {
      const { open, mailbox } = stage()
      const { email, user } = await member(open)
      const auth = open.connect({ flow: 'pkce' })
      const watch = await listening(auth)
      granted(await auth.resetPasswordForEmail(email))
      const { link } = await mailbox.nextLink(email)
      const { query, place } = await follow(link)
      assert.equal(place, siteUrl)
      const data = granted(await auth.exchangeCodeForSession(query['code']!))
      assert.equal((data as unknown as { redirectType: string }).redirectType, 'recovery')
      assert.equal(data.user.id, user.id)
      assert.deepEqual(watch.events, ['INITIAL_SESSION', 'PASSWORD_RECOVERY'])
    })

    test('nobody learns whether an address is known', async () => {
      const { open, mailbox } = stage()
      const { email } = await member(open)
      const unknown = someone()
      const toUnknown = await open.connect().resetPasswordForEmail(unknown)
      const toKnown = await open.connect().resetPasswordForEmail(email)
      assert.deepEqual(toUnknown, toKnown)
      assert.deepEqual(toKnown, { data: {}, error: null })
      await mailbox.nextCode(email)
      assert.deepEqual(mailbox.waiting(unknown), [])
      refused(await open.connect().resetPasswordForEmail('ada'), 400, 'validation_failed')
    })

    test('proves an address, and leaves nothing of an earlier sign-up that was not proven', async () => {
      const { careful, mailbox } = stage()
      const email = someone()
      const auth = careful.connect()
      granted(await auth.signUp({ email, password, options: { data: { name: 'Eve' } } }))
      await mailbox.nextCode(email)
      granted(await auth.resetPasswordForEmail(email))
      const { code } = await mailbox.nextCode(email)
      const { user } = granted(await auth.verifyOtp({ type: 'recovery', email, token: code }))
      assert.ok(user?.email_confirmed_at)
      assert.equal('name' in user.user_metadata, false)
      assert.equal(await canSignIn(careful, email, password), false)
      granted(await auth.updateUser({ password: fresh }))
      assert.equal(await canSignIn(careful, email, fresh), true)
    })

    test('a magic link asked for later takes its place', async () => {
      const { open, mailbox } = stage()
      const { email } = await member(open)
      const auth = open.connect()
      granted(await auth.resetPasswordForEmail(email))
      const recovery = await mailbox.nextCode(email)
      granted(await auth.signInWithOtp({ email }))
      const magic = await mailbox.nextCode(email)
      const late = await auth.verifyOtp({ type: 'recovery', email, token: recovery.code })
      refused(late, 403, 'otp_expired')
      granted(await auth.verifyOtp({ type: 'magiclink', email, token: magic.code }))
    })

    test('a changed password makes what was sent before worthless', async () => {
      const { open, mailbox } = stage()
      const { auth, email } = await member(open)
      granted(await open.connect().resetPasswordForEmail(email))
      const { code } = await mailbox.nextCode(email)
      granted(await auth.updateUser({ password: fresh }))
      const late = await open.connect().verifyOtp({ type: 'recovery', email, token: code })
      refused(late, 403, 'otp_expired')
    })
  })

  describe('resend', () => {
    test('sends the confirmation again, and the first one counts no more', async () => {
      const { careful, mailbox } = stage()
      const email = someone()
      const auth = careful.connect()
      granted(await auth.signUp({ email, password }))
      const first = await mailbox.nextCode(email)
      const again = granted(await auth.resend({ type: 'signup', email }))
      assert.deepEqual(again, { user: null, session: null })
      const second = await mailbox.nextCode(email)
      refused(await auth.verifyOtp({ type: 'signup', email, token: first.code }), 403, 'otp_expired')
      granted(await auth.verifyOtp({ type: 'signup', email, token: second.code }))
    })

    test('in the PKCE flow the new link is for the client that asked again', async () => {
      const { careful, mailbox } = stage()
      const email = someone()
      granted(await careful.connect().signUp({ email, password }))
      await mailbox.nextLink(email)
      const auth = careful.connect({ flow: 'pkce' })
      granted(await auth.resend({ type: 'signup', email }))
      const { query } = await follow((await mailbox.nextLink(email)).link)
      assert.equal(granted(await auth.exchangeCodeForSession(query['code']!)).user.email, email)
    })

    test('sends the mails of a pending change of address again', async () => {
      const { open, mailbox } = stage()
      const { auth, email } = await member(open)
      const next = someone('new')
      granted(await auth.updateUser({ email: next }))
      await mailbox.nextCode(next)
      granted(await auth.resend({ type: 'email_change', email }))
      await mailbox.nextCode(next)
    })

    test('says the same and sends nothing where there is nothing to confirm', async () => {
      const { open, careful, mailbox } = stage()
      const { email: confirmed } = await member(careful)
      const unknown = someone()
      for (const email of [confirmed, unknown])
        for (const type of ['signup', 'email_change'] as const) {
          const answer = await careful.connect().resend({ type, email })
          assert.deepEqual(answer, { data: { user: null, session: null }, error: null })
        }
      const waiting = someone()
      granted(await careful.connect().signUp({ email: waiting, password }))
      await mailbox.nextCode(waiting)
      assert.deepEqual([...mailbox.waiting(confirmed), ...mailbox.waiting(unknown)], [])
      const odd = await open.connect().resend({ type: 'magic' as 'signup', email: unknown })
      refused(odd, 400, 'validation_failed')
    })
  })

  describe('reauthenticate', () => {
    test('sends a code that vouches for a change of password', async () => {
      const { open, mailbox } = stage()
      const { auth, email } = await member(open)
      const answer = granted(await auth.reauthenticate())
      assert.deepEqual(answer, { user: null, session: null })
      const { code } = await mailbox.nextCode(email)
      const nonce = code === '000000' ? '111111' : '000000'
      refused(await auth.updateUser({ password: fresh, nonce }), 422, 'reauthentication_not_valid')
      assert.equal(await canSignIn(open, email, password), true)
      const { user } = granted(await auth.updateUser({ password: fresh, nonce: code }))
      assert.ok('reauthentication_sent_at' in user)
      assert.equal(await canSignIn(open, email, fresh), true)
      const again = await auth.updateUser({ password: 'one more password', nonce: code })
      refused(again, 422, 'reauthentication_not_valid')
    })

    test('is for those who are signed in', async () => {
      sessionMissing(await stage().open.connect().reauthenticate())
      const { status, body } = await stage().open.call('GET', '/reauthenticate')
      assert.deepEqual([status, body.error_code], [401, 'no_authorization'])
    })

    test('needs an address to write to', async () => {
      const auth = stage().open.connect()
      granted(await auth.signInAnonymously())
      const { error } = await auth.reauthenticate()
      assert.ok(error?.status === 400 || error?.status === 422, `${error?.status}`)
    })
  })
}
