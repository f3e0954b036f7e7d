// Events that are forwarded to this machine, with a real platform and a real receiver.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { address } from '../../server/test/auth-project.ts'
import { eventually } from '../../server/test/eventually.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type Received, startReceiver } from '../../server/test/webhook-project.ts'
import { faultyProxy } from './faulty-proxy.ts'
import { beginProcess, freePort } from './plinth.ts'
import { type Listening, webhooksCommands } from './webhooks-commands.ts'

// Without PLATFORM_OUTBOUND_ALLOW: the platform may not call this machine, but the command line may.
let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const verify = (secret: string, { headers, raw }: Received) =>
  new Webhook(secret).verify(raw, headers as Record<string, string>)
const ready = (listening: Listening, count = 1) =>
  eventually(() => {
    assert.ok(!listening.hasEnded(), listening.stdout() + listening.stderr())
    return listening.lines().filter(each => each.kind === 'ready')[count - 1]
  }, 'the listener is ready')
const deliveriesIn = (listening: Listening) => listening.lines().filter(each => each.kind === 'delivery')
const printed = (listening: Listening, count: number) =>
  eventually(() => deliveriesIn(listening).length >= count, `${count} deliveries are printed`)

test('webhooks listen: forwards events in order with their headers and exact bodies, and Ctrl-C closes it with 0', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { listen, done, project } = await webhooksCommands(platform)
  const proxy = await faultyProxy(platform.url, [])
  const listening = listen(['--forward-to', receiver.url], { env: { PLATFORM_URL: proxy.url } })
  const { secret, listener_id: id, events, forward_to } = await ready(listening)
  assert.deepEqual([events, forward_to], [['*'], receiver.url])

  const email = address()
  await project.signUp(email)
  await receiver.until(2)
  const types = receiver.received.map(({ body }) => body.type)
  assert.deepEqual(types.toSorted(), ['user.created', 'user.signed_in'])
  for (let i = 1; i <= 25; i++)
    await done('trigger', 'db.public.todos.insert', '--record', JSON.stringify({ i, text: 'ä\u2028€' }))
  await receiver.until(27)
  assert.deepEqual(
    receiver.received.slice(2).map(({ body }) => body.record.i),
    Array.from({ length: 25 }, (_, i) => i + 1),
  )
  for (const each of receiver.received) verify(secret, each)
  assert.match(receiver.received[0]!.headers['user-agent'] as string, /^Plinth-Webhooks\//)

  await printed(listening, 27)
  const { timestamp, delivery_id, latency_ms, ...rest } = deliveriesIn(listening)[2]
  assert.deepEqual(rest, { kind: 'delivery', event: 'db.public.todos.insert', status: 200, error: null })
  assert.ok(!Number.isNaN(Date.parse(timestamp)) && latency_ms >= 0)
  assert.equal(receiver.received[2]!.headers['webhook-id'], `msg_${delivery_id.replaceAll('-', '')}`)
  assert.equal(await listening.interrupt(), 0)
  assert.equal(proxy.requests.at(-1), `DELETE /api/v1/projects/${project.id}/webhooks/listeners/${id}`)
  assert.deepEqual((await done('trigger', 'user.created')).deliveries, 0)
  assert.equal(listening.lines().length, 28)
})

test('webhooks listen: prints one line of text for each delivery, with the status or the error', async t => {
  const receiver = await startReceiver((response, _received, number) => {
    if (number === 3) return void response.destroy()
    response.writeHead(number === 1 ? 302 : 500, { location: '/elsewhere' }).end('x'.repeat(200_000))
  })
  t.after(receiver.close)
  const { listen, done } = await webhooksCommands(platform)
  const listening = listen(['--forward-to', receiver.url, '--events', 'user.created', '-o', 'text'])
  await eventually(
    () => /✓ Ready\. Forwarding user\.created to http.* Press Ctrl-C/.test(listening.stderr()),
    'ready',
  )
  const [, secret] = /signing secret of these deliveries is (whsec_\S+)/.exec(listening.stderr()) ?? []
  for (let i = 0; i < 3; i++) await done('trigger', 'user.created')
  await done('trigger', 'user.deleted')
  await eventually(() => listening.stdout().split('\n').length === 4, 'three lines')
  receiver.close()
  await done('trigger', 'user.created')
  await eventually(() => listening.stdout().split('\n').length === 5, 'four lines')
  const id = '[0-9a-f-]{36}'
  for (const [i, result] of [
    `302  user.created  ${id}  \\d+ ms`,
    `500  user.created  ${id}  \\d+ ms`,
    `failed  user.created  ${id}  the connection was cut`,
    `failed  user.created  ${id}  nothing listens there`,
  ].entries())
    assert.match(listening.stdout().split('\n')[i]!, new RegExp(`^\\d{4}-\\S+Z  ${result}$`))
  assert.equal(receiver.received.length, 3)
  verify(secret!, receiver.received[0]!)
  assert.equal(await listening.interrupt(), 0)
})

test('webhooks listen: localhost and a URL without http:// work', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { listen, done } = await webhooksCommands(platform)
  const listening = listen(['--forward-to', receiver.url.replace('http://127.0.0.1', 'localhost')])
  await ready(listening)
  await done('trigger', 'user.created')
  await receiver.until(1)
  assert.equal(await listening.interrupt(), 0)
})

test('webhooks listen: an expired listener is replaced by one with another secret, and the warning says so', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { listen, done, project } = await webhooksCommands(platform)
  const proxy = await faultyProxy(platform.url, [])
  const listening = listen(['--forward-to', receiver.url], { env: { PLATFORM_URL: proxy.url } })
  const { listener_id, secret } = await ready(listening)
  await project.hooks.closeListener({ params: { id: project.id, listener_id } })
  // Otherwise the request that waits for deliveries ends only after 20 seconds.
  proxy.cut()
  const second = await ready(listening, 2)
  assert.notEqual(second.secret, secret)
  assert.match(
    listening.stderr(),
    /warning: The listener has expired\. The new one has another signing secret\./,
  )
  await done('trigger', 'user.created')
  const [received] = await receiver.until(1)
  verify(second.secret, received!)
  assert.equal(await listening.interrupt(), 0)
  assert.deepEqual((await done('trigger', 'user.created')).deliveries, 0)
})

test('webhooks listen: continues after lost connections, without a second listener or a second delivery', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { listen, done } = await webhooksCommands(platform)
  const proxy = await faultyProxy(platform.url, [])
  const listening = listen(['--forward-to', receiver.url], { env: { PLATFORM_URL: proxy.url } })
  const { secret } = await ready(listening)
  await eventually(
    () => proxy.requests.some(each => each.includes('/deliveries?')),
    'it waits for deliveries',
  )
  proxy.cut()
  await eventually(() => /warning: The platform cannot be reached/.test(listening.stderr()), 'the warning')
  await done('trigger', 'user.created')
  const [received] = await receiver.until(1)
  verify(secret, received!)
  await eventually(() => /The platform responds again/.test(listening.stderr()), 'it works again')
  await printed(listening, 1)
  assert.equal(listening.lines().filter(each => each.kind === 'ready').length, 1)
  assert.equal(await listening.interrupt(), 0)
  assert.equal(receiver.received.length, 1)
})

test('webhooks listen: Ctrl-C while the server has not answered ends it with 0 and closes the listener', async t => {
  const receiver = await startReceiver(() => {})
  t.after(receiver.close)
  const { listen, done } = await webhooksCommands(platform)
  const listening = listen(['--forward-to', receiver.url])
  await ready(listening)
  await done('trigger', 'user.created')
  await receiver.until(1)
  assert.equal(await listening.interrupt(), 0)
  assert.equal(listening.lines().length, 1)
  assert.deepEqual((await done('trigger', 'user.created')).deliveries, 0)
})

test('webhooks listen: changes of the named tables are captured while it runs', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { listen, project } = await webhooksCommands(platform)
  await project.sql(
    'create schema app; create table todos (id int primary key); create table app.notes (id int)',
  )
  const listening = listen([
    '--forward-to',
    receiver.url,
    '--events',
    'user.created',
    '--table',
    'todos',
    '--table',
    'app.notes',
  ])
  const { events, secret } = await ready(listening)
  assert.deepEqual(events, ['user.created', 'db.public.todos.*', 'db.app.notes.*'])
  await project.sql('insert into todos values (1); insert into app.notes values (2)')
  await receiver.until(2)
  for (const each of receiver.received) verify(secret, each)
  assert.deepEqual(receiver.received.map(({ body }) => body.event).toSorted(), [
    'db.app.notes.insert',
    'db.public.todos.insert',
  ])
  assert.equal(await listening.interrupt(), 0)
})

test('webhooks listen: a row change without its table comes with the flag to add', async () => {
  const { listen, project } = await webhooksCommands(platform)
  await project.sql('create schema app; create table app.notes (id int primary key)')
  const events = 'db.public.todos.insert,db.app.notes.*,user.created'
  const listening = listen([
    '--forward-to',
    'localhost:1',
    '--events',
    events,
    '--table',
    'app.notes',
    '-o',
    'text',
  ])
  await eventually(() => /Ready/.test(listening.stderr()), 'ready')
  assert.match(
    listening.stderr(),
    /^db\.public\.todos\.insert comes only from .* --table public\.todos\n✓ Ready/,
  )
  assert.equal(await listening.interrupt(), 0)
})

test('webhooks listen: fails at once with a suggestion if the listener cannot be opened', async () => {
  const { listen } = await webhooksCommands(platform)
  const { token } = await platform.platform.mintToken({ body: { name: 'reader', scope: 'read' } })
  for (const [args, env, code] of [
    [[], { PLATFORM_TOKEN: token }, 'insufficient_scope'],
    [['--events', 'nonsense'], {}, 'invalid_webhook_event'],
    [[], { PLATFORM_URL: `http://127.0.0.1:${await freePort()}` }, 'connection_failed'],
  ] as const) {
    const listening = listen(['--forward-to', 'localhost:1', ...args], { env })
    assert.equal(await listening.ended, 1)
    const { error } = listening.lines()[0]
    assert.equal(error.code, code)
    assert.ok(error.suggestion)
  }
})

test('webhooks listen: a process that gets SIGINT or SIGTERM closes the listener and ends with 0', async t => {
  const { project, done, cwd } = await webhooksCommands(platform)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    const child = beginProcess(['webhooks', 'listen', '--forward-to', 'localhost:1'], {
      cwd,
      env: {
        PLATFORM_URL: platform.url,
        PLATFORM_TOKEN: platform.adminToken,
        PLATFORM_PROJECT: project.id,
      },
    })
    t.after(() => child.kill('SIGKILL'))
    const [chunk] = (await once(child.stdout, 'data')) as [Buffer]
    assert.equal(JSON.parse(chunk.toString()).kind, 'ready')
    assert.equal((await done('trigger', 'user.created')).deliveries, 1)
    child.kill(signal)
    assert.deepEqual(await once(child, 'close'), [0, null])
    assert.equal((await done('trigger', 'user.created')).deliveries, 0)
  }
})
