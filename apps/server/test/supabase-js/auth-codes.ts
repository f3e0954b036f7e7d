// signInWithOtp and verifyOtp: codes and links by mail, each good once, for a while, and for what it was sent for.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import type { VerifyOtpParams } from '@supabase/supabase-js'
import { granted, looksLikeSession, looksLikeUser, methodsOf, refused, uuid } from './auth-objects.ts'
import { canSignIn, follow, land, member, password, someone } from './auth-people.ts'
import { type AuthProject, type Stage, siteUrl, welcomeSubject } from './auth-stage.ts'

const nothing = { user: null, session: null }

async function userOf(project: AuthProject, email: string) {
  const { body } = await project.call('GET', `/admin/users?filter=${encodeURIComponent(email)}`, {
    token: project.serviceRoleKey,
  })
  return body.users[0]
}

export function codeTests(stage: () => Stage): void {
  const ask = async (project: AuthProject, email: string, flow: 'implicit' | 'pkce' = 'implicit') => {
    const auth = project.connect({ flow })
    const answer = await auth.signInWithOtp({ email })
    assert.deepEqual(granted(answer), nothing)
    return { auth, ...(await stage().mailbox.nextLink(email)) }
  }
  const tokenHashIn = (link: string) => new URL(link).searchParams.get('token')!

  describe('signInWithOtp', () => {
    test('signs a newcomer up and in with the code, without the data that was sent along', async () => {
      for (const project of [stage().open, stage().careful]) {
        const email = someone()
        const auth = project.connect()
        const asked = await auth.signInWithOtp({ email, options: { data: { name: 'Eve' } } })
        assert.deepEqual(granted(asked), nothing)
        const { code } = await stage().mailbox.nextCode(email)
        const { session, user } = granted(await auth.verifyOtp({ type: 'email', email, token: code }))
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
        assert.equal('name' in granted(await auth.getUser()).user.user_metadata, false)
        await stage().mailbox.next(email, ({ subject }) => subject === welcomeSubject)
      }
    })

    test('a newcomer’s code is that of a sign-up, not of a magic link', async () => {
      const { careful, mailbox } = stage()
      const email = someone()
      const auth = careful.connect()
      granted(await auth.signInWithOtp({ email }))
      const { code } = await mailbox.nextCode(email)
      refused(await auth.verifyOtp({ type: 'magiclink', email, token: code }), 403, 'otp_expired')
      granted(await auth.verifyOtp({ type: 'signup', email, token: code }))
    })

    test('signs somebody known in, by code or as a magic link', async () => {
      const { open } = stage()
      const { email, user } = await member(open)
      for (const type of ['email', 'magiclink'] as const) {
        const { auth, code } = await ask(open, email)
        const { session, user: same } = granted(await auth.verifyOtp({ type, email, token: code! }))
        looksLikeSession(session)
        assert.equal(same?.id, user.id)
        assert.deepEqual(methodsOf(session), ['otp'])
      }
    })

    test('the hash in the link is a credential of its own', async () => {
      const { open } = stage()
      const { email, user } = await member(open)
      const { auth, link, code } = await ask(open, email)
      const token_hash = tokenHashIn(link)
      assert.equal(
        token_hash,
        createHash('sha224')
          .update(email + code)
          .digest('hex'),
      )
      const { session, user: same } = granted(await auth.verifyOtp({ type: 'email', token_hash }))
      looksLikeSession(session)
      assert.equal(same?.id, user.id)
      refused(await auth.verifyOtp({ type: 'email', token_hash }), 403, 'otp_expired')
      refused(await auth.verifyOtp({ type: 'email', email, token: code! }), 403, 'otp_expired')
    })

    test('the link signs in, and says that it was a magic link', async () => {
      const { open } = stage()
      const { email, user } = await member(open)
      const { auth, link } = await ask(open, email)
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place], [303, siteUrl])
      assert.partialDeepStrictEqual(landing.fragment, { type: 'magiclink', token_type: 'bearer' })
      const { user: same } = await land(auth, landing)
      assert.equal(same.id, user.id)
    })

    test('in the PKCE flow the link brings a code, good once and for one client', async () => {
      const { open } = stage()
      const { email, user } = await member(open)
      const { auth, link } = await ask(open, email, 'pkce')
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place, landing.fragment], [303, siteUrl, {}])
      const code = landing.query['code']!
      assert.match(code, uuid)
      const stranger = await open.connect({ flow: 'pkce' }).exchangeCodeForSession(code)
      assert.equal(stranger.error?.name, 'AuthPKCECodeVerifierMissingError')
      const empty = await open.connect().exchangeCodeForSession(code)
      assert.deepEqual([empty.error?.status, empty.error?.code], [400, 'validation_failed'])
      const { session, user: same } = granted(await auth.exchangeCodeForSession(code))
      looksLikeSession(session)
      assert.equal(same.id, user.id)
      const other = await ask(open, email, 'pkce')
      refused(await other.auth.exchangeCodeForSession(code), 404, 'flow_state_not_found')
    })

    test('a code for the PKCE flow does not last for ever', async () => {
      const { open } = stage()
      const { email } = await member(open)
      const { auth, link } = await ask(open, email, 'pkce')
      const { query } = await follow(link)
      await open.letADayPass()
      refused(await auth.exchangeCodeForSession(query['code']!), 422, 'flow_state_expired')
    })

    test('with shouldCreateUser false a stranger gets the same answer, no account and no mail', async () => {
      const { open, mailbox } = stage()
      const { email: known } = await member(open)
      const unknown = someone()
      const options = { shouldCreateUser: false }
      const toUnknown = await open.connect().signInWithOtp({ email: unknown, options })
      const toKnown = await open.connect().signInWithOtp({ email: known, options })
      assert.deepEqual(toUnknown, toKnown)
      assert.deepEqual(granted(toKnown), nothing)
      await mailbox.nextCode(known)
      assert.deepEqual(mailbox.waiting(unknown), [])
      assert.equal(await userOf(open, unknown), undefined)
    })

    test('an unknown and a known address get the same answer on the wire', async () => {
      const { open } = stage()
      const { email: known } = await member(open)
      for (const path of ['/otp', '/magiclink', '/recover']) {
        const answers = []
        for (const email of [known, someone()]) {
          const { status, body } = await open.call('POST', path, { body: { email } })
          answers.push({ status, body })
        }
        assert.deepEqual(answers, Array(2).fill({ status: 200, body: {} }), path)
      }
    })

    test('is refused for what is no address, and where links are switched off', async () => {
      const { open, project } = stage()
      refused(await open.connect().signInWithOtp({ email: 'ada' }), 400, 'validation_failed')
      const without = await project({ magic_link_enabled: false })
      const { error } = await without.connect().signInWithOtp({ email: someone() })
      assert.equal(error?.status, 422)
      assert.equal(typeof error.code, 'string')
    })
  })

  describe('verifyOtp', () => {
    test('a code is good once, for its address, and until the next one', async () => {
      const { open } = stage()
      const { email } = await member(open)
      const { email: other } = await member(open)
      const first = await ask(open, email)
      const second = await ask(open, email)
      const verify = (token: string, of = email) =>
        open.connect().verifyOtp({ type: 'email', email: of, token })
      refused(await verify(first.code!), 403, 'otp_expired')
      refused(await verify(second.code!, other), 403, 'otp_expired')
      refused(await verify(second.code!, someone()), 403, 'otp_expired')
      refused(await verify(second.code === '000000' ? '111111' : '000000'), 403, 'otp_expired')
      granted(await verify(second.code!))
      refused(await verify(second.code!), 403, 'otp_expired')
    })

    test('a code and a link expire', async () => {
      const { open } = stage()
      const { email } = await member(open)
      const { auth, code, link } = await ask(open, email)
      await open.letADayPass()
      refused(await auth.verifyOtp({ type: 'email', email, token: code! }), 403, 'otp_expired')
      const token_hash = tokenHashIn(link)
      refused(await auth.verifyOtp({ type: 'email', token_hash }), 403, 'otp_expired')
      const landing = await follow(link)
      assert.deepEqual([landing.status, landing.place], [303, siteUrl])
      assert.equal(landing.fragment['error_code'], 'otp_expired')
    })

    test('asks for one proof at a time, of a kind that exists', async () => {
      const { open } = stage()
      const { email } = await member(open)
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
      granted(await auth.verifyOtp({ type: 'email', email, token: code! }))
    })

    test('a link nobody sent leads to the site with the reason', async () => {
      const { open, platform } = stage()
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
      const { open } = stage()
      const { email, user } = await member(open)
      const { auth, code } = await ask(open, email)
      granted(await open.admin.updateUserById(user.id, { ban_duration: '1h' }))
      const { data, error } = await auth.verifyOtp({ type: 'email', email, token: code! })
      assert.deepEqual([data, error?.code], [nothing, 'user_banned'])
    })

    test('a magic link proves an address, and ends what somebody else may have signed up', async () => {
      const { careful, mailbox } = stage()
      const email = someone()
      const auth = careful.connect()
      granted(await auth.signUp({ email, password }))
      await mailbox.nextCode(email)
      const asked = await ask(careful, email)
      const { user } = granted(await asked.auth.verifyOtp({ type: 'email', email, token: asked.code! }))
      looksLikeUser(user)
      assert.ok(user.email_confirmed_at)
      assert.equal(await canSignIn(careful, email, password), false)
    })
  })
}
