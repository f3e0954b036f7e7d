// Auth contract §4 and §10: public settings, JWKS and health.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthApi, authProject, authRoot, succeeded } from '../auth.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
})
after(() => it.stop())

for (const shape of ['native', 'alias'] as const) {
  test(`auth contract §10: settings list the enabled sign-in methods (${shape})`, async () => {
    const settings = succeeded(await auth.get('/settings', { shape }))
    assert.partialDeepStrictEqual(settings, {
      disable_signup: false,
      mailer_autoconfirm: true,
      phone_autoconfirm: false,
      sms_provider: '',
      saml_enabled: false,
    })
    for (const name of ['anonymous_users', 'email', 'phone', 'apple', 'azure', 'discord', 'github', 'google'])
      assert.equal(typeof settings.external[name], 'boolean', name)
    assert.partialDeepStrictEqual(settings.external, { email: true, anonymous_users: true, phone: false })
    assert.equal(settings.external.github, false)
  })

  test(`auth contract §4: the JWKS is empty, because tokens are signed with a shared secret (${shape})`, async () => {
    for (const as of ['anon', 'nobody'] as const)
      assert.deepEqual(succeeded(await auth.get('/.well-known/jwks.json', { as, shape })), { keys: [] })
  })

  test(`auth contract §4: health answers without a credential (${shape})`, async () => {
    const { name, version, description } = succeeded(await auth.get('/health', { as: 'nobody', shape }))
    for (const field of [name, version, description]) {
      assert.equal(typeof field, 'string')
      assert.notEqual(field, '')
    }
  })

  test(`1 §5.1 settings need a key of the project (${shape})`, async () => {
    const path = `${authRoot(auth.project, shape)}/settings`
    for (const credentials of [{}, { apikey: 'wrong' }])
      assert.equal((await it.call('GET', path, credentials)).status, 401)
  })
}

test('auth contract §10: settings reflect the project settings and contain no secret', async () => {
  const api = await authProject(it)
  await api.settings({ signup_enabled: false, anonymous_enabled: false, auto_confirm: false })
  succeeded(
    await it.manage('PUT', `/projects/${api.project.id}/auth/providers`, {
      provider: 'github',
      client_id: 'our-client',
      client_secret: 'our-hushed-secret',
    }),
  )
  const reply = await api.get('/settings')
  const settings = succeeded(reply)
  assert.partialDeepStrictEqual(settings, { disable_signup: true, mailer_autoconfirm: false })
  assert.partialDeepStrictEqual(settings.external, {
    anonymous_users: false,
    github: true,
    google: false,
    email: true,
  })
  assert.ok(!reply.text.includes('our-hushed-secret') && !reply.text.includes('our-client'))
  await api.settings({ email_enabled: false, magic_link_enabled: false })
  assert.equal(succeeded(await api.get('/settings')).external.email, false)
})
