// admin.generateLink: every kind of link, to be sent by somebody else.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import type { GenerateLinkParams } from '@supabase/supabase-js'
import { granted, looksLikeUser, refused } from './auth-objects.ts'
import { canSignIn, follow, land, member, password, someone } from './auth-people.ts'
import { type AuthProject, type Stage, siteUrl } from './auth-stage.ts'

export function linkTests(stage: () => Stage): void {
  /** A link that is what it should be, whatever its kind. */
  async function made(project: AuthProject, params: GenerateLinkParams, sentTo = params.email) {
    const { properties, user } = granted(await project.admin.generateLink(params))
    looksLikeUser(user)
    assert.deepEqual(Object.keys(properties).sort(), [
      'action_link',
      'email_otp',
      'hashed_token',
      'redirect_to',
      'verification_type',
    ])
    assert.match(properties.email_otp, /^\d{6}$/)
    const expected = createHash('sha224')
      .update(sentTo + properties.email_otp)
      .digest('hex')
    assert.equal(properties.hashed_token, expected)
    const link = new URL(properties.action_link)
    assert.equal(link.origin, new URL(stage().platform.url).origin)
    assert.ok(link.pathname.endsWith('/verify'))
    assert.equal(link.searchParams.get('token'), properties.hashed_token)
    assert.equal(properties.redirect_to, params.options?.redirectTo ?? siteUrl)
    return { ...properties, user }
  }
  const mailless = async (project: AuthProject, ...addresses: string[]) => {
    // What is asked for later has come, so what was sent before would have.
    const { email } = await member(project)
    granted(await project.connect().resetPasswordForEmail(email))
    await stage().mailbox.nextCode(email)
    for (const address of addresses)
      assert.deepEqual(
        stage()
          .mailbox.waiting(address)
          .filter(({ link }) => link !== undefined),
        [],
      )
  }

  describe('admin.generateLink', () => {
    test('signup makes the user, and the link lets them in', async () => {
      const { careful } = stage()
      const email = someone()
      const options = { data: { name: 'Ada' }, redirectTo: 'https://app.example.com/start' }
      const { user, ...link } = await made(careful, { type: 'signup', email, password, options })
      assert.equal(link.verification_type, 'signup')
      assert.equal(user.email, email)
      assert.equal(user.user_metadata['name'], 'Ada')
      assert.equal('email_confirmed_at' in user, false)
      const landing = await follow(link.action_link)
      assert.deepEqual([landing.status, landing.place], [303, 'https://app.example.com/start'])
      assert.equal((await land(careful.connect(), landing)).user.id, user.id)
      assert.equal(await canSignIn(careful, email, password), true)
      const again = await careful.admin.generateLink({ type: 'signup', email, password })
      refused(again, 422, 'email_exists')
      await mailless(careful, email)
    })

    test('invite makes the user too', async () => {
      const { open } = stage()
      const email = someone()
      const { user, ...link } = await made(open, {
        type: 'invite',
        email,
        options: { data: { team: 'blue' } },
      })
      assert.equal(link.verification_type, 'invite')
      assert.ok(user.invited_at)
      assert.equal(user.user_metadata['team'], 'blue')
      const { hashed_token: token_hash } = link
      const { user: joined } = granted(await open.connect().verifyOtp({ type: 'invite', token_hash }))
      assert.equal(joined?.id, user.id)
      assert.ok(joined.email_confirmed_at)
      refused(await open.admin.generateLink({ type: 'invite', email }), 422, 'email_exists')
      await mailless(open, email)
    })

    test('magiclink signs somebody known in', async () => {
      const { open } = stage()
      const { email, user: known } = await member(open)
      const { user, ...link } = await made(open, { type: 'magiclink', email })
      assert.equal(link.verification_type, 'magiclink')
      assert.equal(user.id, known.id)
      const token = link.email_otp
      const answer = await open.connect().verifyOtp({ type: 'magiclink', email, token })
      assert.equal(granted(answer).user?.id, known.id)
      await mailless(open, email)
    })

    test('magiclink for somebody unknown is a sign-up', async () => {
      const { careful } = stage()
      const email = someone()
      const { user, ...link } = await made(careful, { type: 'magiclink', email })
      assert.equal(link.verification_type, 'signup')
      const landing = await follow(link.action_link)
      assert.equal(landing.fragment['type'], 'signup')
      assert.equal((await land(careful.connect(), landing)).user.id, user.id)
    })

    test('recovery lets a new password be set', async () => {
      const { open } = stage()
      const { email, user: known } = await member(open)
      const { user, ...link } = await made(open, { type: 'recovery', email })
      assert.equal(link.verification_type, 'recovery')
      assert.equal(user.id, known.id)
      const auth = open.connect()
      const landing = await follow(link.action_link)
      assert.equal(landing.fragment['type'], 'recovery')
      await land(auth, landing)
      granted(await auth.updateUser({ password: 'a fresh new password' }))
      assert.equal(await canSignIn(open, email, 'a fresh new password'), true)
      const unknown = await open.admin.generateLink({ type: 'recovery', email: someone() })
      refused(unknown, 404, 'user_not_found')
    })

    test('email_change_current and email_change_new move somebody together', async () => {
      const { open } = stage()
      const { auth, email } = await member(open)
      const newEmail = someone('new')
      const current = await made(open, { type: 'email_change_current', email, newEmail })
      assert.equal(current.verification_type, 'email_change_current')
      const next = await made(open, { type: 'email_change_new', email, newEmail }, newEmail)
      assert.equal(next.verification_type, 'email_change_new')
      assert.equal(granted(await auth.getUser()).user.new_email, newEmail)
      const half = await follow(current.action_link)
      assert.deepEqual(Object.keys(half.fragment).sort(), ['message', 'sb'])
      const whole = await follow(next.action_link)
      assert.equal((await land(auth, whole)).user.email, newEmail)
      await mailless(open, email, newEmail)
    })

    test('a change to an address that is taken, or of nobody, is refused', async () => {
      const { open } = stage()
      const { email } = await member(open)
      const { email: taken } = await member(open)
      const type = 'email_change_new'
      refused(await open.admin.generateLink({ type, email, newEmail: taken }), 422, 'email_exists')
      const nobody = await open.admin.generateLink({ type, email: someone(), newEmail: someone() })
      refused(nobody, 404, 'user_not_found')
    })

    test('other kinds, and what is no address, are refused', async () => {
      const { open } = stage()
      const odd = await open.admin.generateLink({ type: 'carrier-pigeon' as 'invite', email: someone() })
      refused(odd, 400, 'validation_failed')
      refused(await open.admin.generateLink({ type: 'magiclink', email: 'ada' }), 400, 'validation_failed')
      const weak = await open.admin.generateLink({ type: 'signup', email: someone(), password: '12345' })
      refused(weak, 422, 'weak_password')
    })

    test('a place the project does not know is replaced by its site', async () => {
      const { open } = stage()
      const { email } = await member(open)
      const options = { redirectTo: 'https://evil.example.org/' }
      const { properties } = granted(await open.admin.generateLink({ type: 'magiclink', email, options }))
      assert.equal(properties.redirect_to, siteUrl)
      assert.equal((await follow(properties.action_link)).place, siteUrl)
    })
  })
}
