// SMTP settings, templates and the catch-all of a project.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { TemplateType } from '@plinth/contract/email.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { enqueueMail } from './mail/enqueue.ts'
import { allowsLocalMail, closedPort, type MailServer, startMailServer } from './mail/server.ts'

let platform: TestPlatform
let server: MailServer
before(async () => {
  server = await startMailServer()
  platform = await startPlatform({ settings: allowsLocalMail })
})
after(async () => {
  await platform.stop()
  await server.close()
})

const manage = (method: string, path: string, body?: unknown): Promise<Reply> =>
  platform.call(method, `/api/v1${path}`, {
    token: platform.adminToken,
    ...(body !== undefined && { body }),
  })
const mail = (id: string, rest: string) => `/projects/${id}/email/${rest}`
const values = { user_name: 'Ada', action_url: 'https://app.test/verify?a=1&b=2', expires_in: '1 hour' }

async function enqueue(id: string, to: string, template: TemplateType = 'magic_link', more = {}) {
  await enqueueMail(platform, id, { to, template, values: { ...values, ...more } })
}
const outbox = async (id: string, query = '') => (await manage('GET', mail(id, `outbox${query}`))).body
const latest = async (id: string) => {
  const { messages } = await outbox(id)
  return (await manage('GET', mail(id, `outbox/${messages[0].id}`))).body
}
const storedSettings = async (id: string) =>
  (await platform.app.control.row<{ settings: any }>(sql`select settings from projects where id = ${id}`))!
    .settings
const queued = (id: string) => platform.app.control.rows(sql`select from mail_queue where project_id = ${id}`)
const actionsOf = async (id: string) =>
  (await platform.admin.listAudit({ query: { project_id: id } })).entries.map(entry => entry.action)

test('email: without SMTP a mail is in the catch-all as soon as it is queued', async () => {
  const { id, name } = await platform.createProject('Corner & Shop')
  assert.deepEqual(await outbox(id), { messages: [], total: 0, limit: 50, offset: 0 })
  await enqueue(id, 'ada@example.test', 'magic_link', { token: '123456' })
  const { messages, total } = await outbox(id)
  assert.equal(total, 1)
  const { id: messageId, created_at, ...rest } = messages[0]
  assert.deepEqual(rest, { to: 'ada@example.test', template: 'magic_link', subject: `Sign in to ${name}` })
  const { body_html, body_text, ...same } = await latest(id)
  assert.deepEqual(same, { id: messageId, created_at, ...rest })
  assert.ok(body_text.includes(values.action_url) && body_text.includes('123456'))
  assert.ok(body_html.includes('href="https://app.test/verify?a=1&amp;b=2"') && body_html.includes('123456'))
  assert.ok(body_html.includes('Corner &amp; Shop') && !body_html.includes('Corner & Shop'))
  assert.deepEqual(await queued(id), [])
  assert.ok((await actionsOf(id)).includes('email.message_read'), 'reading a sign-in link is on record')
})

test('email: the catch-all lists the newest first, in pages, and keeps 200', async () => {
  const { id } = await platform.createProject()
  const other = await platform.createProject()
  await enqueue(other.id, 'other@example.test')
  for (let at = 0; at < 205; at++) await enqueue(id, `user${at}@example.test`)
  const first = await outbox(id, '?limit=2')
  assert.deepEqual(
    [first.total, first.messages.map((each: any) => each.to)],
    [200, ['user204@example.test', 'user203@example.test']],
  )
  const last = await outbox(id, '?limit=5&offset=199')
  assert.deepEqual(
    last.messages.map((each: any) => each.to),
    ['user5@example.test'],
  )
  assert.equal((await outbox(other.id)).total, 1, 'each project has its own 200')
})

test('email: a caught message is visible in its own project only', async () => {
  const [mine, other] = [await platform.createProject(), await platform.createProject()]
  await enqueue(mine.id, 'ada@example.test')
  const [{ id }] = (await outbox(mine.id)).messages
  assert.equal((await manage('GET', mail(mine.id, `outbox/${id.toUpperCase()}`))).status, 200)
  const strange = await manage('GET', mail(other.id, `outbox/${id}`))
  assert.deepEqual([strange.status, strange.body.error.code], [404, 'message_not_found'])
})

test('email: mails are stored encrypted', async () => {
  const { id } = await platform.createProject()
  await enqueue(id, 'secret.address@example.test', 'magic_link', { token: '987654' })
  await manage('PUT', mail(id, 'smtp'), { host: '127.0.0.1', port: closedPort, from_email: 'a@b.test' })
  await enqueue(id, 'secret.address@example.test', 'magic_link', { token: '987654' })
  const rows = await platform.app.control.rows(sql`
    select content from mail_caught where project_id = ${id} union all
    select content from mail_queue where project_id = ${id}`)
  assert.equal(rows.length, 2)
  assert.doesNotMatch(JSON.stringify(rows), /secret\.address|987654|verify/)
})

test('email: SMTP settings are saved, shown without the password, and the password is stored sealed', async () => {
  const { id } = await platform.createProject()
  const unset = await manage('GET', mail(id, 'smtp'))
  assert.deepEqual([unset.body.configured, unset.body.host, unset.body.source], [false, null, 'none'])
  const fields = {
    host: 'smtp.example.test',
    port: 2525,
    username: 'mailer',
    from_email: 'shop@example.test',
    from_name: 'The Shop',
    encryption: 'tls',
  }
  const saved = await manage('PUT', mail(id, 'smtp'), { ...fields, password: 'hunter2 hunter2' })
  assert.deepEqual([saved.status, saved.body], [200, { ...fields, configured: true, source: 'project' }])
  assert.deepEqual((await manage('GET', mail(id, 'smtp'))).body, saved.body)
  const { smtp } = await storedSettings(id)
  assert.match(smtp.password, /^sealed:v1:/)

  const again = await manage('PUT', mail(id, 'smtp'), { ...fields, port: 2526 })
  assert.equal(again.body.port, 2526)
  assert.equal((await storedSettings(id)).smtp.password, smtp.password, 'the password is kept')
  assert.equal((await platform.projects.read({ params: { id } })).settings['smtp'] !== undefined, true)
  assert.equal(
    ((await platform.projects.read({ params: { id } })).settings['smtp'] as any).password,
    '[redacted]',
  )
  for (const none of [null, '']) {
    await manage('PUT', mail(id, 'smtp'), { ...fields, password: 'another' })
    await manage('PUT', mail(id, 'smtp'), { ...fields, password: none })
    assert.equal((await storedSettings(id)).smtp.password, undefined)
  }
  const answers = [
    saved,
    again,
    await manage('GET', mail(id, 'smtp')),
    await manage('GET', `/projects/${id}`),
  ]
  assert.doesNotMatch(JSON.stringify(answers.map(({ body }) => body)), /hunter2/)
  assert.doesNotMatch(platform.logged.join(''), /hunter2/)
  assert.ok((await actionsOf(id)).includes('email.smtp_saved'))
})

test('email: saving SMTP settings does not change other settings', async () => {
  const { id } = await platform.createProject()
  const other = { auth: { min_password_length: 9, providers: { github: { client_secret: 'shh' } } } }
  await platform.projects.update({ params: { id }, body: { settings: other } })
  const before = await storedSettings(id)
  await Promise.all(
    Array.from({ length: 8 }, (_, at) =>
      at % 2 === 0
        ? manage('PUT', mail(id, 'smtp'), { host: 'localhost', from_email: 'a@b.test' })
        : manage('PATCH', `/projects/${id}`, { settings: { [`key${at}`]: at } }),
    ),
  )
  const { smtp, ...rest } = await storedSettings(id)
  assert.equal(smtp.host, 'localhost')
  assert.deepEqual(rest, { ...before, key1: 1, key3: 3, key5: 5, key7: 7 })
})

test('email: missing SMTP settings get the usual defaults', async () => {
  const { id } = await platform.createProject()
  const cases: [object, number, string, string][] = [
    [{ host: 'mail.test' }, 587, 'starttls', 'no-reply@mail.test'],
    [{ host: 'mail.test', port: 465 }, 465, 'tls', 'no-reply@mail.test'],
    [{ host: 'mail.test', encryption: 'tls', username: 'me@x.test' }, 465, 'tls', 'me@x.test'],
    [{ host: 'mail.test', encryption: 'none' }, 1025, 'none', 'no-reply@mail.test'],
    [{ host: 'localhost', port: 2525 }, 2525, 'none', 'no-reply@localhost'],
    [{ host: '::1' }, 1025, 'none', 'no-reply@localhost'],
  ]
  for (const [fields, port, encryption, from] of cases) {
    const { body } = await manage('PUT', mail(id, 'smtp'), fields)
    assert.deepEqual([body.port, body.encryption, body.from_email], [port, encryption, from])
  }
})

test('email: invalid SMTP settings are rejected with the name of the field', async () => {
  const { id } = await platform.createProject()
  const bad: [string, unknown][] = [
    ['host', ''],
    ['host', 'two words'],
    ['host', 'mail.test\r\nX: y'],
    ['port', 0],
    ['port', 65_536],
    ['port', '587'],
    ['username', 'a\r\nb'],
    ['from_email', 'no address'],
    ['from_email', 'a@b.test, c@d.test'],
    ['from_email', 'a@b.test\nBcc: c@d.test'],
    ['from_name', 'Shop\r\nBcc: c@d.test'],
    ['encryption', 'ssl'],
    ['surprise', 1],
  ]
  for (const [field, value] of bad) {
    const reply = await manage('PUT', mail(id, 'smtp'), { host: 'mail.test', [field]: value })
    assert.equal(reply.status, 400, `${field}: ${value}`)
    assert.ok(reply.body.error.message.includes(field), reply.body.error.message)
  }
  assert.equal((await manage('GET', mail(id, 'smtp'))).body.configured, false)
})

test('email: invalid values in the free-form settings are ignored, valid ones are used', async () => {
  const { id } = await platform.createProject()
  const odd = (smtp: unknown) => manage('PATCH', `/projects/${id}`, { settings: { smtp } })
  for (const smtp of [5, 'mail.test', [], {}, { host: 5 }, { host: 'a b' }, { host: '' }]) {
    await odd(smtp)
    assert.equal((await manage('GET', mail(id, 'smtp'))).body.configured, false, JSON.stringify(smtp))
  }
  await odd({
    host: ' mail.test ',
    port: 'x',
    from_email: 'a@b\r\nBcc: c@d',
    from_name: 'A\r\nB',
    encryption: 5,
  })
  assert.deepEqual((await manage('GET', mail(id, 'smtp'))).body, {
    host: 'mail.test',
    port: 587,
    username: '',
    from_email: 'no-reply@mail.test',
    from_name: 'A B',
    encryption: 'starttls',
    configured: true,
    source: 'project',
  })
})

test('email: a template can be customized and reverted to the built-in one', async () => {
  const { id, name } = await platform.createProject()
  const { templates, total } = (await manage('GET', '/projects/email/templates/defaults')).body
  assert.deepEqual(
    [total, templates.map((each: any) => each.template_type)],
    [5, ['magic_link', 'verify_email', 'reset_password', 'invite', 'welcome']],
  )
  assert.deepEqual((await manage('GET', mail(id, 'templates'))).body.templates, [])
  assert.deepEqual((await manage('GET', mail(id, 'templates/invite'))).body, templates[3])

  const own = {
    subject: 'Join {{project_name}}',
    body_html: '<b>{{user_name}}</b>',
    body_text: '{{nothing}}',
  }
  const saved = await manage('PUT', mail(id, 'templates/invite'), own)
  const { updated_at, ...rest } = saved.body
  assert.deepEqual([saved.status, rest], [200, { template_type: 'invite', ...own, is_custom: true }])
  assert.ok(Date.parse(updated_at))
  assert.deepEqual((await manage('GET', mail(id, 'templates/invite'))).body, saved.body)
  assert.deepEqual((await manage('GET', mail(id, 'templates'))).body.templates, [saved.body])

  await enqueue(id, 'eve@example.test', 'invite', { user_name: '<script>' })
  const sent = await latest(id)
  assert.deepEqual(
    [sent.subject, sent.body_html, sent.body_text],
    [`Join ${name}`, '<b>&lt;script&gt;</b>', '{{nothing}}'],
  )

  for (const _ of [1, 2]) assert.equal((await manage('DELETE', mail(id, 'templates/invite'))).status, 204)
  assert.deepEqual((await manage('GET', mail(id, 'templates/invite'))).body, templates[3])
  await enqueue(id, 'eve@example.test', 'invite')
  assert.equal((await latest(id)).subject, `You are invited to ${name}`)
  const actions = await actionsOf(id)
  assert.ok(actions.includes('email.template_saved') && actions.includes('email.template_reverted'))
})

test('email: an invalid template is rejected', async () => {
  const { id } = await platform.createProject()
  const good = { subject: 's', body_html: 'h', body_text: 't' }
  const bad = [
    { ...good, subject: '' },
    { ...good, subject: 'a\r\nBcc: x@y.test' },
    { ...good, subject: 'x'.repeat(301) },
    { ...good, body_html: 'x'.repeat(100_001) },
    { ...good, body_html: '\u0000' },
    { ...good, body_html: '', body_text: '' },
    { ...good, body_html: '{{#token}}' },
    { ...good, body_text: '{{token}}'.repeat(201) },
    { ...good, more: 1 },
    { body_html: 'h' },
  ]
  for (const fields of bad) {
    const { status, body } = await manage('PUT', mail(id, 'templates/welcome'), fields)
    assert.deepEqual([status, body.error.code], [400, 'invalid_request'])
  }
  assert.equal((await manage('PUT', mail(id, 'templates/hello'), good)).status, 400)
  assert.deepEqual((await manage('GET', mail(id, 'templates'))).body.templates, [])
  const { body_text: _, ...withoutText } = good
  assert.equal((await manage('PUT', mail(id, 'templates/welcome'), withoutText)).body.body_text, '')
})

test('email: an address with injected headers or recipients is rejected before it is queued', async () => {
  const { id } = await platform.createProject()
  const bad = [
    '',
    'nobody',
    'a@b.test\r\nBcc: c@d.test',
    'a@b.test\nX: y',
    'a@b.test, c@d.test',
    'a@b.test;c@d.test',
    '<a@b.test>',
    'Ada <a@b.test>',
    'a b@c.test',
    'a@b@c.test',
    '"a"@b.test',
    'a@b.test\u0000',
    'a@b.test\u2028',
  ]
  for (const to of bad) await assert.rejects(enqueue(id, to), { code: 'invalid_request' }, JSON.stringify(to))
  for (const to of ['ünïcode@bücher.test', "o'brien+tag@sub.example.test", 'root@localhost'])
    await enqueue(id, to)
  assert.equal((await outbox(id)).total, 3)
})

/** Queues a mail of a project whose server is unreachable. */
async function waitingMail(id: string, to: string): Promise<void> {
  await manage('PUT', mail(id, 'smtp'), { host: '127.0.0.1', port: closedPort, from_email: 'a@b.test' })
  await enqueue(id, to)
  const failed = sql`select from mail_queue where project_id = ${id} and attempts > 0 and leased_until <= now()`
  await eventually(async () => (await platform.app.control.rows(failed)).length === 1, 'a failed attempt')
}
const useServer = (id: string) =>
  manage('PUT', mail(id, 'smtp'), { host: '127.0.0.1', port: server.port, from_email: 'a@b.test' })
const arrived = (to: string) => server.received.some(each => each.to.includes(to))

test('email: mail of a suspended project is not sent until the project is resumed', async () => {
  const [{ id }, other] = [await platform.createProject(), await platform.createProject()]
  await waitingMail(id, 'patient@example.test')
  await manage('POST', `/projects/${id}/suspend`)
  await useServer(id)
  await useServer(other.id)
  await enqueue(other.id, 'other@example.test')
  await eventually(() => arrived('other@example.test'), 'what is due later and may be sent')
  assert.ok(!arrived('patient@example.test'))
  const trial = await manage('POST', mail(id, 'test'), { to: 'x@example.test' })
  assert.deepEqual([trial.status, trial.body.error.code], [403, 'project_suspended'])
  await enqueue(id, 'late@example.test')
  assert.equal((await queued(id)).length, 1, 'nothing is queued meanwhile')
  await manage('POST', `/projects/${id}/resume`)
  await eventually(() => arrived('patient@example.test'), 'the mail')
  assert.ok(!arrived('late@example.test'))
})

test('email: deleting a project deletes its mails and templates', async () => {
  const { id } = await platform.createProject()
  await enqueue(id, 'caught@example.test')
  await waitingMail(id, 'gone@example.test')
  await manage('PUT', mail(id, 'templates/invite'), { subject: 's', body_html: 'h' })
  assert.equal((await manage('DELETE', `/projects/${id}`)).status, 204)
  const left = await platform.app.control.rows(sql`
    select id::text from mail_queue where project_id = ${id} union all
    select id::text from mail_caught where project_id = ${id} union all
    select type from mail_templates where project_id = ${id}`)
  assert.deepEqual(left, [])
  for (const path of ['smtp', 'templates', 'templates/invite', 'outbox'])
    assert.equal((await manage('GET', mail(id, path))).status, 404, path)
})

test('email: queued mail of a project whose SMTP server was removed is moved to the catch-all', async () => {
  const { id } = await platform.createProject()
  await waitingMail(id, 'stranded@example.test')
  await manage('PATCH', `/projects/${id}`, { settings: { smtp: null } })
  await platform.app.control.run(sql`update mail_queue set due_at = now() where project_id = ${id}`)
  await eventually(async () => {
    platform.app.directory.forget(id)
    return (await queued(id)).length === 0
  }, 'an empty queue')
  assert.deepEqual(
    (await outbox(id)).messages.map((each: any) => each.to),
    ['stranded@example.test'],
  )
})

test('email: settings and templates need read scope, caught mails and changes need admin scope', async () => {
  const { id } = await platform.createProject()
  const tokenOf = async (scope: 'read' | 'deploy') =>
    (await platform.platform.mintToken({ body: { name: scope, scope } })).token
  const as = async (scope: 'read' | 'deploy', method: string, path: string, body?: unknown) => {
    const options = { token: await tokenOf(scope), ...(body !== undefined && { body }) }
    return (await platform.call(method, `/api/v1${path}`, options)).status
  }
  for (const path of ['smtp', 'templates', 'templates/welcome'])
    assert.equal(await as('read', 'GET', mail(id, path)), 200, path)
  assert.equal(await as('read', 'GET', '/projects/email/templates/defaults'), 200)
  assert.equal(await as('deploy', 'GET', mail(id, 'outbox')), 403)
  assert.equal(await as('deploy', 'GET', mail(id, `outbox/${id}`)), 403)
  assert.equal(await as('deploy', 'PUT', mail(id, 'smtp'), { host: 'mail.test' }), 403)
  assert.equal(await as('deploy', 'POST', mail(id, 'test'), { to: 'a@b.test' }), 403)
  assert.equal(await as('deploy', 'PUT', mail(id, 'templates/welcome'), {}), 403)
  assert.equal(await as('deploy', 'DELETE', mail(id, 'templates/welcome')), 403)
  assert.equal((await platform.call('GET', `/api/v1${mail(id, 'smtp')}`)).status, 401)
})
