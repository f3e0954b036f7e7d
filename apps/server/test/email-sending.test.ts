// Sending mail to real SMTP servers, in plain text, with STARTTLS and with TLS.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { enqueueMail } from './mail/enqueue.ts'
import {
  allowsLocalMail,
  type MailServer,
  type Received,
  startMailServer,
  trustTestAuthority,
} from './mail/server.ts'

trustTestAuthority()
let platform: TestPlatform
const servers: MailServer[] = []
before(async () => {
  platform = await startPlatform({ settings: allowsLocalMail })
})
after(async () => {
  await platform.stop()
  for (const server of servers) await server.close()
})

async function serve(options: Parameters<typeof startMailServer>[0] = {}): Promise<MailServer> {
  const server = await startMailServer(options)
  servers.push(server)
  return server
}
const manage = async (method: string, path: string, body?: unknown) =>
  (
    await platform.call(method, `/api/v1${path}`, {
      token: platform.adminToken,
      ...(body !== undefined && { body }),
    })
  ).body

/** A project that sends its mail to this server. */
async function projectWith(smtp: object, name?: string) {
  const project = await platform.createProject(name)
  const saved = await manage('PUT', `/projects/${project.id}/email/smtp`, {
    host: 'localhost',
    from_email: 'shop@example.test',
    ...smtp,
  })
  assert.equal(saved.configured, true, JSON.stringify(saved))
  return project
}
const trial = (id: string, to = 'ada@example.test', template = 'magic_link') =>
  manage('POST', `/projects/${id}/email/test`, { to, template })

const values = { user_name: 'Ada', action_url: 'https://app.test/verify', expires_in: '1 hour' }
async function enqueue(id: string, to: string, more: object = {}, on = platform) {
  await enqueueMail(on, id, { to, template: 'magic_link', values: { ...values, ...more } })
}
async function next({ received }: MailServer): Promise<Received> {
  return eventually(() => received.shift(), 'a mail arrives')
}
const header = ({ mail }: Received, name: string) =>
  mail.headers.filter(({ key }) => key === name).map(({ value }) => value)

test('mail sending: a queued mail arrives complete, from the sender of the project', async () => {
  const server = await serve()
  const { id } = await projectWith({ port: server.port, from_name: 'Käthe’s "Shop", Ltd.' }, 'Käthe’s Shop')
  await enqueue(id, 'ada@example.test', { token: '123456' })
  const received = await next(server)
  assert.deepEqual([received.from, received.to], ['shop@example.test', ['ada@example.test']])
  const { from, to, subject, text, html, date, messageId } = received.mail
  assert.deepEqual(from, { name: 'Käthe’s "Shop", Ltd.', address: 'shop@example.test' })
  assert.deepEqual(to, [{ name: '', address: 'ada@example.test' }])
  assert.equal(subject, 'Sign in to Käthe’s Shop')
  assert.ok(Math.abs(Date.parse(date!) - Date.now()) < 3_600_000)
  assert.match(messageId!, /^<[0-9a-f-]{36}@example\.test>$/)
  for (const body of [text, html]) assert.ok(body!.includes(values.action_url) && body!.includes('123456'))
  assert.deepEqual(header(received, 'auto-submitted'), ['auto-generated'])
  const left = sql`select from mail_queue where project_id = ${id}`
  await eventually(
    async () => (await platform.app.control.rows(left)).length === 0,
    'the sent mail is deleted',
  )
})

test('mail sending: long lines, lone dots and all scripts arrive unchanged', async () => {
  const server = await serve()
  const { id } = await projectWith({ port: server.port })
  const long = `https://app.test/?token=${'a'.repeat(1500)}`
  const body_text = `.\n..\nFrom here\n日本語 🙂 {{action_url}}\n`
  const body_html = `<p>.</p>\n.\n<a href="{{action_url}}">日本語 🙂</a>`
  await manage('PUT', `/projects/${id}/email/templates/magic_link`, {
    subject: '日本語 🙂',
    body_html,
    body_text,
  })
  await enqueue(id, 'ada@example.test', { action_url: long })
  const { mail } = await next(server)
  assert.equal(mail.subject, '日本語 🙂')
  assert.equal(mail.text!.trim(), body_text.replace('{{action_url}}', long).trim())
  assert.equal(mail.html!.trim(), body_html.replace('{{action_url}}', long).trim())
})

for (const encryption of ['none', 'starttls', 'tls'] as const)
  test(`mail sending: a mail is delivered with encryption ${encryption} and a login`, async () => {
    const login = { user: 'mailer', password: 'p4ss w0rd ü' }
    const server = await serve({ encryption, login })
    const { id } = await projectWith({
      port: server.port,
      encryption,
      username: login.user,
      password: login.password,
    })
    assert.deepEqual(await trial(id), {
      success: true,
      message: 'The server has taken the test mail to ada@example.test',
    })
    const { user, isEncrypted } = await next(server)
    assert.deepEqual([user, isEncrypted], [login.user, encryption !== 'none'])
    await enqueue(id, 'bob@example.test')
    assert.deepEqual((await next(server)).to, ['bob@example.test'])
  })

test('mail sending: a certificate for another name or of an untrusted issuer is rejected', async () => {
  for (const encryption of ['starttls', 'tls'] as const)
    for (const certificate of ['elsewhere', 'unsigned'] as const) {
      const server = await serve({ encryption, certificate })
      const { id } = await projectWith({ port: server.port, encryption })
      const { success, message } = await trial(id)
      assert.equal(success, false)
      assert.match(message, /TLS failed/, `${encryption} ${certificate}`)
      assert.ok(
        platform.logged.some(line => line.includes(id) && line.includes('certificate of the server')),
        'the log says why',
      )
      assert.deepEqual(server.received, [])
    }
})

test('mail sending: starttls never falls back to plain text, and tls refuses a plain text server', async () => {
  const server = await serve({ login: { user: 'a', password: 'b' } })
  for (const encryption of ['starttls', 'tls'] as const) {
    const { id } = await projectWith({ port: server.port, encryption, username: 'a', password: 'b' })
    const { success } = await trial(id)
    assert.equal(success, false, encryption)
  }
  assert.deepEqual(server.received, [])
})

test('mail sending: a test mail reports a wrong password without repeating it', async () => {
  const server = await serve({ login: { user: 'mailer', password: 'right' } })
  const { id } = await projectWith({ port: server.port, username: 'mailer', password: 'wrong-one-entirely' })
  const { success, message } = await trial(id)
  assert.equal(success, false)
  assert.match(message, /refused the login/)
  assert.ok(!platform.logged.join('').includes('wrong-one-entirely'))
})

test('mail sending: a plain text password of an older version works and is sealed at the next write', async () => {
  const login = { user: 'mailer', password: 'left in plain text' }
  const server = await serve({ login })
  const { id } = await projectWith({ port: server.port, username: 'mailer', password: 'another' })
  const setPlain = sql`
    update projects set settings = jsonb_set(settings, '{smtp,password}', to_jsonb(${login.password}::text))
     where id = ${id}`
  await platform.app.control.run(setPlain)
  assert.equal((await trial(id)).success, true)
  await enqueue(id, 'ada@example.test')
  await next(server)
  await manage('PUT', `/projects/${id}/email/smtp`, {
    host: 'localhost',
    port: server.port,
    username: 'mailer',
    from_email: 'shop@example.test',
  })
  const stored = await platform.app.control.row<{ password: string }>(
    sql`select settings #>> '{smtp,password}' as password from projects where id = ${id}`,
  )
  assert.match(stored!.password, /^sealed:v1:/)
  assert.equal((await trial(id)).success, true, 'it is still the same one')
})

test('mail sending: every template can be sent as a test, also custom ones', async () => {
  const server = await serve()
  const { id, name } = await projectWith({ port: server.port })
  await manage('PUT', `/projects/${id}/email/templates/welcome`, {
    subject: 'Hi',
    body_html: '<i>{{email}}</i>',
  })
  for (const template of ['magic_link', 'verify_email', 'reset_password', 'invite', 'welcome']) {
    assert.equal((await trial(id, 'ada@example.test', template)).success, true, template)
    const { mail } = await next(server)
    if (template === 'welcome')
      assert.deepEqual(
        [mail.subject, mail.html!.trim(), mail.text],
        ['Hi', '<i>ada@example.test</i>', undefined],
      )
    else assert.ok(mail.subject!.includes(name) && !mail.text!.includes('{{'), template)
  }
})

// faults-and-attacks 30
test('mail sending: no name, address or subject can inject a header, a recipient or a command', async () => {
  const server = await serve()
  const evil = 'Eve\r\nBcc: victim@example.test\r\n\r\n<h1>x</h1>\r\n.\r\nMAIL FROM:<root@example.test>'
  const project = await projectWith({ port: server.port }, `Shop\r\nBcc: victim@example.test`)
  const settings = {
    smtp: {
      host: 'localhost',
      port: server.port,
      from_email: 'shop@example.test\r\nBcc: victim@example.test',
      from_name: evil,
    },
  }
  const subject = '{{user_name}} {{project_name}} {{email}} {{action_url}}'
  const body = '{{user_name}} {{project_name}} {{email}} {{action_url}}'
  await manage('PUT', `/projects/${project.id}/email/templates/magic_link`, {
    subject,
    body_html: body,
    body_text: body,
  })
  await manage('PATCH', `/projects/${project.id}`, { settings })
  await enqueue(project.id, 'ada@example.test', {
    user_name: evil,
    email: evil,
    action_url: evil,
    token: evil,
  })
  const received = await next(server)
  assert.deepEqual([received.from, received.to], ['no-reply@localhost', ['ada@example.test']])
  assert.deepEqual(received.mail.headers.map(({ key }) => key).sort(), [
    'auto-submitted',
    'content-type',
    'date',
    'from',
    'message-id',
    'mime-version',
    'subject',
    'to',
  ])
  assert.equal(received.mail.bcc, undefined)
  assert.match(received.mail.subject!, /^Eve Bcc: victim@example\.test .* Shop Bcc: victim@example\.test /)
  assert.ok(!received.mail.html!.includes('<h1>') && received.mail.html!.includes('&lt;h1&gt;'))
  assert.deepEqual(server.received, [], 'no second mail is sent')

  for (const to of [
    'ada@example.test\r\nBcc: victim@example.test',
    'a@b.test,victim@example.test',
    'a@b.test> RCPT TO:<c@d.test',
  ]) {
    const reply = await platform.call('POST', `/api/v1/projects/${project.id}/email/test`, {
      token: platform.adminToken,
      body: { to, template: 'welcome' },
    })
    assert.deepEqual([reply.status, reply.body.error.code], [400, 'invalid_request'], to)
  }
})

test('mail sending: SMTP_* is used by projects without their own server and counts as configured', async () => {
  const [server, own] = [
    await serve({ login: { user: 'deployment', password: 'its secret' } }),
    await serve(),
  ]
  const other = await startPlatform({
    settings: {
      SMTP_HOST: 'localhost',
      SMTP_PORT: String(server.port),
      SMTP_USERNAME: 'deployment',
      SMTP_PASSWORD: 'its secret',
      SMTP_FROM_EMAIL: 'platform@example.test',
      SMTP_FROM_NAME: 'The Platform',
      SMTP_ENCRYPTION: 'none',
      ...allowsLocalMail,
    },
  })
  try {
    const { id } = await other.createProject()
    const ask = (method: string, rest: string, body?: unknown) =>
      other.call(method, `/api/v1/projects/${id}/email/${rest}`, {
        token: other.adminToken,
        ...(body !== undefined && { body }),
      })
    assert.deepEqual((await ask('GET', 'smtp')).body, {
      host: null,
      port: null,
      username: null,
      from_email: 'platform@example.test',
      from_name: 'The Platform',
      encryption: null,
      configured: true,
      source: 'deployment',
    })
    assert.equal((await ask('POST', 'test', { to: 'ada@example.test' })).body.success, true)
    assert.deepEqual((await next(server)).mail.from, {
      name: 'The Platform',
      address: 'platform@example.test',
    })
    await enqueue(id, 'bob@example.test', {}, other)
    assert.equal((await next(server)).user, 'deployment')
    assert.equal((await ask('GET', 'outbox')).body.total, 0)

    await ask('PUT', 'smtp', { host: 'localhost', port: own.port, from_email: 'shop@example.test' })
    await enqueue(id, 'carl@example.test', {}, other)
    assert.deepEqual((await next(own)).to, ['carl@example.test'])
    assert.deepEqual(server.received, [])
  } finally {
    await other.stop()
  }
})

test('mail sending: without an SMTP server a test mail is refused', async () => {
  const { id } = await platform.createProject()
  const reply = await platform.call('POST', `/api/v1/projects/${id}/email/test`, {
    token: platform.adminToken,
    body: { to: 'ada@example.test', template: 'welcome' },
  })
  assert.deepEqual([reply.status, reply.body.error.code], [400, 'smtp_not_configured'])
  assert.match(reply.body.error.message, /email\/smtp/)
})
