// signUp with auto_confirm.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { claimsOf, dataOf, looksLikeSession, refused } from './auth-objects.ts'
import { type Setup, welcomeSubject } from './auth-setup.ts'
import { canSignIn, newAddress, password } from './auth-users.ts'

const data = { name: 'Ada', likes: { tea: ['black', 'green'] }, age: 36 }

export function signUpTests(setup: () => Setup): void {
  describe('signUp with auto_confirm', () => {
    test('returns a full session and the user with the given data', async () => {
      const auth = setup().open.connect()
      const email = newAddress('Mixed.Case')
      const { session, user } = dataOf(await auth.signUp({ email, password, options: { data } }))
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

    test('the access token has user, method and expiry', async () => {
      const email = newAddress()
      const { session } = dataOf(await setup().open.connect().signUp({ email, password, options: { data } }))
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

    test('a taken address is refused, case-insensitively', async () => {
      const { open } = setup()
      const email = newAddress()
      dataOf(await open.connect().signUp({ email, password }))
      for (const again of [email, email.toUpperCase()]) {
        const answer = await open.connect().signUp({ email: again, password: 'another password' })
        assert.equal(refused(answer, 422, 'user_already_exists').message, 'User already registered')
      }
      assert.equal(await canSignIn(open, email, password), true)
      assert.equal(await canSignIn(open, email, 'another password'), false)
    })

    test('a short password is refused with the reason', async () => {
      const { open, project } = setup()
      const email = newAddress()
      const error = refused(await open.connect().signUp({ email, password: '12345' }), 422, 'weak_password')
      assert.equal(error.name, 'AuthWeakPasswordError')
      assert.deepEqual((error as unknown as { reasons: string[] }).reasons, ['length'])
      dataOf(await open.connect().signUp({ email, password: '123456' }))
      const strict = await project({ min_password_length: 10 })
      refused(await strict.connect().signUp({ email, password: '123456789' }), 422, 'weak_password')
      dataOf(await strict.connect().signUp({ email, password: '1234567890' }))
    })

    test('invalid input is refused', async () => {
      const { open } = setup()
      const tries: [string, string, string][] = [
        ['no password', newAddress(), ''],
        ['a password of more than 72 bytes', newAddress(), 'ü'.repeat(37)],
        ['no address', 'ada', password],
        ['an address without a host', 'ada@', password],
        ['a line in the address', `ada\r\nbcc: bob@example.com@${newAddress()}`, password],
        ['an address that is too long', `${'a'.repeat(250)}@example.com`, password],
      ]
      for (const [what, email, given] of tries) {
        const { data: answer, error } = await open.connect().signUp({ email, password: given })
        assert.deepEqual([error?.status, answer.user, answer.session], [400, null, null], what)
        assert.equal(error?.code, 'validation_failed', what)
      }
    })

    test('is refused if sign-up or email is disabled', async () => {
      const { project } = setup()
      const closed = await project({ signup_enabled: false })
      refused(await closed.connect().signUp({ email: newAddress(), password }), 422, 'signup_disabled')
      const email = newAddress()
      dataOf(await closed.admin.createUser({ email, password, email_confirm: true }))
      assert.equal(await canSignIn(closed, email, password), true)
      const mailless = await project({ email_enabled: false })
      refused(await mailless.connect().signUp({ email, password }), 400, 'email_provider_disabled')
      const signIn = await mailless.connect().signInWithPassword({ email, password })
      refused(signIn, 422, 'email_provider_disabled')
    })

    test('the project sets the session duration', async () => {
      const short = await setup().project({ session_duration_seconds: 120 })
      const { session } = dataOf(await short.connect().signUp({ email: newAddress(), password }))
      looksLikeSession(session, 120)
    })

    test('sends a welcome mail', async () => {
      const { open, mailbox } = setup()
      const email = newAddress()
      dataOf(await open.connect().signUp({ email, password }))
      await mailbox.next(email, ({ subject }) => subject === welcomeSubject)
    })
  })
}
