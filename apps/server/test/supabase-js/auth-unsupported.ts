// Unsupported methods return a 4xx error that the client does not retry.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AuthError } from '@supabase/supabase-js'
import { covered, isUnsupported, offered } from './auth-recorder.ts'
import type { Setup } from './auth-setup.ts'
import { shapes } from './auth-shapes.ts'
import { newUser, password } from './auth-users.ts'

const anyId = '11111111-1111-4111-8111-111111111111'
const phone = '+4915112345678'

export function unsupportedTests(setup: () => Setup): void {
  test('phone, SSO, web3, passkeys and the OAuth server are refused with an error code', async () => {
    const { open } = setup()
    const { auth } = await newUser(open)
    const { admin } = open
    const calls: Record<string, () => Promise<{ error: AuthError | null }>> = {
      'signUp with a phone': () => auth.signUp({ phone, password }),
      'signInWithPassword with a phone': () => auth.signInWithPassword({ phone, password }),
      'signInWithOtp with a phone': () => auth.signInWithOtp({ phone }),
      'verifyOtp with a phone': () => auth.verifyOtp({ phone, token: '123456', type: 'sms' }),
      'resend to a phone': () => auth.resend({ phone, type: 'sms' }),
      'updateUser with a phone': () => auth.updateUser({ phone }),
      'mfa.enroll with a phone': () => auth.mfa.enroll({ factorType: 'phone', phone }),
      'mfa.enroll with webauthn': () => auth.mfa.enroll({ factorType: 'webauthn', friendlyName: 'key' }),
      signInWithSSO: () => auth.signInWithSSO({ domain: 'example.com' }),
      signInWithWeb3: () =>
        auth.signInWithWeb3({ chain: 'ethereum', message: 'hello', signature: `0x${'ab'.repeat(65)}` }),
      'passkey.list': () => auth.passkey.list(),
      'passkey.startAuthentication': () => auth.passkey.startAuthentication(),
      'oauth.listGrants': () => auth.oauth.listGrants(),
      'oauth.getAuthorizationDetails': () => auth.oauth.getAuthorizationDetails(anyId),
      'admin.oauth.listClients': () => admin.oauth.listClients(),
      'admin.customProviders.listProviders': () => admin.customProviders.listProviders(),
    }
    for (const [what, refuse] of Object.entries(calls)) {
      const { error } = await refuse()
      assert.equal(error?.name, 'AuthApiError', `${what}: ${error}`)
      assert.ok(error.status! >= 400 && error.status! < 500, `${what}: ${error.status}`)
      assert.equal(typeof error.code, 'string', `${what}: no code`)
      assert.ok(error.message.length > 0, what)
    }
  })

  test('the settings list the supported methods', async () => {
    const { open, confirming, project } = setup()
    const settingsOf = async (of: typeof open) => (await of.call('GET', '/settings')).body
    const settings = await settingsOf(open)
    assert.partialDeepStrictEqual(settings, {
      disable_signup: false,
      mailer_autoconfirm: true,
      phone_autoconfirm: false,
      sms_provider: '',
      saml_enabled: false,
      passkeys_enabled: false,
    })
    const off = ['phone', 'apple', 'azure', 'discord', 'github', 'google'].map(name => [name, false])
    assert.partialDeepStrictEqual(settings.external, {
      ...Object.fromEntries(off),
      anonymous_users: true,
      email: true,
    })
    assert.equal((await settingsOf(confirming)).mailer_autoconfirm, false)
    const closed = await project({ signup_enabled: false, anonymous_enabled: false })
    const refusing = await settingsOf(closed)
    assert.deepEqual([refusing.disable_signup, refusing.external.anonymous_users], [true, false])
  })

  test('every method of the client is called by this suite or listed as unsupported', () => {
    const auth = shapes[0]!.connect('http://127.0.0.1:1', anyId, 'key', {})
    const methods = offered(auth)
    assert.ok(methods.length > 60)
    const known: readonly string[] = Object.values(covered).flat()
    assert.deepEqual(
      methods.filter(method => !known.includes(method) && !isUnsupported(method)),
      [],
      'a new method needs a test',
    )
    assert.deepEqual(
      known.filter(method => !methods.includes(method)),
      [],
      'a removed method needs no test',
    )
  })
}
