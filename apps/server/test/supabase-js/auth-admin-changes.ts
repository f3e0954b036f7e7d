// admin: users changed, banned and removed.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { granted, looksLikeUser, refused, sessionMissing } from './auth-objects.ts'
import { canSignIn, member, password, signIn, someone } from './auth-people.ts'
import type { Stage } from './auth-stage.ts'

const anyId = '11111111-1111-4111-8111-111111111111'

export function adminChangeTests(stage: () => Stage): void {
  describe('admin.updateUserById', () => {
    test('changes the address at once', async () => {
      const { careful, mailbox } = stage()
      const { user, email } = await member(careful)
      const next = someone('new')
      const { user: changed } = granted(
        await careful.admin.updateUserById(user.id, { email: next, email_confirm: true }),
      )
      looksLikeUser(changed)
      assert.equal(changed.email, next)
      assert.equal('new_email' in changed, false)
      assert.equal(changed.identities?.[0]?.identity_data?.['email'], next)
      assert.deepEqual(
        [await canSignIn(careful, email, password), await canSignIn(careful, next, password)],
        [false, true],
      )
      assert.deepEqual(
        mailbox.waiting(next).filter(({ code }) => code !== undefined),
        [],
      )
    })

    test('proves an address', async () => {
      const { careful } = stage()
      const email = someone()
      const { user } = granted(await careful.admin.createUser({ email, password }))
      const { user: proven } = granted(await careful.admin.updateUserById(user.id, { email_confirm: true }))
      assert.ok(proven.email_confirmed_at)
      assert.equal(await canSignIn(careful, email, password), true)
    })

    test('a new password ends every session', async () => {
      const { open } = stage()
      const { auth, user, email } = await member(open)
      const other = await signIn(open, email)
      granted(await open.admin.updateUserById(user.id, { password: 'set by an administrator' }))
      sessionMissing(await auth.getUser())
      sessionMissing(await other.auth.getUser())
      assert.deepEqual(
        [await canSignIn(open, email, password), await canSignIn(open, email, 'set by an administrator')],
        [false, true],
      )
    })

    test('merges both kinds of data, and null removes a key', async () => {
      const { open } = stage()
      const { user } = await member(open)
      const update = (changes: object) => open.admin.updateUserById(user.id, changes)
      granted(await update({ user_metadata: { a: 1, b: 2 }, app_metadata: { plan: 'gold', seats: 3 } }))
      const { user: changed } = granted(
        await update({ user_metadata: { a: null, c: 3 }, app_metadata: { plan: null } }),
      )
      assert.deepEqual(changed.user_metadata, { ...user.user_metadata, b: 2, c: 3 })
      assert.deepEqual(changed.app_metadata, { ...user.app_metadata, seats: 3 })
    })

    test('bans for a time, and lifts the ban', async () => {
      const { open } = stage()
      const { user, auth } = await member(open)
      const before = Date.now()
      const { user: banned } = granted(await open.admin.updateUserById(user.id, { ban_duration: '1h30m' }))
      looksLikeUser(banned)
      const until = Date.parse(banned.banned_until!)
      // The clock of the database is this machine's.
      assert.ok(until >= before + 90 * 60_000 - 1000 && until <= Date.now() + 90 * 60_000 + 1000)
      refused(await auth.getUser(), 403, 'user_banned')
      const { user: free } = granted(await open.admin.updateUserById(user.id, { ban_duration: 'none' }))
      assert.ok(!free.banned_until || Date.parse(free.banned_until) <= Date.now())
      granted(await auth.getUser())
    })

    test('refuses what is taken or cannot be', async () => {
      const { open } = stage()
      const { user } = await member(open)
      const { email: taken } = await member(open)
      refused(await open.admin.updateUserById(anyId, { user_metadata: {} }), 404, 'user_not_found')
      refused(await open.admin.updateUserById(user.id, { email: taken }), 422, 'email_exists')
      refused(await open.admin.updateUserById(user.id, { ban_duration: 'soon' }), 400, 'validation_failed')
      refused(await open.admin.updateUserById(user.id, { password: '12345' }), 422, 'weak_password')
    })
  })

  describe('admin.deleteUser', () => {
    test('removes the user for good, and the address is free', async () => {
      const { open } = stage()
      const { user, email, auth, session } = await member(open)
      const { user: gone } = granted(await open.admin.deleteUser(user.id))
      assert.equal(gone.id, user.id)
      refused(await open.admin.getUserById(user.id), 404, 'user_not_found')
      refused(await open.admin.deleteUser(user.id), 404, 'user_not_found')
      refused(await auth.getUser(), 403, 'user_not_found')
      const { refresh_token } = session
      assert.equal((await open.connect().refreshSession({ refresh_token })).error?.status, 400)
      assert.equal(await canSignIn(open, email, password), false)
      const { user: next } = granted(await open.connect().signUp({ email, password }))
      assert.notEqual(next?.id, user.id)
    })

    test('softly, leaves a user nobody can recognise or be', async () => {
      const { open } = stage()
      const { user, email, auth, session } = await member(open)
      granted(await auth.updateUser({ data: { name: 'Ada' } }))
      granted(await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Phone' }))
      granted(await open.admin.deleteUser(user.id, true))
      const { user: left } = granted(await open.admin.getUserById(user.id))
      assert.ok('deleted_at' in left)
      assert.equal(JSON.stringify(left).includes(email), false)
      assert.deepEqual([left.user_metadata, left.app_metadata], [{}, {}])
      assert.equal('factors' in left, false)
      assert.notEqual((await auth.getUser()).error, null)
      const { refresh_token } = session
      assert.equal((await open.connect().refreshSession({ refresh_token })).error?.status, 400)
      assert.equal(await canSignIn(open, email, password), false)
      const { user: next } = granted(await open.connect().signUp({ email, password }))
      assert.notEqual(next?.id, user.id)
    })
  })
}
