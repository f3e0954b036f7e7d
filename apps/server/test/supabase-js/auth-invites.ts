// admin.inviteUserByEmail.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { dataOf, looksLikeUser, refused } from './auth-objects.ts'
import type { Setup } from './auth-setup.ts'
import { applyFragment, canSignIn, follow, newAddress, password } from './auth-users.ts'

export function inviteTests(setup: () => Setup): void {
  describe('admin.inviteUserByEmail', () => {
    test('sends a link that signs in, so that the user can set a password', async () => {
      for (const project of [setup().open, setup().confirming]) {
        const { mailbox } = setup()
        const email = newAddress()
        const { user } = dataOf(
          await project.admin.inviteUserByEmail(email, {
            data: { team: 'blue' },
            redirectTo: 'https://app.example.com/join',
          }),
        )
        looksLikeUser(user)
        assert.ok(user.invited_at)
        assert.equal('email_confirmed_at' in user, false)
        assert.deepEqual(user.user_metadata, { team: 'blue' })
        const { link } = await mailbox.nextLink(email)
        const landing = await follow(link)
        assert.deepEqual([landing.status, landing.place], [303, 'https://app.example.com/join'])
        assert.equal(landing.fragment['type'], 'invite')
        const auth = project.connect()
        const { user: joined } = await applyFragment(auth, landing)
        assert.equal(joined.id, user.id)
        assert.ok(joined.email_confirmed_at)
        dataOf(await auth.updateUser({ password }))
        assert.equal(await canSignIn(project, email, password), true)
      }
    })

    test('the token hash of the link is enough for verifyOtp', async () => {
      const { open, mailbox } = setup()
      const email = newAddress()
      dataOf(await open.admin.inviteUserByEmail(email))
      const { link } = await mailbox.nextLink(email)
      const token_hash = new URL(link).searchParams.get('token')!
      const { user } = dataOf(await open.connect().verifyOtp({ type: 'invite', token_hash }))
      assert.equal(user?.email, email)
    })

    test('can be repeated only until it is accepted', async () => {
      const { open, mailbox } = setup()
      const email = newAddress()
      const first = dataOf(await open.admin.inviteUserByEmail(email)).user
      const early = await mailbox.nextLink(email)
      const second = dataOf(await open.admin.inviteUserByEmail(email)).user
      assert.equal(second.id, first.id)
      const late = await mailbox.nextLink(email)
      assert.equal((await follow(early.link)).fragment['error_code'], 'otp_expired')
      assert.ok((await follow(late.link)).fragment['access_token'])
      refused(await open.admin.inviteUserByEmail(email), 422, 'email_exists')
      refused(await open.admin.inviteUserByEmail('ada'), 400, 'validation_failed')
    })

    test('works with sign-up disabled', async () => {
      const closed = await setup().project({ signup_enabled: false })
      const email = newAddress()
      dataOf(await closed.admin.inviteUserByEmail(email))
      const landing = await follow((await setup().mailbox.nextLink(email)).link)
      assert.ok(landing.fragment['access_token'])
    })
  })
}
