// mfa: a second factor from enrolment to removal, by its owner and by an administrator.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { codeOf, enroll, userWithFactor } from './auth-authenticator.ts'
import {
  claimsOf,
  dataOf,
  looksLikeFactor,
  looksLikeSession,
  methodsOf,
  refused,
  sessionMissing,
  uuid,
} from './auth-objects.ts'
import type { Setup } from './auth-setup.ts'
import { listening } from './auth-state-changes.ts'
import { newUser, type SignedInUser, signIn } from './auth-users.ts'

const anyId = '11111111-1111-4111-8111-111111111111'

export function factorTests(setup: () => Setup): void {
  describe('mfa.enroll', () => {
    test('returns the secret as text, URI and QR code', async () => {
      const { auth, email } = await newUser(setup().open)
      const enrolled = dataOf(
        await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Phone', issuer: 'Example & Co' }),
      )
      const { id, totp, ...rest } = enrolled
      assert.match(id, uuid)
      assert.deepEqual(rest, { type: 'totp', friendly_name: 'Phone' })
      assert.match(totp.secret, /^[A-Z2-7]{16,}=*$/)
      const uri = new URL(totp.uri)
      assert.equal(`${uri.protocol}//${uri.host}`, 'otpauth://totp')
      assert.equal(uri.searchParams.get('secret'), totp.secret)
      assert.equal(uri.searchParams.get('issuer'), 'Example & Co')
      assert.ok(decodeURIComponent(uri.pathname).includes(email))
      assert.match(totp.qr_code, /^data:image\/svg\+xml;utf-8,<(svg|\?xml)/)
      assert.ok(totp.qr_code.trimEnd().endsWith('</svg>'))
    })

    test('a factor is active after its verification', async () => {
      const { auth } = await newUser(setup().open)
      assert.deepEqual(dataOf(await auth.mfa.listFactors()).all, [])
      const { id, secret } = await enroll(auth)
      const before = dataOf(await auth.mfa.listFactors())
      assert.deepEqual(before.totp, [])
      looksLikeFactor(before.all[0]!)
      assert.partialDeepStrictEqual(before.all, [
        { id, status: 'unverified', factor_type: 'totp', friendly_name: 'Phone' },
      ])
      const level = dataOf(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([level.currentLevel, level.nextLevel], ['aal1', 'aal1'])
      dataOf(await auth.mfa.challengeAndVerify({ factorId: id, code: codeOf(secret) }))
      const after = dataOf(await auth.mfa.listFactors())
      assert.deepEqual(after.totp, after.all)
      assert.partialDeepStrictEqual(after.totp, [{ id, status: 'verified' }])
    })

    test('names are unique, and a user can have ten factors', async () => {
      const { auth } = await newUser(setup().open)
      await enroll(auth, 'Phone')
      const twice = await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Phone' })
      refused(twice, 422, 'mfa_factor_name_conflict')
      for (let n = 2; n <= 10; n++) await enroll(auth, `Phone ${n}`)
      const eleventh = await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Phone 11' })
      refused(eleventh, 422, 'too_many_enrolled_mfa_factors')
    })

    test('is refused for anonymous users, without a session, and if MFA is disabled', async () => {
      const { open, project } = setup()
      const auth = open.connect()
      dataOf(await auth.signInAnonymously())
      refused(await auth.mfa.enroll({ factorType: 'totp' }), 403, 'no_authorization')
      refused(await open.connect().mfa.enroll({ factorType: 'totp' }), 401, 'no_authorization')
      const without = await project({ mfa_enabled: false })
      const { auth: here } = await newUser(without)
      const { error } = await here.mfa.enroll({ factorType: 'totp' })
      assert.equal(error?.status, 422)
      assert.match(error.code!, /^mfa_\w+_not_enabled$/)
    })

    test('other factor types are refused', async () => {
      const { auth } = await newUser(setup().open)
      const phone = await auth.mfa.enroll({ factorType: 'phone', phone: '+4915112345678' })
      assert.equal(phone.error?.status, 422)
      assert.match(phone.error.code!, /^mfa_\w+_not_enabled$/)
      const odd = await auth.mfa.enroll({ factorType: 'tea-leaves' as 'totp' })
      refused(odd, 400, 'validation_failed')
    })
  })

  describe('mfa.challenge and mfa.verify', () => {
    test('upgrade the session to aal2 with the same id and new tokens', async () => {
      const { open } = setup()
      const { auth, session, user } = await newUser(open)
      const watch = await listening(auth)
      const { id, secret } = await enroll(auth)
      const challenge = dataOf(await auth.mfa.challenge({ factorId: id }))
      assert.match(challenge.id, uuid)
      assert.equal(challenge.type, 'totp')
      const lasts = challenge.expires_at - Date.now() / 1000
      assert.ok(lasts > 0 && lasts <= 301, `${lasts}`)
      const verified = dataOf(
        await auth.mfa.verify({ factorId: id, challengeId: challenge.id, code: codeOf(secret) }),
      )
      looksLikeSession(verified as SignedInUser['session'])
      assert.deepEqual(watch.events, ['INITIAL_SESSION', 'MFA_CHALLENGE_VERIFIED'])
      assert.notEqual(verified.refresh_token, session.refresh_token)
      assert.equal(verified.user.id, user.id)
      const claims = claimsOf(verified)
      assert.deepEqual([claims.aal, claims.session_id], ['aal2', claimsOf(session).session_id])
      assert.deepEqual(methodsOf(verified), ['totp', 'password'])
      const level = dataOf(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([level.currentLevel, level.nextLevel], ['aal2', 'aal2'])
      assert.deepEqual(level.currentAuthenticationMethods, claims.amr)
      const { session: refreshed } = dataOf(await auth.refreshSession())
      assert.equal(claimsOf(refreshed!).aal, 'aal2')
      assert.deepEqual(methodsOf(refreshed!), ['totp', 'password'])
    })

    test('a wrong or used code is refused', async () => {
      const { auth } = await newUser(setup().open)
      const { id, secret } = await enroll(auth)
      const right = codeOf(secret)
      const wrong = right === '000000' ? '111111' : '000000'
      const challenge = dataOf(await auth.mfa.challenge({ factorId: id }))
      const answer = (code: string) => auth.mfa.verify({ factorId: id, challengeId: challenge.id, code })
      refused(await answer(wrong), 422, 'mfa_verification_failed')
      const level = dataOf(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.equal(level.currentLevel, 'aal1')
      dataOf(await auth.mfa.challengeAndVerify({ factorId: id, code: right }))
      const again = await auth.mfa.challengeAndVerify({ factorId: id, code: right })
      refused(again, 422, 'mfa_verification_failed')
    })

    test('a challenge belongs to its factor, works once, and expires', async () => {
      const { open } = setup()
      const { auth } = await newUser(open)
      const { id, secret } = await enroll(auth)
      const other = await enroll(auth, 'Tablet')
      const code = codeOf(secret)
      const unknown = await auth.mfa.verify({ factorId: id, challengeId: anyId, code })
      refused(unknown, 422, 'mfa_factor_not_found')
      const foreign = dataOf(await auth.mfa.challenge({ factorId: other.id }))
      const mixed = await auth.mfa.verify({ factorId: id, challengeId: foreign.id, code })
      refused(mixed, 422, 'mfa_factor_not_found')
      const old = dataOf(await auth.mfa.challenge({ factorId: id }))
      await open.expireTokens()
      const late = await auth.mfa.verify({ factorId: id, challengeId: old.id, code })
      refused(late, 422, 'mfa_challenge_expired')
      const challenge = dataOf(await auth.mfa.challenge({ factorId: id }))
      dataOf(await auth.mfa.verify({ factorId: id, challengeId: challenge.id, code }))
      const next = codeOf(secret, 1)
      const twice = await auth.mfa.verify({ factorId: id, challengeId: challenge.id, code: next })
      assert.equal(twice.error?.status, 422)
    })

    test('an unknown factor and one of another user are not found', async () => {
      const { open } = setup()
      const { auth } = await newUser(open)
      const { id } = await enroll((await newUser(open)).auth)
      for (const factorId of [anyId, id]) {
        refused(await auth.mfa.challenge({ factorId }), 404, 'mfa_factor_not_found')
        refused(await auth.mfa.challengeAndVerify({ factorId, code: '000000' }), 404, 'mfa_factor_not_found')
        refused(await auth.mfa.unenroll({ factorId }), 404, 'mfa_factor_not_found')
      }
    })

    test('the first verified factor ends sessions at aal1 and other enrolments', async () => {
      const { open } = setup()
      const { auth, email } = await newUser(open)
      const other = await signIn(open, email)
      const { id, secret } = await enroll(auth)
      await enroll(auth, 'Tablet')
      dataOf(await auth.mfa.challengeAndVerify({ factorId: id, code: codeOf(secret) }))
      sessionMissing(await other.auth.getUser())
      const { all } = dataOf(await auth.mfa.listFactors())
      assert.deepEqual(
        all.map(factor => factor.id),
        [id],
      )
      dataOf(await auth.getUser())
    })
  })

  describe('a user with a second factor', () => {
    test('signs in at aal1, and nextLevel is aal2', async () => {
      const { open } = setup()
      const { email, factorId, secret } = await userWithFactor(open)
      const { auth, session } = await signIn(open, email)
      assert.equal(claimsOf(session).aal, 'aal1')
      const level = dataOf(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([level.currentLevel, level.nextLevel], ['aal1', 'aal2'])
      const byToken = dataOf(await open.connect().mfa.getAuthenticatorAssuranceLevel(session.access_token))
      assert.deepEqual(byToken, level)
      dataOf(await auth.mfa.challengeAndVerify({ factorId, code: codeOf(secret, 1) }))
      const after = dataOf(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([after.currentLevel, after.nextLevel], ['aal2', 'aal2'])
      const nobody = dataOf(await open.connect().mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual(nobody, { currentLevel: null, nextLevel: null, currentAuthenticationMethods: [] })
    })

    test('cannot change email or password before verifying it', async () => {
      const { open } = setup()
      const { email, factorId } = await userWithFactor(open)
      const { auth } = await signIn(open, email)
      refused(await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Mine' }), 403, 'insufficient_aal')
      refused(await auth.mfa.unenroll({ factorId }), 422, 'insufficient_aal')
      refused(await auth.updateUser({ password: 'a fresh new password' }), 401, 'insufficient_aal')
      dataOf(await auth.getUser())
    })

    test('can add a second factor and then remove the first', async () => {
      const { open } = setup()
      const { auth, factorId } = await userWithFactor(open)
      const { id } = await enroll(auth, 'Tablet')
      assert.deepEqual(await auth.mfa.unenroll({ factorId }), { data: { id: factorId }, error: null })
      const { all } = dataOf(await auth.mfa.listFactors())
      assert.deepEqual(
        all.map(factor => factor.id),
        [id],
      )
      refused(await auth.mfa.unenroll({ factorId }), 404, 'mfa_factor_not_found')
    })
  })

  describe('admin.mfa', () => {
    test('lists the factors of a user and removes one', async () => {
      const { open } = setup()
      const { user, factorId, email } = await userWithFactor(open)
      const { factors } = dataOf(await open.admin.mfa.listFactors({ userId: user.id }))
      assert.ok(Array.isArray(factors))
      for (const factor of factors) looksLikeFactor(factor)
      assert.partialDeepStrictEqual(factors, [{ id: factorId, status: 'verified', friendly_name: 'Phone' }])
      assert.equal('secret' in factors[0]!, false)
      dataOf(await open.admin.mfa.deleteFactor({ userId: user.id, id: factorId }))
      assert.deepEqual(dataOf(await open.admin.mfa.listFactors({ userId: user.id })).factors, [])
      const { auth } = await signIn(open, email)
      const level = dataOf(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([level.currentLevel, level.nextLevel], ['aal1', 'aal1'])
    })

    test('returns the deleted factor', async () => {
      const { open } = setup()
      const { user, factorId } = await userWithFactor(open)
      const { status, body } = await open.call('DELETE', `/admin/users/${user.id}/factors/${factorId}`, {
        token: open.serviceRoleKey,
      })
      assert.equal(status, 200)
      looksLikeFactor(body)
      assert.equal(body.id, factorId)
    })

    test('refuses unknown users and callers without permission', async () => {
      const { open } = setup()
      const { user, factorId, session } = await userWithFactor(open)
      refused(await open.admin.mfa.listFactors({ userId: anyId }), 404, 'user_not_found')
      const gone = await open.admin.mfa.deleteFactor({ userId: user.id, id: anyId })
      refused(gone, 404, 'mfa_factor_not_found')
      const path = `/admin/users/${user.id}/factors/${factorId}`
      const own = await open.call('DELETE', path, { token: session.access_token })
      assert.deepEqual([own.status, own.body.error_code], [403, 'not_admin'])
      assert.equal(dataOf(await open.admin.mfa.listFactors({ userId: user.id })).factors.length, 1)
    })
  })
}
