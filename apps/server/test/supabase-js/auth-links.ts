// admin.generateLink with every type of link.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import type { GenerateLinkParams } from '@supabase/supabase-js'
import { dataOf, looksLikeUser, refused } from './auth-objects.ts'
import { type AuthProject, type Setup, siteUrl } from './auth-setup.ts'
import { applyFragment, canSignIn, follow, newAddress, newUser, password } from './auth-users.ts'

export function linkTests(setup: () => Setup): void {
  /** Checks the common fields of a link of any type. */
  async function made(project: AuthProject, params: GenerateLinkParams, sentTo = params.email) {
    const { properties, user } = dataOf(await project.admin.generateLink(params))
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
    assert.equal(link.origin, new URL(setup().platform.url).origin)
    assert.ok(link.pathname.endsWith('/verify'))
    assert.equal(link.searchParams.get('token'), properties.hashed_token)
    assert.equal(properties.redirect_to, params.options?.redirectTo ?? siteUrl)
    return { ...properties, user }
  }
  const mailless = async (project: AuthProject, ...addresses: string[]) => {
    // A later mail has arrived, so an earlier one would have, too.
    const { email } = await newUser(project)
    dataOf(await project.connect().resetPasswordForEmail(email))
    await setup().mailbox.nextCode(email)
    for (const address of addresses)
      assert.deepEqual(
        setup()
          .mailbox.waiting(address)
          .filter(({ link }) => link !== undefined),
        [],
      )
  }

  describe('admin.generateLink', () => {
    test('signup creates the user, and the link signs in', async () => {
      const { confirming } = setup()
      const email = newAddress()
      const options = { data: { name: 'Ada' }, redirectTo: 'https://app.example.com/start' }
      const { user, ...link } = await made(confirming, { type: 'signup', email, password, options })
      assert.equal(link.verification_type, 'signup')
      assert.equal(user.email, email)
      assert.deepEqual(user.user_metadata, { name: 'Ada' })
      assert.equal('email_confirmed_at' in user, false)
      const landing = await follow(link.action_link)
      assert.deepEqual([landing.status, landing.place], [303, 'https://app.example.com/start'])
      assert.equal((await applyFragment(confirming.connect(), landing)).user.id, user.id)
      assert.equal(await canSignIn(confirming, email, password), true)
      const again = await confirming.admin.generateLink({ type: 'signup', email, password })
      refused(again, 422, 'email_exists')
      await mailless(confirming, email)
    })

    test('signup and invite replace the metadata of an unconfirmed user by the given data', async () => {
      const { confirming } = setup()
      const email = newAddress()
      const options = { data: { first: true } }
      dataOf(await confirming.connect().signUp({ email, password, options }))
      const invited = await made(confirming, { type: 'invite', email, options: { data: { team: 'blue' } } })
      assert.deepEqual(invited.user.user_metadata, { team: 'blue' })
      const signedUp = await made(confirming, { type: 'signup', email, password })
      assert.deepEqual(signedUp.user.user_metadata, {})
    })

    test('invite creates the user', async () => {
      const { open } = setup()
      const email = newAddress()
      const { user, ...link } = await made(open, {
        type: 'invite',
        email,
        options: { data: { team: 'blue' } },
      })
      assert.equal(link.verification_type, 'invite')
      assert.ok(user.invited_at)
      assert.deepEqual(user.user_metadata, { team: 'blue' })
      const { hashed_token: token_hash } = link
      const { user: joined } = dataOf(await open.connect().verifyOtp({ type: 'invite', token_hash }))
      assert.equal(joined?.id, user.id)
      assert.ok(joined.email_confirmed_at)
      refused(await open.admin.generateLink({ type: 'invite', email }), 422, 'email_exists')
      await mailless(open, email)
    })

    test('magiclink signs in an existing user', async () => {
      const { open } = setup()
      const { email, user: known } = await newUser(open)
      const { user, ...link } = await made(open, { type: 'magiclink', email })
      assert.equal(link.verification_type, 'magiclink')
      assert.equal(user.id, known.id)
      const token = link.email_otp
      const answer = await open.connect().verifyOtp({ type: 'magiclink', email, token })
      assert.equal(dataOf(answer).user?.id, known.id)
      await mailless(open, email)
    })

    test('magiclink for an unknown address is a sign-up', async () => {
      const { confirming } = setup()
      const email = newAddress()
      const { user, ...link } = await made(confirming, { type: 'magiclink', email })
      assert.equal(link.verification_type, 'signup')
      assert.deepEqual(user.user_metadata, {})
      const landing = await follow(link.action_link)
      assert.equal(landing.fragment['type'], 'signup')
      assert.equal((await applyFragment(confirming.connect(), landing)).user.id, user.id)
    })

    test('recovery allows setting a new password', async () => {
      const { open } = setup()
      const { email, user: known } = await newUser(open)
      const { user, ...link } = await made(open, { type: 'recovery', email })
      assert.equal(link.verification_type, 'recovery')
      assert.equal(user.id, known.id)
      const auth = open.connect()
      const landing = await follow(link.action_link)
      assert.equal(landing.fragment['type'], 'recovery')
      await applyFragment(auth, landing)
      dataOf(await auth.updateUser({ password: 'a fresh new password' }))
      assert.equal(await canSignIn(open, email, 'a fresh new password'), true)
      const unknown = await open.admin.generateLink({ type: 'recovery', email: newAddress() })
      refused(unknown, 404, 'user_not_found')
    })

    test('email_change_current and email_change_new together change the address', async () => {
      const { open } = setup()
      const { auth, email } = await newUser(open)
      const newEmail = newAddress('new')
      const current = await made(open, { type: 'email_change_current', email, newEmail })
      assert.equal(current.verification_type, 'email_change_current')
      const next = await made(open, { type: 'email_change_new', email, newEmail }, newEmail)
      assert.equal(next.verification_type, 'email_change_new')
      assert.equal(dataOf(await auth.getUser()).user.new_email, newEmail)
      const half = await follow(current.action_link)
      assert.deepEqual(Object.keys(half.fragment).sort(), ['message', 'sb'])
      const whole = await follow(next.action_link)
      assert.equal((await applyFragment(auth, whole)).user.email, newEmail)
      await mailless(open, email, newEmail)
    })

    test('a change to a taken address, or of an unknown user, is refused', async () => {
      const { open } = setup()
      const { email } = await newUser(open)
      const { email: taken } = await newUser(open)
      const type = 'email_change_new'
      refused(await open.admin.generateLink({ type, email, newEmail: taken }), 422, 'email_exists')
      const nobody = await open.admin.generateLink({ type, email: newAddress(), newEmail: newAddress() })
      refused(nobody, 404, 'user_not_found')
    })

    test('unknown types and invalid addresses are refused', async () => {
      const { open } = setup()
      const odd = await open.admin.generateLink({ type: 'carrier-pigeon' as 'invite', email: newAddress() })
      refused(odd, 400, 'validation_failed')
      refused(await open.admin.generateLink({ type: 'magiclink', email: 'ada' }), 400, 'validation_failed')
      const weak = await open.admin.generateLink({ type: 'signup', email: newAddress(), password: '12345' })
      refused(weak, 422, 'weak_password')
    })

    test('a redirect URL that is not allowed is replaced by the site URL', async () => {
      const { open } = setup()
      const { email } = await newUser(open)
      const options = { redirectTo: 'https://evil.example.org/' }
      const { properties } = dataOf(await open.admin.generateLink({ type: 'magiclink', email, options }))
      assert.equal(properties.redirect_to, siteUrl)
      assert.equal((await follow(properties.action_link)).place, siteUrl)
    })
  })
}
