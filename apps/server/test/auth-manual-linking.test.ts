// Manual linking is a setting of the project, off by default.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Reply } from './harness.ts'
import { oauthPlatform } from './oauth-platform.ts'
import { landingOf } from './oauth-setup.ts'

const { stage, openidAccount } = oauthPlatform()

const setting = (manual_linking_enabled: boolean) => stage.setup.configure({ manual_linking_enabled })
const refusedAsDisabled = ({ status, body }: Reply) => {
  assert.deepEqual([status, body.code], [404, 'manual_linking_disabled'], JSON.stringify(body))
}
const begin = (token: string) =>
  stage.setup.call('GET', 'user/identities/authorize?provider=google&skip_http_redirect=true', { token })

async function newUser() {
  const email = `${crypto.randomUUID()}@example.test`
  const { body } = await stage.setup.call('POST', 'signup', { body: { email, password: 'correct horse' } })
  return { token: body.access_token as string, user: body.user }
}

test('manual linking: it is off by default', async () => {
  const { platform } = stage
  const { id } = await platform.createProject()
  const { body } = await platform.call('GET', `/api/v1/projects/${id}/auth`, { token: platform.adminToken })
  assert.equal(body.manual_linking_enabled, false)
})

test('manual linking: without it, users can neither link nor unlink identities', async () => {
  await setting(false)
  const { token, user } = await newUser()
  refusedAsDisabled(await begin(token))
  refusedAsDisabled(
    await stage.setup.call('DELETE', `user/identities/${user.identities[0].identity_id}`, { token }),
  )
  const { name } = openidAccount()
  const { id_token } = await stage.identity.tokens(stage.setup.client, stage.setup.callback, name)
  const body = { provider: 'google', id_token, link_identity: true }
  refusedAsDisabled(await stage.setup.call('POST', 'token?grant_type=id_token', { token, body }))
  const { body: same } = await stage.setup.call('GET', 'user', { token })
  assert.equal(same.identities.length, 1)
})

test('manual linking: switched off during a link, the callback links nothing', async () => {
  await setting(true)
  const { token } = await newUser()
  const { name } = openidAccount()
  const { url } = (await begin(token)).body
  const { url: answer } = await stage.identity.browse(url, { account: name })
  await setting(false)
  const reply = await fetch(answer, { redirect: 'manual' })
  assert.equal(
    landingOf(new URL(reply.headers.get('location')!)).query['error_code'],
    'manual_linking_disabled',
  )
  assert.equal((await stage.setup.call('GET', 'user', { token })).body.identities.length, 1)
})

test('manual linking: a sign-in with a verified address links the identity without the setting', async () => {
  await setting(false)
  const { name, account } = openidAccount()
  const body = { email: account.email, password: 'correct horse', email_confirm: true }
  const { service_role_key: apikey } = stage.setup.project
  const created = await stage.setup.call('POST', 'admin/users', { body, apikey })
  const { fragment } = await stage.setup.signIn('google', name)
  const signedIn = await stage.setup.call('GET', 'user', { token: fragment['access_token']! })
  assert.equal(signedIn.body.id, created.body.id)
})
