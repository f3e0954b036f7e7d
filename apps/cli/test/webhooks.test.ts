// Webhooks from the command line, with a real platform and a real receiver.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { eventually } from '../../server/test/eventually.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { quickRetries, type Received, startReceiver } from '../../server/test/webhook-project.ts'
import { plinth, temporaryDirectory, writeIn } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'
import { codes } from './storage-project.ts'
import { webhooksCommands } from './webhooks-commands.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: { ...quickRetries, WEBHOOK_MAX_RETRIES: '2' } })
})
after(() => platform.stop())

const verify = (secret: string, { headers, raw }: Received) =>
  new Webhook(secret).verify(raw, headers as Record<string, string>)
const unknown = '0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d'

test('webhooks create: prints the secret once, which verifies deliveries; list and show never print it', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { done, text, webhooks } = await webhooksCommands(platform)
  assert.match((await text('list'))[1], /No webhooks yet: plinth webhooks create/)
  const [stdout, stderr] = await text(
    ...['create', '--url', receiver.url, '--events', 'user.created,user.deleted', '--description', 'My hook'],
  )
  const [, secret] = /^ {2}secret +(whsec_\S+)$/m.exec(stdout) ?? []
  assert.match(stderr, /The secret is shown only now\. Store it .*\nplinth webhooks test [0-9a-f-]{36} sends/)
  const { webhooks: listed, total } = await done('list')
  const [{ id, url, events, description, is_active }] = listed
  assert.deepEqual(
    [total, url, events, description, is_active],
    [1, receiver.url, ['user.created', 'user.deleted'], 'My hook', true],
  )
  for (const args of [['list'], ['show', id], ['list', '-o', 'text'], ['show', '--id', id, '-o', 'text']]) {
    const shown = await webhooks(args)
    assert.equal(shown.code, 0, shown.stderr)
    assert.ok(shown.stdout.includes(receiver.url) && !shown.stdout.includes('whsec_'), args.join(' '))
  }
  assert.match(
    (await text('list'))[0],
    /^ID +URL +EVENTS +STATE +CREATED\n\S+ +http\S+ +user\.created, user\.deleted +active +\d{4}-/,
  )

  assert.deepEqual(await done('trigger', 'user.created'), { event: 'user.created', deliveries: 1 })
  const [received] = await receiver.until(1)
  assert.equal(received!.body.type, 'user.created')
  verify(secret!, received!)
})

test('webhooks create: --url is that of the webhook; the URL of the platform comes before the command', async () => {
  const { project } = await webhooksCommands(platform)
  const env = { PLATFORM_TOKEN: platform.adminToken, PLATFORM_PROJECT: project.id }
  const args = ['webhook', 'create', '--url', 'https://example.com/hooks', '--events', '*']
  const made = await plinth(['--url', platform.url, ...args], { env, cwd: temporaryDirectory() })
  assert.equal(made.json.data.url, 'https://example.com/hooks', made.stdout)
})

test('webhooks update: switches a webhook off and on, and changes its URL, events and description', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { done, text, failed } = await webhooksCommands(platform)
  const { id } = await done('create', '--url', 'https://example.com/', '--events', 'user.created')
  assert.equal((await done('update', '--id', id, '--is-active', 'false')).is_active, false)
  assert.match((await text('show', id))[0], /^ {2}state +off$/m)
  assert.equal((await done('trigger', 'user.created')).deliveries, 0)
  const changes = ['--url', receiver.url, '--events', 'user.deleted', '--events', '*', '--description', 'Two']
  const changed = await done('update', id, '--is-active=true', ...changes)
  assert.deepEqual(
    [changed.is_active, changed.url, changed.events, changed.description],
    [true, receiver.url, ['user.deleted', '*'], 'Two'],
  )
  await done('trigger', 'user.signed_out')
  assert.equal((await receiver.until(1))[0]!.body.type, 'user.signed_out')
  const nothing = await failed('update', id)
  assert.deepEqual([nothing.code, nothing.message], ['usage_missing_flag', 'There is nothing to change.'])
})

test('webhooks rotate-secret: deliveries verify with the old and with the new secret', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { done, text } = await webhooksCommands(platform)
  const { id, secret } = await done('create', '--url', receiver.url, '--events', '*')
  const [stdout, stderr] = await text('rotate-secret', id)
  const [, rotated] = /^ {2}secret +(whsec_\S+)$/m.exec(stdout) ?? []
  assert.notEqual(rotated, secret)
  assert.match(stderr, /shown only now(.*\n)+Until \d{4}-.* signed with both secrets/)
  await done('trigger', 'user.created')
  const [received] = await receiver.until(1)
  for (const each of [secret, rotated!]) verify(each, received!)
})

test('webhooks test: prints the answer of the receiver, and ends with 1 unless it is 2xx', async t => {
  let status = 200
  const receiver = await startReceiver(response => void response.writeHead(status).end('my \x1b[2Janswer'))
  t.after(receiver.close)
  const { done, text, webhooks } = await webhooksCommands(platform)
  const { id, secret } = await done('create', '--url', receiver.url, '--events', 'user.created')
  const result = await done('test', id)
  assert.deepEqual(
    [result.success, result.status_code, result.response_body, result.error],
    [true, 200, 'my \x1b[2Janswer', null],
  )
  verify(secret, receiver.received[0]!)
  assert.match(
    (await text('test', '--webhook', id))[0],
    /^Delivered: status 200 in \d+ ms\.\nmy �\[2Janswer\n$/,
  )
  status = 500
  const refused = await webhooks(['test', id])
  assert.deepEqual([refused.code, refused.json.ok, refused.json.data.success], [1, true, false])
  receiver.close()
  const unreachable = await webhooks(['test', id, '-o', 'text'])
  assert.equal(unreachable.code, 1)
  assert.match(unreachable.stdout, /^Failed: .* in \d+ ms\.\n$/)
  assert.match(unreachable.stderr, /status from 200 to 299/)
})

test('webhooks deliveries, delivery and retry: show attempts and payload, and queue a dead letter again', async t => {
  let status = 503
  const receiver = await startReceiver(response => void response.writeHead(status).end('not now'))
  t.after(receiver.close)
  const { done, text, failed } = await webhooksCommands(platform)
  const { id } = await done('create', '--url', receiver.url, '--events', '*')
  assert.match((await text('deliveries', id))[1], /^No deliveries/)
  await done('trigger', 'db.public.todos.insert', '--record', '{"id":1}')
  const [dead] = await eventually(async () => {
    const { deliveries } = await done('deliveries', id, '--status', 'dead_letter')
    return deliveries.length > 0 && deliveries
  }, 'the delivery is a dead letter')
  assert.deepEqual(
    [dead.event, dead.attempt_count, dead.attempts.map((each: any) => each.status_code)],
    ['db.public.todos.insert', 2, [503, 503]],
  )
  assert.match(
    (await text('deliveries', '--id', id))[0],
    /^ID +EVENT +STATUS +ATTEMPTS +LAST RESULT .*\n\S+ +db\.public\.todos\.insert +dead_letter +2 +503 +- +\d{4}/,
  )
  const shown = await done('delivery', id, dead.id)
  assert.deepEqual(JSON.parse(shown.payload).record, { id: 1 })
  const [stdout, stderr] = await text('delivery', '--webhook', id, '--delivery', dead.id)
  assert.match(stdout, /^AT +STATUS +MS +RESULT .*\n\S+ +503 +\d+ +not now /m)
  assert.ok(stdout.endsWith(`\n\n${shown.payload}\n`), stdout)
  assert.match(stderr, new RegExp(`plinth webhooks retry ${id} ${dead.id}`))

  status = 204
  const queued = await done('retry', '--webhook', id, '--delivery', dead.id)
  assert.deepEqual([queued.id, queued.manual_retry_count], [dead.id, 1])
  await receiver.until(3)
  await eventually(
    async () => (await done('delivery', id, dead.id)).status === 'delivered',
    'it is delivered',
  )
  assert.match((await text('delivery', id, dead.id))[1], /The payload was deleted/)
  const again = await failed('retry', id, dead.id)
  assert.equal(again.code, 'delivery_not_dead')
  assert.match(again.suggestion, /--status dead_letter/)
})

test('webhooks deliveries: filters by event and time, and reads as many pages as the limit needs', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { done, text, project } = await webhooksCommands(platform)
  const { id } = await done('create', '--url', receiver.url, '--events', '*')
  const trigger = (event: string) => project.hooks.trigger({ params: { id: project.id }, body: { event } })
  for (let i = 0; i < 105; i++) await trigger('user.created')
  await trigger('user.deleted')
  const read = async (...args: string[]) => done('deliveries', id, ...args)
  const all = await read('--limit', '200')
  assert.deepEqual([all.deliveries.length, all.next_before], [106, null])
  assert.equal((await read()).deliveries.length, 50)
  const first = await read('--limit', '104')
  assert.equal(first.deliveries.length, 104)
  const rest = await read('--limit', '104', '--before', first.next_before)
  const ids = [...first.deliveries, ...rest.deliveries].map((each: any) => each.id)
  assert.deepEqual(
    ids,
    all.deliveries.map((each: any) => each.id),
  )
  assert.match(
    (await text('deliveries', id, '--limit', '1'))[1],
    /^There are older ones: --limit .* --before [0-9a-f-]{36}/,
  )
  const deleted = await read('--event', 'user.deleted')
  assert.deepEqual(
    deleted.deliveries.map((each: any) => each.event),
    ['user.deleted'],
  )
  assert.equal((await read('--from', '2000-01-01', '--limit', '200')).deliveries.length, 106)
  assert.deepEqual((await read('--to', '2000-01-01T00:00:00Z')).deliveries, [])
  assert.deepEqual((await read('--from', '2999-01-01T00:00:00+02:00')).deliveries, [])
})

test('webhooks dlq purge: deletes dead letters that ended the given days ago', async t => {
  const receiver = await startReceiver(response => void response.writeHead(500).end())
  t.after(receiver.close)
  const { done, text } = await webhooksCommands(platform)
  const { id } = await done('create', '--url', receiver.url, '--events', '*')
  await done('trigger', 'user.created')
  const dead = async () => (await done('deliveries', id, '--status', 'dead_letter')).deliveries.length
  await eventually(dead, 'the delivery is a dead letter')
  assert.deepEqual(await done('dlq', 'purge', '--days', '1'), { deleted: 0, days: 1 })
  assert.equal((await done('dlq', 'purge')).deleted, 0)
  assert.equal(await dead(), 1)
  assert.match((await text('dlq', 'purge', '--days', '0'))[0], /^Deleted \d+ dead-letter deliver(y|ies) /)
  assert.equal(await dead(), 0)
})

test('webhooks delete: needs --yes without a terminal, and deletes the webhook', async () => {
  const { done, failed } = await webhooksCommands(platform)
  const { id } = await done('create', '--url', 'https://example.com/', '--events', '*')
  assert.equal((await failed('delete', id)).code, 'confirmation_missing')
  assert.equal((await done('list')).total, 1)
  assert.deepEqual((await done('delete', id, '--yes')).deleted, true)
  assert.equal((await done('list')).total, 0)
  const gone = await failed('delete', id, '-y')
  assert.deepEqual(
    [gone.code, gone.suggestion],
    ['webhook_not_found', 'plinth webhooks list shows the webhooks.'],
  )
})

test('webhooks attach, attachments and detach: a table, with its operations and its schema', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { done, text, failed, project } = await webhooksCommands(platform)
  await project.sql(
    'create schema app; create table todos (id int primary key); create table app.notes (id int)',
  )
  const { id } = await done('create', '--url', receiver.url, '--events', '*')
  assert.match((await text('attachments', id))[1], /^No tables are attached: plinth webhooks attach/)
  const attached = await done('attach', '--webhook', id, '--table', 'todos', '--events', 'update,INSERT')
  assert.deepEqual(attached, {
    webhook_id: id,
    schema: 'public',
    table: 'todos',
    events: ['INSERT', 'UPDATE'],
  })
  const [stdout] = await text('attach', id, '--table', 'notes', '--schema', 'app')
  assert.equal(stdout, `app.notes is attached to ${id}: insert, update, delete.\n`)
  assert.deepEqual((await done('attachments', id)).total, 2)
  assert.match(
    (await text('attachments', id))[0],
    /^SCHEMA +TABLE +EVENTS\n(.*\n)*public +todos +insert, update\n/,
  )
  await project.sql('insert into todos values (1)')
  const [received] = await receiver.until(1)
  assert.deepEqual([received!.body.event, received!.body.record], ['db.public.todos.insert', { id: 1 }])

  await done('detach', '--webhook', id, '--table', 'todos')
  await done('detach', id, '--table', 'todos')
  assert.deepEqual(
    (await done('attachments', id)).attachments.map((each: any) => each.table),
    ['notes'],
  )
  const qualified = await failed('attach', id, '--table', 'app.notes')
  assert.deepEqual(
    [qualified.code, qualified.suggestion],
    ['table_not_attachable', 'Name the schema with its own flag: --schema app --table notes'],
  )
  assert.equal(
    (await failed('attach', id, '--table', 'todos', '--events', 'truncate')).code,
    'invalid_webhook_event',
  )
})

test('webhooks trigger: sends the row of a file or of standard input', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { done, text, webhooks, cwd } = await webhooksCommands(platform)
  await done('create', '--url', receiver.url, '--events', 'db.public.todos.*')
  writeIn(cwd, 'row.json', { id: 1 })
  await done('trigger', 'db.public.todos.insert', '--record', '@row.json')
  assert.deepEqual((await receiver.until(1))[0]!.body.record, { id: 1 })
  await webhooks(['trigger', 'db.public.todos.delete', '--record', '@-'], { input: '{"id":2}' })
  assert.deepEqual((await receiver.until(2))[1]!.body.old_record, { id: 2 })
  const [stdout, stderr] = await text('trigger', 'user.created')
  assert.equal(stdout, 'Triggered user.created: 0 deliveries.\n')
  assert.match(stderr, /no listener selects this event/)
})

test('webhooks: errors of the platform come with a suggestion', async () => {
  const { failed } = await webhooksCommands(platform)
  for (const [args, code, words] of [
    [['show', unknown], 'webhook_not_found', /webhooks list/],
    [['create', '--url', 'http://10.0.0.1/', '--events', '*'], 'invalid_webhook_url', /webhooks listen/],
    [
      ['create', '--url', 'https://example.com/', '--events', 'x.y'],
      'invalid_webhook_event',
      /user\.created/,
    ],
    [['trigger', 'db.todos'], 'invalid_webhook_event', /db\.<schema>/],
  ] as const) {
    const error = await failed(...args)
    assert.equal(error.code, code, args.join(' '))
    assert.match(error.suggestion, words)
  }
})

test('webhooks: invalid arguments fail before any request', async () => {
  const { webhooks } = await webhooksCommands(platform)
  const proxy = await recordingProxy(platform.url)
  for (const [line, code, words] of [
    ['show', 'usage_missing_argument', /webhooks list/],
    ['test first', 'usage_invalid_value', /not the id of a webhook/],
    [`delete ${unknown}`, 'confirmation_missing', /--yes/],
    [`retry ${unknown}`, 'usage_missing_argument', /<delivery> is missing.* webhooks deliveries/],
    [`retry ${unknown} --webhook ${unknown} --delivery x`, 'usage_invalid_value', /id of a delivery/],
    ['create --url https://example.com/', 'usage_missing_flag', /--events is missing/],
    ['create --url https://example.com/ --events a,,b', 'usage_invalid_value', /one comma/],
    [`update ${unknown} --is-active maybe`, 'usage_invalid_value', /true, false/],
    [`deliveries ${unknown} --status dead`, 'usage_invalid_value', /pending, delivered, dead_letter/],
    [`deliveries ${unknown} --limit 0`, 'usage_invalid_value', /at least 1/],
    [`deliveries ${unknown} --from yesterday`, 'usage_invalid_value', /2030-01-31/],
    [`deliveries ${unknown} --before x`, 'usage_invalid_value', /next_before/],
    [`attach ${unknown}`, 'usage_missing_flag', /--table is missing/],
    ['dlq purge --days -1', 'usage_invalid_value', /0 or more/],
    ['trigger user.created --record {}', 'usage_invalid_value', /has no row/],
    ['trigger db.public.todos.insert --record [1]', 'usage_invalid_value', /JSON object/],
    ['trigger db.public.todos.insert --record @nowhere.json', 'file_unreadable', /nowhere\.json/],
    ['listen', 'usage_missing_flag', /--forward-to is missing/],
    ['listen --forward-to ftp://localhost', 'usage_invalid_value', /http:\/\/localhost:3000/],
    ['listen --forward-to localhost:3000 --table .x', 'usage_invalid_value', /public\.todos/],
  ] as const) {
    const refused = await webhooks(line.split(' '), { env: { PLATFORM_URL: proxy.url } })
    assert.deepEqual(codes(refused), [1, code], `${line}: ${refused.stdout}`)
    const { message, suggestion } = refused.json.error
    assert.match(`${message} ${suggestion}`, words, line)
  }
  assert.deepEqual(proxy.requests, [])
})
