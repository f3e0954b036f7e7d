// admin: update, ban and delete users.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { dataOf, looksLikeUser, refused, sessionMissing } from './auth-objects.ts'
import type { Setup } from './auth-setup.ts'
import { canSignIn, newAddress, newUser, password, signIn } from './auth-users.ts'

const anyId = '11111111-1111-4111-8111-111111111111'

export function adminChangeTests(setup: () => Setup): void {
  describe('admin.updateUserById', () => {
    test('changes the address immediately', async () => {
      const { confirming, mailbox } = setup()
      const { user, email } = await newUser(confirming)
      const next = newAddress('new')
      const { user: changed } = dataOf(
        await confirming.admin.updateUserById(user.id, { email: next, email_confirm: true }),
      )
      looksLikeUser(changed)
      assert.equal(changed.email, next)
      assert.equal('new_email' in changed, false)
      assert.equal(changed.identities?.[0]?.identity_data?.['email'], next)
      assert.deepEqual(
        [await canSignIn(confirming, email, password), await canSignIn(confirming, next, password)],
        [false, true],
      )
      assert.deepEqual(
        mailbox.waiting(next).filter(({ code }) => code !== undefined),
        [],
      )
    })

    test('confirms an address', async () => {
      const { confirming } = setup()
      const email = newAddress()
      const { user } = dataOf(await confirming.admin.createUser({ email, password }))
      const { user: proven } = dataOf(await confirming.admin.updateUserById(user.id, { email_confirm: true }))
      assert.ok(proven.email_confirmed_at)
      assert.equal(await canSignIn(confirming, email, password), true)
    })

    test('a new password ends every session', async () => {
      const { open } = setup()
      const { auth, user, email } = await newUser(open)
      const other = await signIn(open, email)
      dataOf(await open.admin.updateUserById(user.id, { password: 'set by an administrator' }))
      sessionMissing(await auth.getUser())
      sessionMissing(await other.auth.getUser())
      assert.deepEqual(
        [await canSignIn(open, email, password), await canSignIn(open, email, 'set by an administrator')],
        [false, true],
      )
    })

    test('merges both kinds of data, and null removes a key', async () => {
      const { open } = setup()
      const { user } = await newUser(open)
      const update = (changes: object) => open.admin.updateUserById(user.id, changes)
      dataOf(await update({ user_metadata: { a: 1, b: 2 }, app_metadata: { plan: 'gold', seats: 3 } }))
      const { user: changed } = dataOf(
        await update({ user_metadata: { a: null, c: 3 }, app_metadata: { plan: null } }),
      )
      assert.deepEqual(changed.user_metadata, { ...user.user_metadata, b: 2, c: 3 })
      assert.deepEqual(changed.app_metadata, { ...user.app_metadata, seats: 3 })
    })

    test('bans for a duration and removes the ban', async () => {
      const { open } = setup()
      const { user, auth } = await newUser(open)
      const before = Date.now()
      const { user: banned } = dataOf(await open.admin.updateUserById(user.id, { ban_duration: '1h30m' }))
      looksLikeUser(banned)
      const until = Date.parse(banned.banned_until!)
      // The database runs on this machine, so both have the same clock.
      assert.ok(until >= before + 90 * 60_000 - 1000 && until <= Date.now() + 90 * 60_000 + 1000)
      refused(await auth.getUser(), 403, 'user_banned')
      const { user: free } = dataOf(await open.admin.updateUserById(user.id, { ban_duration: 'none' }))
      assert.ok(!free.banned_until || Date.parse(free.banned_until) <= Date.now())
      dataOf(await auth.getUser())
    })

    test('rejects taken and invalid values', async () => {
      const { open } = setup()
      const { user } = await newUser(open)
      const { email: taken } = await newUser(open)
      refused(await open.admin.updateUserById(anyId, { user_metadata: {} }), 404, 'user_not_found')
      refused(await open.admin.updateUserById(user.id, { email: taken }), 422, 'email_exists')
      refused(await open.admin.updateUserById(user.id, { ban_duration: 'soon' }), 400, 'validation_failed')
      refused(await open.admin.updateUserById(user.id, { password: '12345' }), 422, 'weak_password')
    })
  })

  describe('admin.deleteUser', () => {
    test('deletes the user permanently, and the address can be used again', async () => {
      const { open } = setup()
      const { user, email, auth, session } = await newUser(open)
      const { user: gone } = dataOf(await open.admin.deleteUser(user.id))
      assert.equal(gone.id, user.id)
      refused(await open.admin.getUserById(user.id), 404, 'user_not_found')
      refused(await open.admin.deleteUser(user.id), 404, 'user_not_found')
      refused(await auth.getUser(), 403, 'user_not_found')
      const { refresh_token } = session
      assert.equal((await open.connect().refreshSession({ refresh_token })).error?.status, 400)
      assert.equal(await canSignIn(open, email, password), false)
      const { user: next } = dataOf(await open.connect().signUp({ email, password }))
      assert.notEqual(next?.id, user.id)
    })

    test('a soft delete leaves a row without personal data that cannot sign in', async () => {
      const { open } = setup()
      const { user, email, auth, session } = await newUser(open)
      dataOf(await auth.updateUser({ data: { name: 'Ada' } }))
      dataOf(await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Phone' }))
      dataOf(await open.admin.deleteUser(user.id, true))
      const { user: left } = dataOf(await open.admin.getUserById(user.id))
      assert.ok('deleted_at' in left)
      assert.equal(JSON.stringify(left).includes(email), false)
      assert.deepEqual([left.user_metadata, left.app_metadata], [{}, {}])
      assert.equal('factors' in left, false)
      assert.notEqual((await auth.getUser()).error, null)
      const { refresh_token } = session
      assert.equal((await open.connect().refreshSession({ refresh_token })).error?.status, 400)
      assert.equal(await canSignIn(open, email, password), false)
      const { user: next } = dataOf(await open.connect().signUp({ email, password }))
      assert.notEqual(next?.id, user.id)
    })
  })
}
