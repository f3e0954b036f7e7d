// admin.inviteUserByEmail: a way in for those who have not asked for one.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { granted, looksLikeUser, refused } from './auth-objects.ts'
import { canSignIn, follow, land, password, someone } from './auth-people.ts'
import type { Stage } from './auth-stage.ts'

export function inviteTests(stage: () => Stage): void {
  describe('admin.inviteUserByEmail', () => {
    test('sends a link that lets the invited in, who then set a password', async () => {
      for (const project of [stage().open, stage().careful]) {
        const { mailbox } = stage()
        const email = someone()
        const { user } = granted(
          await project.admin.inviteUserByEmail(email, {
            data: { team: 'blue' },
            redirectTo: 'https://app.example.com/join',
          }),
        )
        looksLikeUser(user)
        assert.ok(user.invited_at)
        assert.equal('email_confirmed_at' in user, false)
        assert.equal(user.user_metadata['team'], 'blue')
        const { link } = await mailbox.nextLink(email)
        const landing = await follow(link)
        assert.deepEqual([landing.status, landing.place], [303, 'https://app.example.com/join'])
        assert.equal(landing.fragment['type'], 'invite')
        const auth = project.connect()
        const { user: joined } = await land(auth, landing)
        assert.equal(joined.id, user.id)
        assert.ok(joined.email_confirmed_at)
        granted(await auth.updateUser({ password }))
        assert.equal(await canSignIn(project, email, password), true)
      }
    })

    test('the hash in the link is enough for verifyOtp', async () => {
      const { open, mailbox } = stage()
      const email = someone()
      granted(await open.admin.inviteUserByEmail(email))
      const { link } = await mailbox.nextLink(email)
      const token_hash = new URL(link).searchParams.get('token')!
      const { user } = granted(await open.connect().verifyOtp({ type: 'invite', token_hash }))
      assert.equal(user?.email, email)
    })

    test('can be repeated until it is accepted, not after', async () => {
      const { open, mailbox } = stage()
      const email = someone()
      const first = granted(await open.admin.inviteUserByEmail(email)).user
      const early = await mailbox.nextLink(email)
      const second = granted(await open.admin.inviteUserByEmail(email)).user
      assert.equal(second.id, first.id)
      const late = await mailbox.nextLink(email)
      assert.equal((await follow(early.link)).fragment['error_code'], 'otp_expired')
      assert.ok((await follow(late.link)).fragment['access_token'])
      refused(await open.admin.inviteUserByEmail(email), 422, 'email_exists')
      refused(await open.admin.inviteUserByEmail('ada'), 400, 'validation_failed')
    })

    test('invites where nobody may sign up by themselves', async () => {
      const closed = await stage().project({ signup_enabled: false })
      const email = someone()
      granted(await closed.admin.inviteUserByEmail(email))
      const landing = await follow((await stage().mailbox.nextLink(email)).link)
      assert.ok(landing.fragment['access_token'])
    })
  })
}
