// signInWithPassword, and what a refusal looks like on the wire.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { hash } from '@node-rs/bcrypt'
import { granted, looksLikeSession, methodsOf, refused } from './auth-objects.ts'
import { canSignIn, member, password, signIn, someone } from './auth-people.ts'
import type { Stage } from './auth-stage.ts'

export function signInTests(stage: () => Stage): void {
  describe('signInWithPassword', () => {
    test('answers a session in full, however the address is written', async () => {
      const { open } = stage()
      const { email, user: before } = await member(open)
      const auth = open.connect()
      const answer = await auth.signInWithPassword({ email: email.toUpperCase(), password })
      const { session, user } = granted(answer)
      looksLikeSession(session)
      assert.equal('weakPassword' in answer.data, false)
      assert.deepEqual(session.user, user)
      assert.equal(user.id, before.id)
      assert.ok(Date.parse(user.last_sign_in_at!) > Date.parse(before.last_sign_in_at!))
      assert.deepEqual(methodsOf(session), ['password'])
      assert.deepEqual((await auth.getSession()).data.session, session)
    })

    test('a wrong password and an unknown address get one and the same answer', async () => {
      const { open } = stage()
      const { email } = await member(open)
      const wrong = await open.connect().signInWithPassword({ email, password: 'wrong password' })
      const unknown = await open.connect().signInWithPassword({ email: someone(), password })
      assert.equal(refused(wrong, 400, 'invalid_credentials').message, 'Invalid login credentials')
      assert.deepEqual(unknown.error?.toJSON(), wrong.error?.toJSON())
      assert.deepEqual(unknown.data, wrong.data)
    })

    test('no password, or one too long to have been set, is refused', async () => {
      const { open } = stage()
      const { email } = await member(open)
      for (const given of ['', 'x'.repeat(2000)]) {
        const { data, error } = await open.connect().signInWithPassword({ email, password: given })
        assert.deepEqual([error?.status, data.session], [400, null])
      }
    })

    test('an address that is not proven is refused, but only to those who know the password', async () => {
      const { careful } = stage()
      const email = someone()
      granted(await careful.connect().signUp({ email, password }))
      const right = await careful.connect().signInWithPassword({ email, password })
      assert.equal(refused(right, 400, 'email_not_confirmed').message, 'Email not confirmed')
      const wrong = await careful.connect().signInWithPassword({ email, password: 'wrong password' })
      refused(wrong, 400, 'invalid_credentials')
    })

    test('a banned user is refused until the ban is over or lifted', async () => {
      const { open } = stage()
      const { email, user } = await member(open)
      const banned = granted(await open.admin.updateUserById(user.id, { ban_duration: '24h' })).user
      assert.ok(banned)
      const answer = await open.connect().signInWithPassword({ email, password })
      refused(answer, 400, 'user_banned')
      granted(await open.admin.updateUserById(user.id, { ban_duration: 'none' }))
      assert.equal(await canSignIn(open, email, password), true)
    })

    test('a password that would be refused today still opens the door, and says so', async () => {
      const { open } = stage()
      const email = someone()
      const password_hash = await hash('abc', 4)
      granted(await open.admin.createUser({ email, password_hash, email_confirm: true }))
      const { data, error } = await open.connect().signInWithPassword({ email, password: 'abc' })
      assert.equal(error, null)
      assert.deepEqual(data.weakPassword?.reasons, ['length'])
      assert.ok(data.weakPassword?.message)
    })

    test('each sign-in is a session of its own', async () => {
      const { open } = stage()
      const { email, session } = await member(open)
      const again = await signIn(open, email)
      assert.notEqual(again.session.refresh_token, session.refresh_token)
      granted(await again.auth.getUser(session.access_token))
    })
  })

  describe('a refusal', () => {
    const attempt = { email: 'nobody@example.com', password: 'wrong password' }

    test('speaks every client’s language, and echoes the version that was asked for', async () => {
      const { status, headers, body } = await stage().open.call('POST', '/token?grant_type=password', {
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

    test('has its code in error_code for clients that name no version', async () => {
      const { status, body } = await stage().open.call('POST', '/token?grant_type=password', {
        body: attempt,
      })
      assert.equal(status, 400)
      assert.equal(body.error_code, 'invalid_credentials')
      assert.equal(body.msg, 'Invalid login credentials')
    })

    test('of an unknown grant, a body that is none, or one of the wrong shape is 400', async () => {
      const { open } = stage()
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
