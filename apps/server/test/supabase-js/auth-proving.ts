// signUp where addresses must be proven by mail before anybody is let in.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  granted,
  looksLikeSession,
  looksLikeUser,
  methodsOf,
  refused,
  sessionMissing,
} from './auth-objects.ts'
import { canSignIn, follow, land, password, someone } from './auth-people.ts'
import { type Stage, siteUrl, welcomeSubject } from './auth-stage.ts'

const data = { name: 'Ada', likes: { tea: ['black', 'green'] }, age: 36 }

export function provingTests(stage: () => Stage): void {
  describe('signUp where addresses must be proven', () => {
    test('answers the user alone, keeps the data, and sends a code that makes a session', async () => {
      const { careful, mailbox } = stage()
      const auth = careful.connect()
      const email = someone()
      const { session, user } = granted(await auth.signUp({ email, password, options: { data } }))
      assert.equal(session, null)
      looksLikeUser(user)
      assert.equal(user.role, 'authenticated')
      assert.ok(user.confirmation_sent_at)
      for (const absent of ['email_confirmed_at', 'confirmed_at', 'last_sign_in_at'])
        assert.ok(!(absent in user), absent)
      assert.partialDeepStrictEqual(user.user_metadata, { ...data, email, email_verified: false })
      assert.equal(user.identities?.length, 1)
      assert.equal((await auth.getSession()).data.session, null)
      sessionMissing(await auth.getUser())
      const stored = granted(await careful.admin.getUserById(user.id)).user
      assert.partialDeepStrictEqual(stored?.user_metadata, data)

      const early = await auth.signInWithPassword({ email, password })
      assert.equal(refused(early, 400, 'email_not_confirmed').message, 'Email not confirmed')
      const { code } = await mailbox.nextCode(email)
      assert.deepEqual(
        mailbox.waiting(email).map(({ subject }) => subject),
        [],
        'the welcome waits for the proof',
      )
      const proven = granted(await auth.verifyOtp({ type: 'signup', email, token: code }))
      looksLikeSession(proven.session)
      assert.deepEqual(methodsOf(proven.session), ['otp'])
      assert.equal(proven.user?.id, user.id)
      assert.ok(proven.user.email_confirmed_at)
      assert.equal(proven.user.confirmed_at, proven.user.email_confirmed_at)
      assert.partialDeepStrictEqual(proven.user.user_metadata, { ...data, email_verified: true })
      assert.equal(proven.user.identities?.[0]?.identity_data?.['email_verified'], true)
      await mailbox.next(email, ({ subject }) => subject === welcomeSubject)
      assert.equal(await canSignIn(careful, email, password), true)
      refused(await auth.verifyOtp({ type: 'signup', email, token: code }), 403, 'otp_expired')
    })

    test('the link leads back with a session in the fragment, once', async () => {
      const { careful, mailbox } = stage()
      const auth = careful.connect()
      const email = someone()
      granted(await auth.signUp({ email, password }))
      const { link } = await mailbox.nextLink(email)
      assert.equal(new URL(link).searchParams.get('type'), 'signup')
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place, landing.query], [303, siteUrl, {}])
      const { access_token, refresh_token, expires_at, ...rest } = landing.fragment
      assert.deepEqual(rest, { expires_in: '3600', token_type: 'bearer', type: 'signup', sb: '' })
      assert.ok(access_token && refresh_token)
      assert.ok(Number(expires_at) > Date.now() / 1000)
      const { user } = await land(auth, landing)
      assert.equal(user.email, email)
      assert.ok(user.email_confirmed_at)
      const again = await follow(link)
      assert.deepEqual([again.status, again.place], [303, siteUrl])
      assert.partialDeepStrictEqual(again.fragment, {
        error: 'access_denied',
        error_code: 'otp_expired',
        sb: '',
      })
      assert.ok(again.fragment['error_description'])
      assert.equal('access_token' in again.fragment, false)
    })

    test('in the PKCE flow the link leads back with a code for the client that asked', async () => {
      const { careful, mailbox } = stage()
      const auth = careful.connect({ flow: 'pkce' })
      const email = someone()
      granted(await auth.signUp({ email, password }))
      const { link } = await mailbox.nextLink(email)
      assert.match(new URL(link).searchParams.get('token')!, /^pkce_/)
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place, landing.fragment], [303, siteUrl, {}])
      assert.deepEqual(Object.keys(landing.query), ['code'])
      const { code } = landing.query
      const other = careful.connect({ flow: 'pkce' })
      granted(await other.signUp({ email: someone(), password }))
      refused(await other.exchangeCodeForSession(code!), 400, 'bad_code_verifier')
      const { session, user } = granted(await auth.exchangeCodeForSession(code!))
      looksLikeSession(session)
      assert.equal(user?.email, email)
    })

    test('the link returns to a place the project knows, and to no other', async () => {
      const { careful, mailbox } = stage()
      const places: [string, string, Record<string, string>][] = [
        ['https://app.example.com/after?step=2', 'https://app.example.com/after', { step: '2' }],
        ['https://42.preview.example.com/a/b', 'https://42.preview.example.com/a/b', {}],
        ['https://evil.example.org/', siteUrl, {}],
        ['https://app.example.com@evil.example.org/', siteUrl, {}],
        ['http://app.example.com/', siteUrl, {}],
      ]
      for (const [emailRedirectTo, place, query] of places) {
        const email = someone()
        granted(await careful.connect().signUp({ email, password, options: { emailRedirectTo } }))
        const landing = await follow((await mailbox.nextLink(email)).link)
        assert.deepEqual([landing.place, landing.query], [place, query], emailRedirectTo)
        assert.ok(landing.fragment['access_token'])
      }
    })

    test('an address that is proven and taken gets an invented user, and no mail', async () => {
      const { careful, mailbox } = stage()
      const email = someone()
      const real = granted(await careful.admin.createUser({ email, password, email_confirm: true })).user!
      const tryAgain = async () => {
        const answer = await careful
          .connect()
          .signUp({ email, password: 'another password', options: { data } })
        const { session, user } = granted(answer)
        assert.equal(session, null)
        looksLikeUser(user)
        return user
      }
      const [first, second] = [await tryAgain(), await tryAgain()]
      assert.equal(new Set([real.id, first.id, second.id]).size, 3)
      assert.partialDeepStrictEqual(first, { email, role: '', is_anonymous: false })
      assert.deepEqual([first.identities, first.user_metadata], [[], data])
      assert.ok(Date.parse(first.created_at) > Date.parse(real.created_at))
      assert.equal(await canSignIn(careful, email, 'another password'), false)
      assert.equal(await canSignIn(careful, email, password), true)
      // What is sent later has come, so what was sent before would have.
      const later = someone()
      granted(await careful.connect().signUp({ email: later, password }))
      await mailbox.nextCode(later)
      assert.deepEqual(mailbox.waiting(email), [])
    })

    test('an address that is not proven yet gets another mail, and nothing of it changes', async () => {
      const { careful, mailbox } = stage()
      const auth = careful.connect()
      const email = someone()
      const first = granted(await auth.signUp({ email, password, options: { data } })).user!
      const early = await mailbox.nextCode(email)
      const { user } = granted(await auth.signUp({ email, password, options: { data: { name: 'Eve' } } }))
      assert.equal(user?.id, first.id)
      assert.equal(user.identities?.length, 1)
      assert.equal(user.user_metadata['name'], 'Ada')
      const late = await mailbox.nextCode(email)
      refused(await auth.verifyOtp({ type: 'signup', email, token: early.code }), 403, 'otp_expired')
      const proven = granted(await auth.verifyOtp({ type: 'signup', email, token: late.code }))
      assert.equal(proven.user?.user_metadata['name'], 'Ada')
      assert.equal(await canSignIn(careful, email, password), true)
    })

    test('of two who sign up with it and different passwords, neither password outlives the proof', async () => {
      const { careful, mailbox } = stage()
      const email = someone()
      const first = granted(await careful.connect().signUp({ email, password })).user!
      await mailbox.nextCode(email)
      const auth = careful.connect()
      const { user } = granted(await auth.signUp({ email, password: 'another password' }))
      assert.equal(user?.id, first.id)
      const { code } = await mailbox.nextCode(email)
      granted(await auth.verifyOtp({ type: 'signup', email, token: code }))
      assert.deepEqual(
        [await canSignIn(careful, email, password), await canSignIn(careful, email, 'another password')],
        [false, false],
      )
      granted(await auth.updateUser({ password: 'a fresh new password' }))
      assert.equal(await canSignIn(careful, email, 'a fresh new password'), true)
    })
  })
}
