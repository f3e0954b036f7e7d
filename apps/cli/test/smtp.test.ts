// SMTP settings and captured mail of a project, with a real platform.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { enqueueMail } from '../../server/test/mail/enqueue.ts'
import { allowsLocalMail, startMailServer } from '../../server/test/mail/server.ts'
import { bin, type RunOptions, plinth as run, temporaryDirectory } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: allowsLocalMail })
})
after(() => platform.stop())

const cwd = temporaryDirectory()
const plinth = (args: string[], options: RunOptions = {}) => {
  const env = { PLATFORM_URL: platform.url, PLATFORM_TOKEN: platform.adminToken, ...options.env }
  return run(args, { cwd, ...options, env })
}
const smtp = (slug: string, args: string[], options?: RunOptions) =>
  plinth(['projects', 'smtp', 'set', slug, ...args], options)

async function enqueue(id: string, to: string) {
  const values = { user_name: 'Ada', action_url: 'https://app.test/verify?token=1', expires_in: '1 hour' }
  await enqueueMail(platform, id, { to, template: 'magic_link', values })
}

test('projects smtp set: keeps every setting that no flag names', async () => {
  const { slug } = await platform.createProject()
  const unset = await plinth(['projects', 'smtp', 'show', slug])
  assert.deepEqual([unset.json.data.configured, unset.json.data.host], [false, null])
  const text = await plinth(['projects', 'smtp', 'show', slug, '-o', 'text'])
  assert.match(text.stdout, /configured +no/)
  assert.match(text.stderr, /projects mail/)

  const first = await smtp(slug, [
    '--host',
    'mail.test',
    '--from',
    'shop@mail.test',
    '--from-name',
    'The Shop',
  ])
  assert.deepEqual(first.json.data, {
    host: 'mail.test',
    port: 587,
    username: '',
    from_email: 'shop@mail.test',
    from_name: 'The Shop',
    encryption: 'starttls',
    configured: true,
    source: 'project',
  })
  const second = await smtp(slug, ['--port', '2525'])
  assert.deepEqual(second.json.data, { ...first.json.data, port: 2525 })
  const third = await smtp(slug, ['--encryption', 'tls'])
  assert.deepEqual(third.json.data, { ...first.json.data, port: 465, encryption: 'tls' })
  assert.deepEqual((await plinth(['projects', 'smtp', 'show', slug])).json.data, third.json.data)
})

test('projects smtp set: reads the password from standard input and never shows it', async () => {
  const login = { user: 'mailer', password: 'p4ss phrase' }
  const server = await startMailServer({ login })
  after(() => server.close())
  const { id, slug } = await platform.createProject()
  const proxy = await recordingProxy(platform.url)
  const env = { PLATFORM_URL: proxy.url }
  const flags = [
    '--host',
    'localhost',
    '--port',
    String(server.port),
    '--from',
    'a@b.test',
    '--user',
    'mailer',
  ]
  const set = await smtp(slug, flags, { env, input: `${login.password}\n` })
  assert.equal(set.code, 0, set.stdout)
  assert.ok(!(set.stdout + set.stderr).includes(login.password))
  assert.ok(!proxy.requests.join('\n').includes(login.password))
  const stored = async () => {
    const { settings } = await platform.projects.read({ params: { id } })
    return (settings['smtp'] as { password?: string }).password
  }
  const renamed = await smtp(slug, ['--from-name', 'Shop'])
  assert.deepEqual([renamed.json.data.from_name, await stored()], ['Shop', '[redacted]'])
  const reply = await platform.call('POST', `/api/v1/projects/${id}/email/test`, {
    token: platform.adminToken,
    body: { to: 'ada@example.test', template: 'welcome' },
  })
  assert.equal(reply.body.success, true, reply.body.message)
  assert.equal(server.received[0]?.user, 'mailer')
  assert.equal((await smtp(slug, ['--user', 'none'])).json.data.username, '')
  assert.equal(await stored(), undefined, 'without a login there is nothing to keep a password for')
})

test('projects smtp set: asks for the password in a terminal and does not echo it', async () => {
  const { slug } = await platform.createProject()
  const words = [
    process.execPath,
    bin,
    'projects',
    'smtp',
    'set',
    slug,
    '--host',
    'mail.test',
    '--user',
    'me',
  ]
  const [program, args] =
    process.platform === 'darwin'
      ? ['script', ['-q', '/dev/null', ...words]]
      : ['script', ['-qec', `exec ${words.map(word => `'${word}'`).join(' ')}`, '/dev/null']]
  const child = spawn(program as string, args as string[], {
    cwd,
    env: {
      PATH: process.env['PATH'],
      NO_COLOR: '1',
      PLATFORM_URL: platform.url,
      PLATFORM_TOKEN: platform.adminToken,
    },
  })
  let shown = ''
  let isTyped = false
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text
    if (!isTyped && shown.includes('SMTP password')) {
      isTyped = true
      child.stdin.write('typed unseen\r')
    }
  })
  await new Promise(resolve => child.on('close', resolve))
  assert.ok(isTyped, shown)
  assert.ok(!shown.includes('typed unseen'))
  assert.match(shown, /configured +yes/)
  const [row] = (await platform.projects.list({ query: {} })).projects.filter(each => each.slug === slug)
  assert.equal((row!.settings['smtp'] as { password?: string }).password, '[redacted]')
})

test('projects smtp set: has no password flag, and rejects invalid values', async () => {
  const { slug } = await platform.createProject()
  const flag = await smtp(slug, ['--host', 'mail.test', '--password', 'x'])
  assert.equal(flag.code === 0, false)
  const port = await smtp(slug, ['--host', 'mail.test', '--port', '70000'])
  assert.deepEqual([port.code, port.json.error.code], [1, 'usage_invalid_value'])
  const bare = await smtp(slug, ['--port', '25'])
  assert.equal(bare.json.error.code, 'usage_missing_flag')
  assert.match(bare.json.error.suggestion, /--host/)
  const from = await smtp(slug, ['--host', 'mail.test', '--from', 'nobody'])
  assert.equal(from.json.error.code, 'invalid_request')
  assert.equal((await plinth(['projects', 'smtp', 'show', slug])).json.data.configured, false)
})

test('projects mail: lists captured mail, newest first, and shows one message with its link', async () => {
  const { id, slug } = await platform.createProject()
  const empty = await plinth(['projects', 'mail', slug])
  assert.deepEqual(empty.json.data, { messages: [], total: 0 })
  for (let at = 0; at < 101; at++) await enqueue(id, `user${at}@example.test`)
  const { messages, total } = (await plinth(['projects', 'mail', slug])).json.data
  assert.deepEqual([total, messages.length, messages[0].to], [101, 101, 'user100@example.test'])
  const list = await plinth(['projects', 'mail', slug, '-o', 'text'])
  assert.match(list.stdout, /user100@example\.test +magic_link +Sign in to/)

  const one = await plinth(['projects', 'mail', slug, '--message', messages[3].id])
  assert.equal(one.json.data.to, 'user97@example.test')
  const latest = await plinth(['projects', 'mail', '--project', slug, '--message', 'latest', '-o', 'text'])
  assert.match(latest.stdout, /user100@example\.test/)
  assert.match(latest.stdout, /^https:\/\/app\.test\/verify\?token=1$/m)

  const unknown = await plinth(['projects', 'mail', slug, '--message', id])
  assert.deepEqual([unknown.code, unknown.json.error.code], [1, 'message_not_found'])
  const { slug: other } = await platform.createProject()
  const none = await plinth(['projects', 'mail', other, '--message', 'latest'])
  assert.equal(none.json.error.code, 'message_not_found')
})
