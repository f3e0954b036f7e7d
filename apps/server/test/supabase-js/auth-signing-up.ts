// signUp: with addresses taken at their word, and with addresses that must be proven by mail.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  claimsOf,
  granted,
  looksLikeSession,
  looksLikeUser,
  methodsOf,
  refused,
  sessionMissing,
} from './auth-objects.ts'
import {
  canSignIn,
  follow,
  land,
  password,
  type Stage,
  siteUrl,
  someone,
  welcomeSubject,
} from './auth-stage.ts'

const data = { name: 'Ada', likes: { tea: ['black', 'green'] }, age: 36 }

export function signUpTests(stage: () => Stage): void {
  describe('signUp where addresses are taken at their word', () => {
    test('answers a session in full, and the user with what was given', async () => {
      const auth = stage().open.connect()
      const email = someone('Mixed.Case')
      const { session, user } = granted(await auth.signUp({ email, password, options: { data } }))
      looksLikeSession(session)
      assert.deepEqual(session.user, user)
      const { id } = session.user
      const known = {
        ...data,
        sub: id,
        email: email.toLowerCase(),
        email_verified: true,
        phone_verified: false,
      }
      assert.partialDeepStrictEqual(user, {
        role: 'authenticated',
        email: email.toLowerCase(),
        phone: '',
        app_metadata: { provider: 'email', providers: ['email'] },
        is_anonymous: false,
      })
      assert.deepEqual(user?.user_metadata, known)
      assert.equal(user?.confirmed_at, user?.email_confirmed_at)
      assert.ok(user?.email_confirmed_at && user.last_sign_in_at)
      for (const absent of ['new_email', 'factors', 'banned_until', 'deleted_at', 'invited_at'])
        assert.ok(!(absent in user), absent)
      const [identity, ...others] = user.identities!
      assert.deepEqual(others, [])
      assert.partialDeepStrictEqual(identity, {
        id,
        user_id: id,
        provider: 'email',
        email: email.toLowerCase(),
      })
      assert.deepEqual(identity?.identity_data, known)
      assert.deepEqual((await auth.getSession()).data.session, session)
    })

    test('the access token says who signed up, how, and for how long', async () => {
      const email = someone()
      const { session } = granted(await stage().open.connect().signUp({ email, password, options: { data } }))
      const { iss, iat, exp, amr, session_id, ...claims } = claimsOf(session!)
      assert.match(iss, /\/auth\/v1$/)
      assert.equal(exp - iat, 3600)
      assert.match(session_id, /^[0-9a-f-]{36}$/)
      assert.deepEqual(
        amr.map(({ method }) => method),
        ['password'],
      )
      assert.ok(Number.isInteger(amr[0]?.timestamp))
      const { id, app_metadata, user_metadata } = session!.user
      assert.deepEqual(claims, {
        sub: id,
        aud: 'authenticated',
        email,
        phone: '',
        app_metadata,
        user_metadata,
        role: 'authenticated',
        aal: 'aal1',
        is_anonymous: false,
      })
    })

    test('an address that is taken is refused, however it is written', async () => {
      const { open } = stage()
      const email = someone()
      granted(await open.connect().signUp({ email, password }))
      for (const again of [email, email.toUpperCase()]) {
        const answer = await open.connect().signUp({ email: again, password: 'another password' })
        assert.equal(refused(answer, 422, 'user_already_exists').message, 'User already registered')
      }
      assert.equal(await canSignIn(open, email, password), true)
      assert.equal(await canSignIn(open, email, 'another password'), false)
    })

    test('a password that is too short is refused with the reason', async () => {
      const { open, project } = stage()
      const email = someone()
      const error = refused(await open.connect().signUp({ email, password: '12345' }), 422, 'weak_password')
      assert.equal(error.name, 'AuthWeakPasswordError')
      assert.deepEqual((error as unknown as { reasons: string[] }).reasons, ['length'])
      granted(await open.connect().signUp({ email, password: '123456' }))
      const strict = await project({ min_password_length: 10 })
      refused(await strict.connect().signUp({ email, password: '123456789' }), 422, 'weak_password')
      granted(await strict.connect().signUp({ email, password: '1234567890' }))
    })

    test('what cannot be an account is refused', async () => {
      const { open } = stage()
      const tries: [string, string, string][] = [
        ['no password', someone(), ''],
        ['a password of more than 72 bytes', someone(), 'ü'.repeat(37)],
        ['no address', 'ada', password],
        ['an address without a host', 'ada@', password],
        ['a line in the address', `ada\r\nbcc: bob@example.com@${someone()}`, password],
        ['an address that is too long', `${'a'.repeat(250)}@example.com`, password],
      ]
      for (const [what, email, given] of tries) {
        const { data: answer, error } = await open.connect().signUp({ email, password: given })
        assert.deepEqual([error?.status, answer.user, answer.session], [400, null, null], what)
        assert.equal(error?.code, 'validation_failed', what)
      }
    })

    test('one cannot sign up where sign-up, or e-mail, is switched off', async () => {
      const { project } = stage()
      const closed = await project({ signup_enabled: false })
      refused(await closed.connect().signUp({ email: someone(), password }), 422, 'signup_disabled')
      const email = someone()
      granted(await closed.admin.createUser({ email, password, email_confirm: true }))
      assert.equal(await canSignIn(closed, email, password), true)
      const mailless = await project({ email_enabled: false })
      refused(await mailless.connect().signUp({ email, password }), 400, 'email_provider_disabled')
      const signIn = await mailless.connect().signInWithPassword({ email, password })
      refused(signIn, 422, 'email_provider_disabled')
    })

    test('a session lasts as long as the project says', async () => {
      const short = await stage().project({ session_duration_seconds: 120 })
      const { session } = granted(await short.connect().signUp({ email: someone(), password }))
      looksLikeSession(session, 120)
    })

    test('a welcome goes out', async () => {
      const { open, mailbox } = stage()
      const email = someone()
      granted(await open.connect().signUp({ email, password }))
      await mailbox.next(email, ({ subject }) => subject === welcomeSubject)
    })
  })

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
      assert.ok(first.created_at > real.created_at)
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
