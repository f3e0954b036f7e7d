// mfa: a second factor from enrolment to removal, by its owner and by an administrator.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { codeOf, enroll, guarded } from './auth-authenticator.ts'
import {
  claimsOf,
  granted,
  looksLikeFactor,
  looksLikeSession,
  methodsOf,
  refused,
  sessionMissing,
  uuid,
} from './auth-objects.ts'
import { type Member, member, signIn } from './auth-people.ts'
import type { Stage } from './auth-stage.ts'
import { listening } from './auth-watching.ts'

const anyId = '11111111-1111-4111-8111-111111111111'

export function factorTests(stage: () => Stage): void {
  describe('mfa.enroll', () => {
    test('answers a secret to keep, as text, as a link and as a picture', async () => {
      const { auth, email } = await member(stage().open)
      const enrolled = granted(
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

    test('a factor counts once it is verified', async () => {
      const { auth } = await member(stage().open)
      assert.deepEqual(granted(await auth.mfa.listFactors()).all, [])
      const { id, secret } = await enroll(auth)
      const before = granted(await auth.mfa.listFactors())
      assert.deepEqual(before.totp, [])
      looksLikeFactor(before.all[0]!)
      assert.partialDeepStrictEqual(before.all, [
        { id, status: 'unverified', factor_type: 'totp', friendly_name: 'Phone' },
      ])
      const level = granted(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([level.currentLevel, level.nextLevel], ['aal1', 'aal1'])
      granted(await auth.mfa.challengeAndVerify({ factorId: id, code: codeOf(secret) }))
      const after = granted(await auth.mfa.listFactors())
      assert.deepEqual(after.totp, after.all)
      assert.partialDeepStrictEqual(after.totp, [{ id, status: 'verified' }])
    })

    test('names are unique, and ten factors are enough', async () => {
      const { auth } = await member(stage().open)
      await enroll(auth, 'Phone')
      const twice = await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Phone' })
      refused(twice, 422, 'mfa_factor_name_conflict')
      for (let n = 2; n <= 10; n++) await enroll(auth, `Phone ${n}`)
      const eleventh = await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Phone 11' })
      refused(eleventh, 422, 'too_many_enrolled_mfa_factors')
    })

    test('is refused to the anonymous, to strangers, and where it is switched off', async () => {
      const { open, project } = stage()
      const auth = open.connect()
      granted(await auth.signInAnonymously())
      refused(await auth.mfa.enroll({ factorType: 'totp' }), 403, 'no_authorization')
      refused(await open.connect().mfa.enroll({ factorType: 'totp' }), 401, 'no_authorization')
      const without = await project({ mfa_enabled: false })
      const { auth: here } = await member(without)
      const { error } = await here.mfa.enroll({ factorType: 'totp' })
      assert.equal(error?.status, 422)
      assert.match(error.code!, /^mfa_\w+_not_enabled$/)
    })

    test('other kinds of factor are refused', async () => {
      const { auth } = await member(stage().open)
      const phone = await auth.mfa.enroll({ factorType: 'phone', phone: '+4915112345678' })
      assert.equal(phone.error?.status, 422)
      assert.match(phone.error.code!, /^mfa_\w+_not_enabled$/)
      const odd = await auth.mfa.enroll({ factorType: 'tea-leaves' as 'totp' })
      refused(odd, 400, 'validation_failed')
    })
  })

  describe('mfa.challenge and mfa.verify', () => {
    test('raise the session to aal2, under the same id and with new tokens', async () => {
      const { open } = stage()
      const { auth, session, user } = await member(open)
      const watch = await listening(auth)
      const { id, secret } = await enroll(auth)
      const challenge = granted(await auth.mfa.challenge({ factorId: id }))
      assert.match(challenge.id, uuid)
      assert.equal(challenge.type, 'totp')
      const lasts = challenge.expires_at - Date.now() / 1000
      assert.ok(lasts > 0 && lasts <= 301, `${lasts}`)
      const verified = granted(
        await auth.mfa.verify({ factorId: id, challengeId: challenge.id, code: codeOf(secret) }),
      )
      looksLikeSession(verified as Member['session'])
      assert.deepEqual(watch.events, ['INITIAL_SESSION', 'MFA_CHALLENGE_VERIFIED'])
      assert.notEqual(verified.refresh_token, session.refresh_token)
      assert.equal(verified.user.id, user.id)
      const claims = claimsOf(verified)
      assert.deepEqual([claims.aal, claims.session_id], ['aal2', claimsOf(session).session_id])
      assert.deepEqual(methodsOf(verified), ['totp', 'password'])
      const level = granted(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([level.currentLevel, level.nextLevel], ['aal2', 'aal2'])
      assert.deepEqual(level.currentAuthenticationMethods, claims.amr)
      const { session: refreshed } = granted(await auth.refreshSession())
      assert.equal(claimsOf(refreshed!).aal, 'aal2')
      assert.deepEqual(methodsOf(refreshed!), ['totp', 'password'])
    })

    test('a wrong code, or one that was used, does not', async () => {
      const { auth } = await member(stage().open)
      const { id, secret } = await enroll(auth)
      const right = codeOf(secret)
      const wrong = right === '000000' ? '111111' : '000000'
      const challenge = granted(await auth.mfa.challenge({ factorId: id }))
      const answer = (code: string) => auth.mfa.verify({ factorId: id, challengeId: challenge.id, code })
      refused(await answer(wrong), 422, 'mfa_verification_failed')
      const level = granted(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.equal(level.currentLevel, 'aal1')
      granted(await auth.mfa.challengeAndVerify({ factorId: id, code: right }))
      const again = await auth.mfa.challengeAndVerify({ factorId: id, code: right })
      refused(again, 422, 'mfa_verification_failed')
    })

    test('a challenge is for its factor, is answered once, and expires', async () => {
      const { open } = stage()
      const { auth } = await member(open)
      const { id, secret } = await enroll(auth)
      const other = await enroll(auth, 'Tablet')
      const code = codeOf(secret)
      const unknown = await auth.mfa.verify({ factorId: id, challengeId: anyId, code })
      refused(unknown, 422, 'mfa_factor_not_found')
      const foreign = granted(await auth.mfa.challenge({ factorId: other.id }))
      const mixed = await auth.mfa.verify({ factorId: id, challengeId: foreign.id, code })
      refused(mixed, 422, 'mfa_factor_not_found')
      const old = granted(await auth.mfa.challenge({ factorId: id }))
      await open.letADayPass()
      const late = await auth.mfa.verify({ factorId: id, challengeId: old.id, code })
      refused(late, 422, 'mfa_challenge_expired')
      const challenge = granted(await auth.mfa.challenge({ factorId: id }))
      granted(await auth.mfa.verify({ factorId: id, challengeId: challenge.id, code }))
      const next = codeOf(secret, 1)
      const twice = await auth.mfa.verify({ factorId: id, challengeId: challenge.id, code: next })
      assert.equal(twice.error?.status, 422)
    })

    test('a factor nobody has, or somebody else has, is not found', async () => {
      const { open } = stage()
      const { auth } = await member(open)
      const { id } = await enroll((await member(open)).auth)
      for (const factorId of [anyId, id]) {
        refused(await auth.mfa.challenge({ factorId }), 404, 'mfa_factor_not_found')
        refused(await auth.mfa.challengeAndVerify({ factorId, code: '000000' }), 404, 'mfa_factor_not_found')
        refused(await auth.mfa.unenroll({ factorId }), 404, 'mfa_factor_not_found')
      }
    })

    test('the first verified factor ends sessions without one, and other enrolments', async () => {
      const { open } = stage()
      const { auth, email } = await member(open)
      const other = await signIn(open, email)
      const { id, secret } = await enroll(auth)
      await enroll(auth, 'Tablet')
      granted(await auth.mfa.challengeAndVerify({ factorId: id, code: codeOf(secret) }))
      sessionMissing(await other.auth.getUser())
      const { all } = granted(await auth.mfa.listFactors())
      assert.deepEqual(
        all.map(factor => factor.id),
        [id],
      )
      granted(await auth.getUser())
    })
  })

  describe('somebody with a second factor', () => {
    test('signs in at aal1 and is told that there is more', async () => {
      const { open } = stage()
      const { email, factorId, secret } = await guarded(open)
      const { auth, session } = await signIn(open, email)
      assert.equal(claimsOf(session).aal, 'aal1')
      const level = granted(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([level.currentLevel, level.nextLevel], ['aal1', 'aal2'])
      const byToken = granted(await open.connect().mfa.getAuthenticatorAssuranceLevel(session.access_token))
      assert.deepEqual(byToken, level)
      granted(await auth.mfa.challengeAndVerify({ factorId, code: codeOf(secret, 1) }))
      const after = granted(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([after.currentLevel, after.nextLevel], ['aal2', 'aal2'])
      const nobody = granted(await open.connect().mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual(nobody, { currentLevel: null, nextLevel: null, currentAuthenticationMethods: [] })
    })

    test('can change little before showing it', async () => {
      const { open } = stage()
      const { email, factorId } = await guarded(open)
      const { auth } = await signIn(open, email)
      refused(await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Mine' }), 403, 'insufficient_aal')
      refused(await auth.mfa.unenroll({ factorId }), 422, 'insufficient_aal')
      refused(await auth.updateUser({ password: 'a fresh new password' }), 401, 'insufficient_aal')
      granted(await auth.getUser())
    })

    test('can add a second and remove the first after it', async () => {
      const { open } = stage()
      const { auth, factorId } = await guarded(open)
      const { id } = await enroll(auth, 'Tablet')
      assert.deepEqual(await auth.mfa.unenroll({ factorId }), { data: { id: factorId }, error: null })
      const { all } = granted(await auth.mfa.listFactors())
      assert.deepEqual(
        all.map(factor => factor.id),
        [id],
      )
      refused(await auth.mfa.unenroll({ factorId }), 404, 'mfa_factor_not_found')
    })
  })

  describe('admin.mfa', () => {
    test('lists the factors of a user and removes one', async () => {
      const { open } = stage()
      const { user, factorId, email } = await guarded(open)
      const { factors } = granted(await open.admin.mfa.listFactors({ userId: user.id }))
      assert.ok(Array.isArray(factors))
      for (const factor of factors) looksLikeFactor(factor)
      assert.partialDeepStrictEqual(factors, [{ id: factorId, status: 'verified', friendly_name: 'Phone' }])
      assert.equal('secret' in factors[0]!, false)
      granted(await open.admin.mfa.deleteFactor({ userId: user.id, id: factorId }))
      assert.deepEqual(granted(await open.admin.mfa.listFactors({ userId: user.id })).factors, [])
      const { auth } = await signIn(open, email)
      const level = granted(await auth.mfa.getAuthenticatorAssuranceLevel())
      assert.deepEqual([level.currentLevel, level.nextLevel], ['aal1', 'aal1'])
    })

    test('answers the factor it removed', async () => {
      const { open } = stage()
      const { user, factorId } = await guarded(open)
      const { status, body } = await open.call('DELETE', `/admin/users/${user.id}/factors/${factorId}`, {
        token: open.serviceRoleKey,
      })
      assert.equal(status, 200)
      looksLikeFactor(body)
      assert.equal(body.id, factorId)
    })

    test('knows who is not there, and who may not ask', async () => {
      const { open } = stage()
      const { user, factorId, session } = await guarded(open)
      refused(await open.admin.mfa.listFactors({ userId: anyId }), 404, 'user_not_found')
      const gone = await open.admin.mfa.deleteFactor({ userId: user.id, id: anyId })
      refused(gone, 404, 'mfa_factor_not_found')
      const path = `/admin/users/${user.id}/factors/${factorId}`
      const own = await open.call('DELETE', path, { token: session.access_token })
      assert.deepEqual([own.status, own.body.error_code], [403, 'not_admin'])
      assert.equal(granted(await open.admin.mfa.listFactors({ userId: user.id })).factors.length, 1)
    })
  })
}
