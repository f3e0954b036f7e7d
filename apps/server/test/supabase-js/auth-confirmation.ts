// signUp without auto_confirm: the address must be confirmed by mail first.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  dataOf,
  looksLikeSession,
  looksLikeUser,
  methodsOf,
  refused,
  sessionMissing,
} from './auth-objects.ts'
import { type Setup, siteUrl, welcomeSubject } from './auth-setup.ts'
import { applyFragment, canSignIn, follow, newAddress, password } from './auth-users.ts'

const data = { name: 'Ada', likes: { tea: ['black', 'green'] }, age: 36 }

export function confirmationTests(setup: () => Setup): void {
  describe('signUp without auto_confirm', () => {
    test('returns only the user, stores the data, and sends a code that gives a session', async () => {
      const { confirming, mailbox } = setup()
      const auth = confirming.connect()
      const email = newAddress()
      const { session, user } = dataOf(await auth.signUp({ email, password, options: { data } }))
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
      const stored = dataOf(await confirming.admin.getUserById(user.id)).user
      assert.partialDeepStrictEqual(stored?.user_metadata, data)

      const early = await auth.signInWithPassword({ email, password })
      assert.equal(refused(early, 400, 'email_not_confirmed').message, 'Email not confirmed')
      const { code } = await mailbox.nextCode(email)
      assert.deepEqual(
        mailbox.waiting(email).map(({ subject }) => subject),
        [],
        'the welcome mail is sent after the confirmation',
      )
      const proven = dataOf(await auth.verifyOtp({ type: 'signup', email, token: code }))
      looksLikeSession(proven.session)
      assert.deepEqual(methodsOf(proven.session), ['otp'])
      assert.equal(proven.user?.id, user.id)
      assert.ok(proven.user.email_confirmed_at)
      assert.equal(proven.user.confirmed_at, proven.user.email_confirmed_at)
      assert.partialDeepStrictEqual(proven.user.user_metadata, { ...data, email_verified: true })
      assert.equal(proven.user.identities?.[0]?.identity_data?.['email_verified'], true)
      await mailbox.next(email, ({ subject }) => subject === welcomeSubject)
      assert.equal(await canSignIn(confirming, email, password), true)
      refused(await auth.verifyOtp({ type: 'signup', email, token: code }), 403, 'otp_expired')
    })

    test('the link redirects with a session in the fragment, once', async () => {
      const { confirming, mailbox } = setup()
      const auth = confirming.connect()
      const email = newAddress()
      dataOf(await auth.signUp({ email, password }))
      const { link } = await mailbox.nextLink(email)
      assert.equal(new URL(link).searchParams.get('type'), 'signup')
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place, landing.query], [303, siteUrl, {}])
      const { access_token, refresh_token, expires_at, ...rest } = landing.fragment
      assert.deepEqual(rest, { expires_in: '3600', token_type: 'bearer', type: 'signup', sb: '' })
      assert.ok(access_token && refresh_token)
      assert.ok(Number(expires_at) > Date.now() / 1000)
      const { user } = await applyFragment(auth, landing)
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

    test('in the PKCE flow the link redirects with a code for the requesting client', async () => {
      const { confirming, mailbox } = setup()
      const auth = confirming.connect({ flow: 'pkce' })
      const email = newAddress()
      dataOf(await auth.signUp({ email, password }))
      const { link } = await mailbox.nextLink(email)
      assert.match(new URL(link).searchParams.get('token')!, /^pkce_/)
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place, landing.fragment], [303, siteUrl, {}])
      assert.deepEqual(Object.keys(landing.query), ['code'])
      const { code } = landing.query
      const other = confirming.connect({ flow: 'pkce' })
      dataOf(await other.signUp({ email: newAddress(), password }))
      refused(await other.exchangeCodeForSession(code!), 400, 'bad_code_verifier')
      const { session, user } = dataOf(await auth.exchangeCodeForSession(code!))
      looksLikeSession(session)
      assert.equal(user?.email, email)
    })

    test('the link redirects only to allowed URLs', async () => {
      const { confirming, mailbox } = setup()
      const places: [string, string, Record<string, string>][] = [
        ['https://app.example.com/after?step=2', 'https://app.example.com/after', { step: '2' }],
        ['https://42.preview.example.com/a/b', 'https://42.preview.example.com/a/b', {}],
        ['https://evil.example.org/', siteUrl, {}],
        ['https://app.example.com@evil.example.org/', siteUrl, {}],
        ['http://app.example.com/', siteUrl, {}],
      ]
      for (const [emailRedirectTo, place, query] of places) {
        const email = newAddress()
        dataOf(await confirming.connect().signUp({ email, password, options: { emailRedirectTo } }))
        const landing = await follow((await mailbox.nextLink(email)).link)
        assert.deepEqual([landing.place, landing.query], [place, query], emailRedirectTo)
        assert.ok(landing.fragment['access_token'])
      }
    })

    test('a confirmed address gets a decoy user and no mail', async () => {
      const { confirming, mailbox } = setup()
      const email = newAddress()
      const real = dataOf(await confirming.admin.createUser({ email, password, email_confirm: true })).user!
      const tryAgain = async () => {
        const answer = await confirming
          .connect()
          .signUp({ email, password: 'another password', options: { data } })
        const { session, user } = dataOf(answer)
        assert.equal(session, null)
        looksLikeUser(user)
        return user
      }
      const [first, second] = [await tryAgain(), await tryAgain()]
      assert.equal(new Set([real.id, first.id, second.id]).size, 3)
      assert.partialDeepStrictEqual(first, { email, role: '', is_anonymous: false })
      assert.deepEqual([first.identities, first.user_metadata], [[], data])
      assert.ok(Date.parse(first.created_at) > Date.parse(real.created_at))
      assert.equal(await canSignIn(confirming, email, 'another password'), false)
      assert.equal(await canSignIn(confirming, email, password), true)
      // A later mail has arrived, so an earlier one would have, too.
      const later = newAddress()
      dataOf(await confirming.connect().signUp({ email: later, password }))
      await mailbox.nextCode(later)
      assert.deepEqual(mailbox.waiting(email), [])
    })

    test('an unconfirmed address gets another mail, and its user is unchanged', async () => {
      const { confirming, mailbox } = setup()
      const auth = confirming.connect()
      const email = newAddress()
      const first = dataOf(await auth.signUp({ email, password, options: { data } })).user!
      const early = await mailbox.nextCode(email)
      const { user } = dataOf(await auth.signUp({ email, password, options: { data: { name: 'Eve' } } }))
      assert.equal(user?.id, first.id)
      assert.equal(user.identities?.length, 1)
      assert.equal(user.user_metadata['name'], 'Ada')
      const late = await mailbox.nextCode(email)
      refused(await auth.verifyOtp({ type: 'signup', email, token: early.code }), 403, 'otp_expired')
      const proven = dataOf(await auth.verifyOtp({ type: 'signup', email, token: late.code }))
      assert.equal(proven.user?.user_metadata['name'], 'Ada')
      assert.equal(await canSignIn(confirming, email, password), true)
    })

    test('two sign-ups with different passwords: confirmation deletes both passwords', async () => {
      const { confirming, mailbox } = setup()
      const email = newAddress()
      const first = dataOf(await confirming.connect().signUp({ email, password })).user!
      await mailbox.nextCode(email)
      const auth = confirming.connect()
      const { user } = dataOf(await auth.signUp({ email, password: 'another password' }))
      assert.equal(user?.id, first.id)
      const { code } = await mailbox.nextCode(email)
      dataOf(await auth.verifyOtp({ type: 'signup', email, token: code }))
      assert.deepEqual(
        [
          await canSignIn(confirming, email, password),
          await canSignIn(confirming, email, 'another password'),
        ],
        [false, false],
      )
      dataOf(await auth.updateUser({ password: 'a fresh new password' }))
      assert.equal(await canSignIn(confirming, email, 'a fresh new password'), true)
    })
  })
}
