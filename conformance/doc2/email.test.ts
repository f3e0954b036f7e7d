// 2 §2 "SMTP configuration" and "Email template", §4.7, §7: mail of a project, tested over HTTP only.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createProject, someId, unique, uuid } from '../people.ts'
import { freshTarget, type Target } from '../target.ts'
import type { Reply } from '../wire.ts'

// A platform without SMTP_* variables, independent of the environment.
let it: Target
before(async () => {
  it = await freshTarget()
})
after(() => it.stop())

const types = ['magic_link', 'verify_email', 'reset_password', 'invite', 'welcome']
const email = (id: string, rest: string, method = 'GET', body?: unknown): Promise<Reply> =>
  it.manage(method, `/projects/${id}/email/${rest}`, body)
const smtp = {
  host: 'mail.example.test',
  port: 2525,
  username: 'mailer',
  from_email: 'shop@example.test',
  from_name: 'The Shop',
  encryption: 'starttls',
}

test('2 §4.7 SMTP settings are saved and returned without the password, which no response contains', async () => {
  const { id } = await createProject(it)
  const unset = await email(id, 'smtp')
  assert.deepEqual([unset.status, unset.body.configured], [200, false])
  const password = unique('hunter2')
  const saved = await email(id, 'smtp', 'PUT', { ...smtp, password })
  assert.equal(saved.status, 200, saved.text)
  const read = await email(id, 'smtp')
  assert.partialDeepStrictEqual(read.body, { ...smtp, configured: true })
  const replies = [
    saved,
    read,
    await it.manage('GET', `/projects/${id}`),
    await it.manage('GET', '/projects?limit=100'),
    await email(id, 'test', 'POST', { to: 'ada@example.test', template: 'welcome' }),
    await it.manage('GET', `/admin/audit?project_id=${id}`),
  ]
  for (const { text, status } of replies) {
    assert.equal(status, 200)
    assert.ok(!text.includes(password))
  }
  assert.equal(replies[2]!.body.settings.smtp.password, '[redacted]')
  assert.equal((await auditOf(it, 'email.smtp_saved', saved)).project_id, id)
})

test('2 §4.7 a PUT without a password keeps the stored one', async () => {
  const { id } = await createProject(it)
  const stored = async () => (await it.manage('GET', `/projects/${id}`)).body.settings.smtp.password
  await email(id, 'smtp', 'PUT', { ...smtp, password: unique('kept') })
  await email(id, 'smtp', 'PUT', { ...smtp, host: 'other.example.test' })
  assert.equal(await stored(), '[redacted]')
  await email(id, 'smtp', 'PUT', { ...smtp, password: null })
  assert.equal(await stored(), undefined)
})

test('2 §2 encryption is one of none, starttls and tls', async () => {
  const { id } = await createProject(it)
  for (const encryption of ['none', 'starttls', 'tls'])
    assert.equal((await email(id, 'smtp', 'PUT', { ...smtp, encryption })).body.encryption, encryption)
  assert.equal((await email(id, 'smtp', 'PUT', { ...smtp, encryption: 'ssl' })).status, 400)
})

test('2 §7 a test mail without SMTP settings is 400; with them the response has the result', async () => {
  const { id } = await createProject(it)
  const input = { to: 'ada@example.test', template: 'magic_link' }
  const refused = await email(id, 'test', 'POST', input)
  assert.deepEqual([refused.status, refused.body.error.code], [400, 'smtp_not_configured'])
  await email(id, 'smtp', 'PUT', { host: 'mail.invalid', from_email: 'a@example.test' })
  const tried = await email(id, 'test', 'POST', input)
  assert.equal(tried.status, 200, tried.text)
  assert.deepEqual(Object.keys(tried.body).sort(), ['message', 'success'])
  assert.equal(tried.body.success, false)
  assert.match(tried.body.message, /could not be reached/)
  for (const bad of [{ ...input, to: 'nobody' }, { ...input, template: 'hello' }, { template: 'welcome' }])
    assert.equal((await email(id, 'test', 'POST', bad)).status, 400)
})

test('2 §2 there are five built-in templates with their placeholders', async () => {
  const { templates } = (await it.manage('GET', '/projects/email/templates/defaults')).body
  assert.deepEqual(
    templates.map((each: any) => each.template_type),
    types,
  )
  for (const { template_type, subject, body_html, body_text } of templates) {
    assert.ok(subject.includes('{{project_name}}'), template_type)
    for (const body of [body_html, body_text])
      for (const name of ['user_name', 'action_url', 'project_name'])
        assert.ok(body.includes(`{{${name}}}`), `${template_type} ${name}`)
    const expires = template_type !== 'welcome'
    assert.equal(body_html.includes('{{expires_in}}'), expires, template_type)
  }
})

test('2 §4.7 a template of the project replaces the built-in one until it is deleted', async () => {
  const { id } = await createProject(it)
  const builtIn = (await email(id, 'templates/welcome')).body
  assert.equal(builtIn.is_custom, false)
  const own = { subject: 'Hi {{user_name}}', body_html: '<p>Hi</p>', body_text: 'Hi' }
  const saved = await email(id, 'templates/welcome', 'PUT', own)
  assert.equal(saved.status, 200, saved.text)
  assert.partialDeepStrictEqual(saved.body, { template_type: 'welcome', ...own, is_custom: true })
  assert.equal((await auditOf(it, 'email.template_saved', saved)).target, 'welcome')
  const { templates, total } = (await email(id, 'templates')).body
  assert.deepEqual([templates, total], [[saved.body], 1])
  assert.deepEqual((await email(id, 'templates/welcome')).body, saved.body)
  const reverted = await email(id, 'templates/welcome', 'DELETE')
  assert.equal(reverted.status, 204)
  assert.equal((await auditOf(it, 'email.template_reverted', reverted)).target, 'welcome')
  assert.deepEqual((await email(id, 'templates/welcome')).body, builtIn)
  assert.equal((await email(id, 'templates/nothing')).status, 400)
  assert.equal((await email(id, 'templates/welcome', 'PUT', { body_html: 'x' })).status, 400)
})

test('2 §2 without SMTP the mail of a magic link is in the outbox and contains the link', async () => {
  const { id, anon_key, name } = await createProject(it)
  const to = `${unique('ada')}@example.test`
  const post = (path: string, body: unknown) =>
    it.call('POST', `/v1/auth/${id}/${path}`, { apikey: anon_key, body })
  assert.equal((await post('sign-up', { email: to, password: 'correct horse battery' })).status, 200)
  const asked = await post('magic-link', { email: to })
  assert.equal(asked.status, 200, asked.text)
  const { messages, total } = (await email(id, 'outbox')).body
  assert.equal(total, 2)
  const [summary] = messages
  assert.partialDeepStrictEqual(summary, { to, template: 'magic_link', subject: `Sign in to ${name}` })
  assert.match(summary.id, uuid)
  const read = await email(id, `outbox/${summary.id}`)
  assert.equal(read.status, 200)
  assert.match(read.body.body_text, /https?:\/\/\S+/)
  assert.match(read.body.body_html, /<a href="https?:\/\//)
  assert.doesNotMatch(read.body.body_html + read.body.body_text, /\{\{/)
  assert.equal((await email(id, `outbox/${someId}`)).status, 404)
})

test('2 §2 a sign-up sends a welcome mail with the project’s template, and names are escaped in HTML', async () => {
  const { id, anon_key } = await createProject(it, { name: 'Salt & Pepper' })
  const text = '{{project_name}}|{{user_name}}|{{unknown}}'
  await email(id, 'templates/welcome', 'PUT', { subject: text, body_html: text, body_text: text })
  const to = `${unique('eve')}@example.test`
  const signedUp = await it.call('POST', `/v1/auth/${id}/sign-up`, {
    apikey: anon_key,
    body: {
      email: to,
      password: 'correct horse battery',
      data: { name: '<b>Eve</b>\r\nBcc: x@example.test' },
    },
  })
  assert.equal(signedUp.status, 200, signedUp.text)
  const { messages } = (await email(id, 'outbox')).body
  assert.deepEqual(
    messages.map((each: any) => [each.to, each.template]),
    [[to, 'welcome']],
  )
  assert.doesNotMatch(messages[0].subject, /[\r\n]/)
  const { body_html, body_text } = (await email(id, `outbox/${messages[0].id}`)).body
  assert.ok(body_html.startsWith('Salt &amp; Pepper|') && body_html.endsWith('|{{unknown}}'))
  assert.ok(body_text.startsWith('Salt & Pepper|') && !body_html.includes('<b>'))
})

test('2 §5 mail settings need read scope to read and admin scope to change; the outbox needs admin scope', async () => {
  const { id, service_role_key } = await createProject(it)
  const { body } = await it.manage('POST', '/platform/tokens', { name: unique('read'), scope: 'read' })
  const as = (token: string, method: string, path: string, body?: unknown) =>
    it.call(method, `/api/v1${path}`, { token, body })
  const base = `/projects/${id}/email`
  for (const path of ['smtp', 'templates', 'templates/invite'])
    assert.equal((await as(body.token, 'GET', `${base}/${path}`)).status, 200, path)
  assert.equal((await as(body.token, 'GET', '/projects/email/templates/defaults')).status, 200)
  for (const path of ['outbox', `outbox/${someId}`])
    assert.equal((await as(body.token, 'GET', `${base}/${path}`)).status, 403, path)
  assert.equal((await as(body.token, 'PUT', `${base}/smtp`, smtp)).status, 403)
  assert.equal((await as(body.token, 'POST', `${base}/test`, { to: 'a@b.test' })).status, 403)
  assert.equal((await as(body.token, 'DELETE', `${base}/templates/invite`)).status, 403)
  assert.equal((await as(service_role_key, 'GET', `${base}/smtp`)).status, 401)
  assert.equal((await it.call('GET', `/api/v1${base}/outbox`)).status, 401)
  assert.equal((await it.manage('GET', `/projects/${someId}/email/smtp`)).status, 404)
})
