// signInWithOtp and verifyOtp: codes and links by mail work once, until they expire, for their type.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import type { VerifyOtpParams } from '@supabase/supabase-js'
import { dataOf, looksLikeSession, looksLikeUser, methodsOf, refused, uuid } from './auth-objects.ts'
import { type AuthProject, type Setup, siteUrl, welcomeSubject } from './auth-setup.ts'
import { applyFragment, canSignIn, follow, newAddress, newUser, password } from './auth-users.ts'

const nothing = { user: null, session: null }

async function userOf(project: AuthProject, email: string) {
  const { body } = await project.call('GET', `/admin/users?filter=${encodeURIComponent(email)}`, {
    token: project.serviceRoleKey,
  })
  return body.users[0]
}

export function codeTests(setup: () => Setup): void {
  const ask = async (project: AuthProject, email: string, flow: 'implicit' | 'pkce' = 'implicit') => {
    const auth = project.connect({ flow })
    const answer = await auth.signInWithOtp({ email })
    assert.deepEqual(dataOf(answer), nothing)
    return { auth, ...(await setup().mailbox.nextLink(email)) }
  }
  const tokenHashIn = (link: string) => new URL(link).searchParams.get('token')!

  describe('signInWithOtp', () => {
    test('signs up and signs in a new user with the code and ignores the given data', async () => {
      for (const project of [setup().open, setup().confirming]) {
        const email = newAddress()
        const auth = project.connect()
        const sent = await auth.signInWithOtp({ email, options: { data: { name: 'Eve' } } })
        assert.deepEqual(dataOf(sent), nothing)
        const { code } = await setup().mailbox.nextCode(email)
        const { session, user } = dataOf(await auth.verifyOtp({ type: 'email', email, token: code }))
        looksLikeSession(session)
        assert.deepEqual(methodsOf(session), ['otp'])
        assert.partialDeepStrictEqual(user, {
          email,
          is_anonymous: false,
          app_metadata: { provider: 'email', providers: ['email'] },
        })
        assert.ok(user?.email_confirmed_at)
        assert.equal('name' in user.user_metadata, false)
        assert.equal(user.user_metadata['email_verified'], true)
        assert.equal('name' in (user.identities?.[0]?.identity_data ?? {}), false)
        assert.equal('name' in dataOf(await auth.getUser()).user.user_metadata, false)
        await setup().mailbox.next(email, ({ subject }) => subject === welcomeSubject)
      }
    })

    test('the code of a new user has type signup, not magiclink', async () => {
      const { confirming, mailbox } = setup()
      const email = newAddress()
      const auth = confirming.connect()
      dataOf(await auth.signInWithOtp({ email }))
      const { code } = await mailbox.nextCode(email)
      refused(await auth.verifyOtp({ type: 'magiclink', email, token: code }), 403, 'otp_expired')
      dataOf(await auth.verifyOtp({ type: 'signup', email, token: code }))
    })

    test('signs in an existing user by code or magic link', async () => {
      const { open } = setup()
      const { email, user } = await newUser(open)
      for (const type of ['email', 'magiclink'] as const) {
        const { auth, code } = await ask(open, email)
        const { session, user: same } = dataOf(await auth.verifyOtp({ type, email, token: code! }))
        looksLikeSession(session)
        assert.equal(same?.id, user.id)
        assert.deepEqual(methodsOf(session), ['otp'])
      }
    })

    test('the token hash of the link signs in', async () => {
      const { open } = setup()
      const { email, user } = await newUser(open)
      const { auth, link, code } = await ask(open, email)
      const token_hash = tokenHashIn(link)
      assert.equal(
        token_hash,
        createHash('sha224')
          .update(email + code)
          .digest('hex'),
      )
      const { session, user: same } = dataOf(await auth.verifyOtp({ type: 'email', token_hash }))
      looksLikeSession(session)
      assert.equal(same?.id, user.id)
      refused(await auth.verifyOtp({ type: 'email', token_hash }), 403, 'otp_expired')
      refused(await auth.verifyOtp({ type: 'email', email, token: code! }), 403, 'otp_expired')
    })

    test('the link signs in with type magiclink', async () => {
      const { open } = setup()
      const { email, user } = await newUser(open)
      const { auth, link } = await ask(open, email)
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place], [303, siteUrl])
      assert.partialDeepStrictEqual(landing.fragment, { type: 'magiclink', token_type: 'bearer' })
      const { user: same } = await applyFragment(auth, landing)
      assert.equal(same.id, user.id)
    })

    test('in the PKCE flow the link returns a code that works once for its client', async () => {
      const { open } = setup()
      const { email, user } = await newUser(open)
      const { auth, link } = await ask(open, email, 'pkce')
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place, landing.fragment], [303, siteUrl, {}])
      const code = landing.query['code']!
      assert.match(code, uuid)
      const otherClient = await open.connect({ flow: 'pkce' }).exchangeCodeForSession(code)
      assert.equal(otherClient.error?.name, 'AuthPKCECodeVerifierMissingError')
      const empty = await open.connect().exchangeCodeForSession(code)
      assert.deepEqual([empty.error?.status, empty.error?.code], [400, 'validation_failed'])
      const { session, user: same } = dataOf(await auth.exchangeCodeForSession(code))
      looksLikeSession(session)
      assert.equal(same.id, user.id)
      const other = await ask(open, email, 'pkce')
      refused(await other.auth.exchangeCodeForSession(code), 404, 'flow_state_not_found')
    })

    test('a PKCE code expires', async () => {
      const { open } = setup()
      const { email } = await newUser(open)
      const { auth, link } = await ask(open, email, 'pkce')
      const { query } = await follow(link)
      await open.expireTokens()
      refused(await auth.exchangeCodeForSession(query['code']!), 422, 'flow_state_expired')
    })

    test('with shouldCreateUser false an unknown address gets the same answer, no account and no mail', async () => {
      const { open, mailbox } = setup()
      const { email: known } = await newUser(open)
      const unknown = newAddress()
      const options = { shouldCreateUser: false }
      const toUnknown = await open.connect().signInWithOtp({ email: unknown, options })
      const toKnown = await open.connect().signInWithOtp({ email: known, options })
      assert.deepEqual(toUnknown, toKnown)
      assert.deepEqual(dataOf(toKnown), nothing)
      await mailbox.nextCode(known)
      assert.deepEqual(mailbox.waiting(unknown), [])
      assert.equal(await userOf(open, unknown), undefined)
    })

    test('an unknown and a known address get the same answer on the wire', async () => {
      const { open } = setup()
      const { email: known } = await newUser(open)
      for (const path of ['/otp', '/magiclink', '/recover']) {
        const answers = []
        for (const email of [known, newAddress()]) {
          const { status, body } = await open.call('POST', path, { body: { email } })
          answers.push({ status, body })
        }
        assert.deepEqual(answers, Array(2).fill({ status: 200, body: {} }), path)
      }
    })

    test('is refused for an invalid address and if magic links are disabled', async () => {
      const { open, project } = setup()
      refused(await open.connect().signInWithOtp({ email: 'ada' }), 400, 'validation_failed')
      const without = await project({ magic_link_enabled: false })
      const { error } = await without.connect().signInWithOtp({ email: newAddress() })
      assert.equal(error?.status, 422)
      assert.equal(typeof error.code, 'string')
    })
  })

  describe('verifyOtp', () => {
    test('a code works once, for its address, until a newer one is sent', async () => {
      const { open } = setup()
      const { email } = await newUser(open)
      const { email: other } = await newUser(open)
      const first = await ask(open, email)
      const second = await ask(open, email)
      const verify = (token: string, of = email) =>
        open.connect().verifyOtp({ type: 'email', email: of, token })
      refused(await verify(first.code!), 403, 'otp_expired')
      refused(await verify(second.code!, other), 403, 'otp_expired')
      refused(await verify(second.code!, newAddress()), 403, 'otp_expired')
      refused(await verify(second.code === '000000' ? '111111' : '000000'), 403, 'otp_expired')
      dataOf(await verify(second.code!))
      refused(await verify(second.code!), 403, 'otp_expired')
    })

    test('a code and a link expire', async () => {
      const { open } = setup()
      const { email } = await newUser(open)
      const { auth, code, link } = await ask(open, email)
      await open.expireTokens()
      refused(await auth.verifyOtp({ type: 'email', email, token: code! }), 403, 'otp_expired')
      const token_hash = tokenHashIn(link)
      refused(await auth.verifyOtp({ type: 'email', token_hash }), 403, 'otp_expired')
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place], [303, siteUrl])
      assert.equal(landing.fragment['error_code'], 'otp_expired')
    })

    test('needs exactly one token and a known type', async () => {
      const { open } = setup()
      const { email } = await newUser(open)
      const { auth, code, link } = await ask(open, email)
      const token_hash = tokenHashIn(link)
      const tries = {
        'token and token_hash': { type: 'email', email, token: code, token_hash },
        'token_hash and email': { type: 'email', email, token_hash },
        'neither token nor token_hash': { type: 'email', email },
        'a token without an address': { type: 'email', token: code },
        'no type': { email, token: code },
        'an unknown type': { type: 'carrier-pigeon', email, token: code },
      }
      for (const [what, params] of Object.entries(tries)) {
        const { error } = await auth.verifyOtp(params as unknown as VerifyOtpParams)
        assert.deepEqual([error?.status, error?.code], [400, 'validation_failed'], what)
      }
      dataOf(await auth.verifyOtp({ type: 'email', email, token: code! }))
    })

    test('an unknown link redirects to the site with the error', async () => {
      const { open, platform } = setup()
      const landing = await follow(
        `${platform.url}/v1/auth/${open.id}/verify?token=${'0'.repeat(56)}&type=magiclink&redirect_to=`,
      )
      assert.deepEqual([landing.status, landing.place], [303, siteUrl])
      assert.partialDeepStrictEqual(landing.fragment, {
        error: 'access_denied',
        error_code: 'otp_expired',
        sb: '',
      })
      const pkce = await follow(
        `${platform.url}/v1/auth/${open.id}/verify?token=pkce_${'0'.repeat(56)}&type=magiclink`,
      )
      assert.equal(pkce.query['error_code'], 'otp_expired')
      assert.equal(pkce.fragment['error_code'], 'otp_expired')
    })

    test('a banned user gets no session by code', async () => {
      const { open } = setup()
      const { email, user } = await newUser(open)
      const { auth, code } = await ask(open, email)
      dataOf(await open.admin.updateUserById(user.id, { ban_duration: '1h' }))
      const { data, error } = await auth.verifyOtp({ type: 'email', email, token: code! })
      assert.deepEqual([data, error?.code], [nothing, 'user_banned'])
    })

    test('a magic link confirms the address and resets an earlier unconfirmed sign-up', async () => {
      const { confirming, mailbox } = setup()
      const email = newAddress()
      const auth = confirming.connect()
      dataOf(await auth.signUp({ email, password }))
      await mailbox.nextCode(email)
      const mail = await ask(confirming, email)
      const { user } = dataOf(await mail.auth.verifyOtp({ type: 'email', email, token: mail.code! }))
      looksLikeUser(user)
      assert.ok(user.email_confirmed_at)
      assert.equal(await canSignIn(confirming, email, password), false)
    })
  })
}
