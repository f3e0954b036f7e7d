// SMTP servers that a project configures: only public addresses are connected to, and no answer helps to scan ports
// (faults-and-attacks 26, 27, 51).
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer as createTlsServer } from 'node:tls'
import { sql } from '#src/kernel/postgres/sql.ts'
import { certificateFor } from './certificate.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { enqueueMail } from './mail/enqueue.ts'
import { answer, type MailServer, startMailServer } from './mail/server.ts'

/** The default: private addresses are forbidden. */
let guarded: TestPlatform
/** The loopback address is allowed. */
let open: TestPlatform
let local: MailServer
const undo: (() => unknown)[] = []
before(async () => {
  local = await startMailServer()
  guarded = await startPlatform()
  open = await startPlatform({ settings: { PLATFORM_OUTBOUND_ALLOW: '127.0.0.1' } })
})
after(async () => {
  await guarded.stop()
  await open.stop()
  await local.close()
  for (const step of undo) await step()
})

const put = (on: TestPlatform, id: string, smtp: object) =>
  on.call('PUT', `/api/v1/projects/${id}/email/smtp`, { token: on.adminToken, body: smtp })
const trial = (on: TestPlatform, id: string) =>
  on.call('POST', `/api/v1/projects/${id}/email/test`, {
    token: on.adminToken,
    body: { to: 'ada@example.test' },
  })
/** As an older version stored it, or a name that resolves to a private address now. */
const store = (on: TestPlatform, id: string, smtp: object) =>
  on.app.control.run(
    sql`update projects set settings = settings || ${JSON.stringify({ smtp })}::jsonb where id = ${id}`,
  )

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  undo.push(() => server.close())
  return (server.address() as AddressInfo).port
}

const privateHosts = [
  '127.0.0.1',
  '127.1',
  '0x7f000001',
  '2130706433',
  '0177.0.0.1',
  '0.0.0.0',
  '10.1.2.3',
  '100.64.0.1',
  '169.254.169.254',
  '192.168.0.1',
  '::',
  '::1',
  '::ffff:127.0.0.1',
  '64:ff9b::7f00:1',
  'fd00:ec2::254',
  'localhost',
  'LOCALHOST.',
  'mail.localhost',
  'metadata.google.internal',
]

test('SMTP settings: every route rejects a private address', async () => {
  const { id } = await guarded.createProject()
  const as = { token: guarded.adminToken }
  for (const host of privateHosts) {
    const smtp = { host, port: 587, from_email: 'shop@example.test' }
    const replies = [
      await put(guarded, id, smtp),
      await guarded.call('PATCH', `/api/v1/projects/${id}`, { ...as, body: { settings: { smtp } } }),
      await guarded.call('POST', '/api/v1/projects', { ...as, body: { name: 'x', settings: { smtp } } }),
    ]
    for (const { status, body } of replies) {
      assert.deepEqual([status, body.error?.code], [400, 'invalid_request'], host)
      assert.match(body.error.message, /public address/, host)
    }
  }
  const { settings } = (await guarded.call('GET', `/api/v1/projects/${id}`, as)).body
  assert.deepEqual(settings, {})
})

test('SMTP settings: a port below 1024 that is not a mail port is rejected', async () => {
  const { id } = await guarded.createProject()
  const at = async (port: number) =>
    (await put(guarded, id, { host: 'mail.example.test', port, from_email: 'shop@example.test' })).status
  for (const port of [1, 22, 53, 80, 443, 1023]) assert.equal(await at(port), 400, String(port))
  for (const port of [25, 465, 587, 1024, 1025, 2525, 65_535]) assert.equal(await at(port), 200, String(port))
})

test('SMTP settings: a stored private address is never connected to, and the log names the setting that allows it', async () => {
  const { id } = await guarded.createProject()
  let connections = 0
  const port = await listen(
    createServer(socket => {
      connections++
      socket.destroy()
    }),
  )
  for (const host of ['127.0.0.1', 'localhost', '127.1', '::ffff:127.0.0.1']) {
    await store(guarded, id, { host, port, from_email: 'shop@example.test', encryption: 'none' })
    const { status, body } = await trial(guarded, id)
    assert.deepEqual([status, body.success], [200, false], host)
  }
  const values = { user_name: 'Ada', action_url: 'https://app.test/', expires_in: '1 hour' }
  await enqueueMail(guarded, id, { to: 'ada@example.test', template: 'welcome', values })
  const attempts = async () =>
    (
      await guarded.app.control.row<{ attempts: number }>(
        sql`select attempts from mail_queue where project_id = ${id} and leased_until <= now()`,
      )
    )?.attempts ?? 0
  while ((await attempts()) === 0) await sleep(20)
  assert.equal(connections, 0)
  const entries = guarded.logged
    .map(line => JSON.parse(line))
    .filter(entry => entry.project === id && entry.msg !== 'request')
  assert.equal(entries.length, 5)
  for (const { reason } of entries)
    assert.match(reason, /is not public.*PLATFORM_OUTBOUND_ALLOW/, 'an operator learns what to set')
})

test('SMTP settings: addresses in PLATFORM_OUTBOUND_ALLOW and the server of SMTP_* are exempt', async () => {
  const { id } = await open.createProject()
  const smtp = { host: '127.0.0.1', port: local.port, from_email: 'shop@example.test' }
  assert.equal((await put(open, id, smtp)).status, 200)
  assert.equal((await trial(open, id)).body.success, true)

  const served = await startPlatform({
    settings: { SMTP_HOST: '127.0.0.1', SMTP_PORT: String(local.port) },
  })
  try {
    const project = await served.createProject()
    assert.equal((await trial(served, project.id)).body.success, true)
    assert.equal((await put(served, project.id, smtp)).status, 400, 'but a project may not name it')
  } finally {
    await served.stop()
  }
})

test('SMTP test: closed, silent and non-SMTP ports get the same answer after the full timeout', async () => {
  const closed = createServer()
  const closedPort = await listen(closed)
  closed.close()
  await once(closed, 'close')
  const silent = createServer(socket => void socket.on('error', () => {}))
  const ssh = createServer(socket => void socket.on('error', () => {}).write('SSH-2.0-OpenSSH_9.6\r\n'))
  const web = createHttpServer((_request, response) => response.end('secret words'))
  const untrusted = createTlsServer(certificateFor('mail.example.test'), socket => {
    socket.on('error', () => {}).write('HTTP/1.1 400 Bad Request\r\n\r\n')
  }).on('tlsClientError', () => {})
  const busy = createServer(socket => void socket.on('error', () => {}).write('554 no mail here\r\n'))
  const ports = [closedPort, ...(await Promise.all([silent, ssh, web, untrusted, busy].map(listen)))]
  const targets = ports.flatMap(port =>
    (['none', 'starttls', 'tls'] as const).map(encryption => ({ port, encryption })),
  )
  const answers = await Promise.all(
    targets.map(async ({ port, encryption }) => {
      const { id } = await open.createProject()
      const smtp = { host: '127.0.0.1', port, encryption, from_email: 'shop@example.test' }
      assert.equal((await put(open, id, smtp)).status, 200)
      const since = performance.now()
      const { status, body } = await trial(open, id)
      assert.ok(performance.now() - since > 9_900, 'a closed port is not answered sooner')
      return JSON.stringify({ status, body })
    }),
  )
  assert.deepEqual(
    [...new Set(answers)],
    [
      JSON.stringify({
        status: 200,
        body: {
          success: false,
          message:
            'The test mail was not sent: the mail server could not be reached. Check host, port and encryption.',
        },
      }),
    ],
  )
})

test('SMTP test: the answer has the kind of an SMTP error, never the text of the server', async () => {
  const refusing = (code: number) => () => {
    throw answer(code, 'words of the server')
  }
  const cases: [string, Parameters<typeof startMailServer>[0], object, RegExp][] = [
    [
      'login',
      { login: { user: 'a', password: 'b' } },
      { username: 'a', password: 'wrong' },
      /refused the login/,
    ],
    ['recipient', { onRecipient: refusing(550) }, {}, /refused the message/],
    ['message', { onMessage: refusing(552) }, {}, /refused the message/],
    ['no STARTTLS', {}, { encryption: 'starttls' }, /TLS failed/],
    [
      'certificate',
      { encryption: 'starttls', certificate: 'unsigned' },
      { encryption: 'starttls' },
      /TLS failed/,
    ],
    [
      'certificate of TLS',
      { encryption: 'tls', certificate: 'unsigned' },
      { encryption: 'tls' },
      /TLS failed/,
    ],
  ]
  for (const [what, options, settings, expected] of cases) {
    const server = await startMailServer(options)
    undo.push(() => server.close())
    const { id } = await open.createProject()
    const smtp = { host: '127.0.0.1', port: server.port, from_email: 'shop@example.test', ...settings }
    assert.equal((await put(open, id, smtp)).status, 200)
    const { body } = await trial(open, id)
    assert.equal(body.success, false, what)
    assert.match(body.message, expected, what)
    assert.doesNotMatch(body.message, /\d|words of|E[A-Z]{3}/, what)
    const logged = open.logged
      .map(line => JSON.parse(line))
      .find(entry => entry.project === id && entry.msg !== 'request')
    assert.match(logged.reason, /\(.*\)/, `${what}: the operator's log has the codes`)
  }
})
