// 2 §4.7, last paragraph, and 3 §4: secrets in a project's settings.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createProject, unique } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const redacted = '[redacted]'
const patch = (id: string, settings: Record<string, unknown>) =>
  it.manage('PATCH', `/projects/${id}`, { settings })
const read = async (id: string) => (await it.manage('GET', `/projects/${id}`)).body.settings

test('2 §4.7 every response shows [redacted] instead of the SMTP password in settings', async () => {
  const password = unique('hunter2')
  const smtp = { host: 'mail.example.test', port: 587, username: 'me', password }
  const created = await it.manage('POST', '/projects', { name: unique('mail'), settings: { smtp } })
  const { id } = created.body
  const replies = [
    created,
    await it.manage('GET', `/projects/${id}`),
    await it.manage('GET', '/projects?limit=100'),
    await patch(id, { theme: 'dark' }),
    await it.manage('POST', `/projects/${id}/suspend`),
    await it.manage('POST', `/projects/${id}/resume`),
    await it.manage('POST', '/admin/encrypt-settings-secrets'),
  ]
  for (const { text } of replies) assert.ok(!text.includes(password))
  for (const { body } of [replies[0]!, replies[1]!, replies[3]!, replies[4]!, replies[5]!])
    assert.deepEqual(body.settings.smtp, { ...smtp, password: redacted })
})

test('2 §4.7 a password set or changed by PATCH is redacted, too', async () => {
  const { id } = await createProject(it)
  for (const password of [unique('first'), unique('second')]) {
    const reply = await patch(id, { smtp: { host: 'x', password } })
    assert.deepEqual(reply.body.settings, { smtp: { host: 'x', password: redacted } })
    assert.ok(!reply.text.includes(password))
    assert.deepEqual(await read(id), { smtp: { host: 'x', password: redacted } })
    assert.ok(!JSON.stringify(await auditOf(it, 'project.updated', reply)).includes(password))
  }
})

test('3 §4 secrets in other settings are redacted at any depth', async () => {
  const secret = unique('shh')
  const settings = {
    auth: { providers: { github: { client_id: 'public', client_secret: secret } } },
    list: [{ password: secret }],
  }
  const created = await createProject(it, { settings })
  assert.deepEqual(created['settings'], {
    auth: { providers: { github: { client_id: 'public', client_secret: redacted } } },
    list: [{ password: redacted }],
  })
})

test('2 §4.7 sending [redacted] back keeps the stored password', async () => {
  await it.manage('POST', '/admin/encrypt-settings-secrets')
  const { id } = await createProject(it, { settings: { smtp: { host: 'x', password: unique('kept') } } })
  const echo = await read(id)
  const written = await patch(id, { smtp: { ...echo.smtp, host: 'y' } })
  assert.equal(written.status, 200)
  assert.deepEqual(written.body.settings, { smtp: { host: 'y', password: redacted } })
  assert.deepEqual(await read(id), { smtp: { host: 'y', password: redacted } })
  const sweep = await it.manage('POST', '/admin/encrypt-settings-secrets')
  assert.equal(sweep.body.values_encrypted, 0, 'nothing of it is stored in plain text')
})

test('3 §4 null deletes a setting and its secret, and a value without the key deletes the secret', async () => {
  const { id } = await createProject(it, { settings: { smtp: { host: 'x', password: unique('gone') } } })
  assert.deepEqual((await patch(id, { smtp: { host: 'x' } })).body.settings, { smtp: { host: 'x' } })
  assert.deepEqual((await patch(id, { smtp: null })).body.settings, {})
  assert.deepEqual(await read(id), {})
})

test('2 §4.7 a value that looks like an encrypted secret is stored like any other', async () => {
  const { id } = await createProject(it)
  for (const password of ['enc:v1:AAAA', 'aes-256-gcm:x:y:z', '[redacted', '']) {
    const reply = await patch(id, { smtp: { host: 'x', password } })
    assert.equal(reply.status, 200, password)
    assert.ok(['', redacted].includes(reply.body.settings.smtp.password), password)
  }
  assert.equal((await it.manage('GET', `/projects/${id}`)).status, 200)
})

test('3 §4 encrypt-settings-secrets is idempotent and audited', async () => {
  const sweep = () => it.manage('POST', '/admin/encrypt-settings-secrets')
  const first = await sweep()
  assert.equal(first.status, 200)
  assert.deepEqual(Object.keys(first.body).sort(), ['projects_scanned', 'values_encrypted'])
  // New values are encrypted when written, so this finds only values written by older versions.
  const { id } = await createProject(it, { settings: { smtp: { host: 'x', password: unique('secret') } } })
  for (let i = 0; i < 2; i++) {
    const { status, body } = await sweep()
    assert.equal(status, 200)
    assert.equal(body.values_encrypted, 0)
    assert.ok(body.projects_scanned >= 1)
  }
  assert.deepEqual(await read(id), { smtp: { host: 'x', password: redacted } })
  const entry = await auditOf(it, 'platform.settings_secrets_encrypted', first)
  assert.equal(entry.actor.kind, 'admin_token')
})
