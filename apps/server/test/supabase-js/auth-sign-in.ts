// signInWithPassword, and the format of errors.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { hash } from '@node-rs/bcrypt'
import { dataOf, looksLikeSession, methodsOf, refused } from './auth-objects.ts'
import type { Setup } from './auth-setup.ts'
import { canSignIn, newAddress, newUser, password, signIn } from './auth-users.ts'

export function signInTests(setup: () => Setup): void {
  describe('signInWithPassword', () => {
    test('returns a full session, with the address in any case', async () => {
      const { open } = setup()
      const { email, user: before } = await newUser(open)
      const auth = open.connect()
      const answer = await auth.signInWithPassword({ email: email.toUpperCase(), password })
      const { session, user } = dataOf(answer)
      looksLikeSession(session)
      assert.equal('weakPassword' in answer.data, false)
      assert.deepEqual(session.user, user)
      assert.equal(user.id, before.id)
      assert.ok(Date.parse(user.last_sign_in_at!) > Date.parse(before.last_sign_in_at!))
      assert.deepEqual(methodsOf(session), ['password'])
      assert.deepEqual((await auth.getSession()).data.session, session)
    })

    test('a wrong password and an unknown address get the same answer', async () => {
      const { open } = setup()
      const { email } = await newUser(open)
      const wrong = await open.connect().signInWithPassword({ email, password: 'wrong password' })
      const unknown = await open.connect().signInWithPassword({ email: newAddress(), password })
      assert.equal(refused(wrong, 400, 'invalid_credentials').message, 'Invalid login credentials')
      assert.deepEqual(unknown.error?.toJSON(), wrong.error?.toJSON())
      assert.deepEqual(unknown.data, wrong.data)
    })

    test('a missing or too long password is refused', async () => {
      const { open } = setup()
      const { email } = await newUser(open)
      for (const given of ['', 'x'.repeat(2000)]) {
        const { data, error } = await open.connect().signInWithPassword({ email, password: given })
        assert.deepEqual([error?.status, data.session], [400, null])
      }
    })

    test('an unconfirmed address is reported only with the right password', async () => {
      const { confirming } = setup()
      const email = newAddress()
      dataOf(await confirming.connect().signUp({ email, password }))
      const right = await confirming.connect().signInWithPassword({ email, password })
      assert.equal(refused(right, 400, 'email_not_confirmed').message, 'Email not confirmed')
      const wrong = await confirming.connect().signInWithPassword({ email, password: 'wrong password' })
      refused(wrong, 400, 'invalid_credentials')
    })

    test('a banned user is refused until the ban expires or is removed', async () => {
      const { open } = setup()
      const { email, user } = await newUser(open)
      const banned = dataOf(await open.admin.updateUserById(user.id, { ban_duration: '24h' })).user
      assert.ok(banned)
      const answer = await open.connect().signInWithPassword({ email, password })
      refused(answer, 400, 'user_banned')
      dataOf(await open.admin.updateUserById(user.id, { ban_duration: 'none' }))
      assert.equal(await canSignIn(open, email, password), true)
    })

    test('a password that is now too weak signs in with a warning', async () => {
      const { open } = setup()
      const email = newAddress()
      const password_hash = await hash('abc', 4)
      dataOf(await open.admin.createUser({ email, password_hash, email_confirm: true }))
      const { data, error } = await open.connect().signInWithPassword({ email, password: 'abc' })
      assert.equal(error, null)
      assert.deepEqual(data.weakPassword?.reasons, ['length'])
      assert.ok(data.weakPassword?.message)
    })

    test('each sign-in creates a new session', async () => {
      const { open } = setup()
      const { email, session } = await newUser(open)
      const again = await signIn(open, email)
      assert.notEqual(again.session.refresh_token, session.refresh_token)
      dataOf(await again.auth.getUser(session.access_token))
    })
  })

  describe('an error', () => {
    const attempt = { email: 'nobody@example.com', password: 'wrong password' }

    test('has the fields of all client versions and echoes the requested version', async () => {
      const { status, headers, body } = await setup().open.call('POST', '/token?grant_type=password', {
        body: attempt,
        headers: { 'x-supabase-api-version': '2024-01-01' },
      })
      assert.equal(status, 400)
      assert.equal(headers.get('x-supabase-api-version'), '2024-01-01')
      assert.equal(headers.get('x-sb-error-code'), 'invalid_credentials')
      assert.partialDeepStrictEqual(body, {
        code: 'invalid_credentials',
        error_code: 'invalid_credentials',
        message: 'Invalid login credentials',
        msg: 'Invalid login credentials',
        statusCode: 400,
      })
      assert.deepEqual([typeof body.error, typeof body.hint, typeof body.details], Array(3).fill('string'))
    })

    test('has its code in error_code for clients without a version header', async () => {
      const { status, body } = await setup().open.call('POST', '/token?grant_type=password', {
        body: attempt,
      })
      assert.equal(status, 400)
      assert.equal(body.error_code, 'invalid_credentials')
      assert.equal(body.msg, 'Invalid login credentials')
    })

    test('is 400 for an unknown grant, a missing body or wrong types', async () => {
      const { open } = setup()
      const unknown = await open.call('POST', '/token?grant_type=magic', { body: attempt })
      assert.deepEqual([unknown.status, unknown.body.error_code], [400, 'invalid_credentials'])
      const broken = await open.call('POST', '/token?grant_type=password', { body: '{"email":' })
      assert.deepEqual([broken.status, broken.body.error_code], [400, 'bad_json'])
      const list = await open.call('POST', '/token?grant_type=password', { body: { email: ['a'] } })
      assert.equal(list.status, 400)
      assert.equal(list.body.error_code, 'validation_failed')
    })
  })
}
