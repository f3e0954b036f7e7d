// 2 §3 "Webhook delivery", §4.6, §5, §6, §8 and the issue: signatures, retries, dead letters and the delivery log.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, mintToken, someId, uuid } from '../people.ts'
import { freshTarget, type Target } from '../target.ts'
import { until } from '../until.ts'
import {
  answering,
  assertSigned,
  localReceivers,
  type Received,
  signatureOf,
  startReceiver,
  verify,
  type WebhooksApi,
  webhooksProject,
} from '../webhooks.ts'
import { assertManagementError, assertNeedsScope } from '../wire.ts'

let it: Target
let own: WebhooksApi
before(async () => {
  it = await freshTarget(localReceivers)
  own = await webhooksProject(it)
})
after(() => it.stop())

const header = (name: string) => (each: Received) => String(each.headers[name])
const distinct = (values: unknown[]) => new Set(values).size

test('2 §6 auth events are delivered with their body and are signed', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const webhook = await project.create(receiver.url)
  const user = await project.signUp()
  await project.put('/user', { data: { theme: 'dark' } }, { token: user.token })
  await project.post('/logout', undefined, { token: user.token })
  await project.signIn(user)
  await project.admin('DELETE', `/admin/users/${user.id}`)
  const types = ['created', 'updated', 'deleted', 'signed_in', 'signed_out'].map(name => `user.${name}`)
  await until('every event arrives', async () =>
    types.every(type => receiver.received.some(({ body }) => body?.type === type)),
  )
  for (const delivered of receiver.received) {
    const { id, type, project_id, created_at, data, ...rest } = delivered.body
    assert.deepEqual(rest, {}, delivered.raw)
    assert.match(id, /^evt_\w{8,}$/)
    assert.ok(types.includes(type), type)
    assert.equal(project_id, project.project.id)
    assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/)
    assert.deepEqual(data, { user_id: user.id, email: user.email })
    assertSigned(delivered, webhook.secret)
    assert.equal(delivered.path, '/hook?from=test')
    assert.throws(() => verify(webhook.secret, { ...delivered, raw: `${delivered.raw} ` }))
  }
  assert.equal(distinct(receiver.received.map(({ body }) => body.id)), receiver.received.length)
  assert.equal(distinct(receiver.received.map(header('x-webhook-id'))), receiver.received.length)
})

test('2 §6 a webhook gets only the events that it subscribes to, of its own project', async t => {
  const [receiver, others] = [await startReceiver(), await startReceiver()]
  t.after(receiver.close)
  t.after(others.close)
  const [mine, theirs] = [await webhooksProject(it), await webhooksProject(it)]
  await mine.create(receiver.url, ['user.deleted'])
  await theirs.create(others.url, ['*'])
  const user = await mine.createUser()
  await mine.admin('DELETE', `/admin/users/${user.id}`)
  const [deleted] = await receiver.until(1)
  assert.equal(deleted!.body.type, 'user.deleted')
  await theirs.createUser()
  const [created] = await others.until(1)
  assert.equal(created!.body.project_id, theirs.project.id)
  assert.equal(receiver.received.length, 1)
  assert.equal(others.received.length, 1)
})

test('Issue: after a rotation both secrets sign', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const webhook = await project.create(receiver.url, ['user.created'])
  const { secret } = (await project.hooks('POST', `/${webhook.id}/rotate-secret`)).body
  await project.createUser()
  const [delivered] = await receiver.until(1)
  assert.equal((await project.hooks('POST', `/${webhook.id}/test`)).body.success, true)
  for (const each of [delivered!, receiver.received.at(-1)!]) {
    const both = [secret, webhook.secret].map(key => signatureOf(key, each))
    assert.deepEqual(header('x-webhook-signature')(each).split(',').toSorted(), both.toSorted())
    assert.match(header('webhook-signature')(each), /^v1,\S{44} v1,\S{44}$/)
    for (const key of [secret, webhook.secret]) verify(key, each)
  }
})

test('2 §5 any 2xx status acknowledges, and the payload of the delivery is deleted', async t => {
  for (const status of [200, 201, 202, 204, 299]) {
    const receiver = await startReceiver(answering(status))
    t.after(receiver.close)
    const project = await webhooksProject(it)
    const { id } = await project.create(receiver.url, ['user.created'])
    await project.createUser()
    const [delivery] = await project.ended(id, 'delivered')
    const attempt = delivery.attempts[0]
    assert.partialDeepStrictEqual(delivery, {
      webhook_id: id,
      event: 'user.created',
      status: 'delivered',
      attempt_count: 1,
      manual_retry_count: 0,
      next_attempt_at: null,
      last_status_code: status,
      last_error: null,
    })
    assert.match(delivery.id, uuid)
    assert.ok(delivery.ended_at >= delivery.created_at)
    assert.equal(delivery.attempts.length, 1)
    assert.partialDeepStrictEqual(attempt, { status_code: status, error: null })
    assert.equal(attempt.id, receiver.received[0]!.headers['x-webhook-id'])
    assert.ok(Number.isInteger(attempt.latency_ms) && attempt.latency_ms >= 0)
    assert.ok(!('payload' in delivery))
    assert.equal((await project.delivery(id, delivery.id)).payload, null)
    assert.equal(receiver.received.length, 1)
  }
})

test('2 §5 any other status is retried: a new X-Webhook-ID, the same webhook-id and body', async t => {
  const statuses = [500, 404, 302, 200]
  const receiver = await startReceiver((response, number) =>
    response.writeHead(statuses[number - 1] ?? 200).end(`answer ${number}`),
  )
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const { id, secret } = await project.create(receiver.url, ['user.created'])
  await project.createUser()
  const [delivery] = await project.ended(id, 'delivered')
  const { received } = receiver
  assert.equal(received.length, 4)
  assert.equal(distinct(received.map(header('x-webhook-id'))), 4)
  assert.equal(distinct(received.map(header('webhook-id'))), 1)
  assert.equal(distinct(received.map(({ raw }) => raw)), 1)
  for (const each of received) assertSigned(each, secret)
  assert.equal(delivery.attempt_count, 4)
  assert.deepEqual(
    delivery.attempts.map((attempt: any) => [attempt.id, attempt.status_code, attempt.response_body]),
    received.map((each, place) => [each.headers['x-webhook-id'], statuses[place], `answer ${place + 1}`]),
  )
})

test('2 §3, §8 after five failed attempts a delivery is a dead letter with its payload', async t => {
  const receiver = await startReceiver(answering(503, 'not now'))
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const { id } = await project.create(receiver.url, ['user.created'])
  await project.createUser()
  const [dead] = await project.ended(id, 'dead_letter')
  assert.partialDeepStrictEqual(dead, {
    attempt_count: 5,
    manual_retry_count: 0,
    next_attempt_at: null,
    last_status_code: 503,
  })
  assert.equal(dead.attempts.length, 5)
  assert.equal(receiver.received.length, 5)
  assert.equal((await project.delivery(id, dead.id)).payload, receiver.received[0]!.raw)
  assert.ok((await project.read(id)).failing_since)
})

test('2 §3 a manual retry makes a dead letter pending, counts, and delivers the same event', async t => {
  let status = 500
  const receiver = await startReceiver(response => void response.writeHead(status).end())
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const { id } = await project.create(receiver.url, ['user.created'])
  await project.createUser()
  const [dead] = await project.ended(id, 'dead_letter')
  const path = `/${id}/deliveries/${dead.id}/retry`
  const again = await project.hooks('POST', path)
  assert.equal(again.status, 202, again.text)
  assert.partialDeepStrictEqual(again.body, { id: dead.id, status: 'pending', manual_retry_count: 1 })
  assert.equal((await auditOf(it, 'webhooks.delivery_retried', again)).project_id, project.project.id)
  await receiver.until(6)
  const failed = await until(
    'it is a dead letter again',
    async () => (await project.deliveries(id, '&status=dead_letter'))[0],
  )
  assert.equal(failed.manual_retry_count, 1)
  assert.equal(failed.attempt_count, receiver.received.length)
  status = 200
  const last = await project.hooks('POST', path)
  assert.partialDeepStrictEqual(last.body, { status: 'pending', manual_retry_count: 2 })
  const [delivered] = await project.ended(id, 'delivered')
  assert.partialDeepStrictEqual(delivered, { id: dead.id, manual_retry_count: 2 })
  const { received } = receiver
  assert.equal(delivered.attempt_count, received.length)
  assert.equal(distinct(received.map(header('x-webhook-id'))), received.length)
  assert.equal(distinct(received.map(header('webhook-id'))), 1)
  assert.equal(distinct(received.map(({ raw }) => raw)), 1)
  assertManagementError(await project.hooks('POST', path), 'delivery_not_dead')
})

test('2 §3 only dead letters of the webhook can be retried, with admin scope', async t => {
  const receiver = await startReceiver(answering(500))
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const { id } = await project.create(receiver.url, ['user.created'])
  const { id: otherId } = await project.create(receiver.url, ['user.deleted'])
  await project.createUser()
  const [dead] = await project.ended(id, 'dead_letter')
  for (const path of [`/${id}/deliveries/${someId}`, `/${otherId}/deliveries/${dead.id}`]) {
    assertManagementError(await project.hooks('POST', `${path}/retry`), 'delivery_not_found')
    assertManagementError(await project.hooks('GET', path), 'delivery_not_found')
  }
  const { token } = await mintToken(it, 'deploy')
  const path = `/api/v1/projects/${project.project.id}/webhooks/${id}/deliveries/${dead.id}/retry`
  assertNeedsScope(await it.call('POST', path, { token }), 'admin')
  assert.equal((await project.delivery(id, dead.id)).manual_retry_count, 0)
})

test('Issue: the first kilobyte of the answer is recorded, whatever it contains', async t => {
  const answers: [Buffer | string, (text: string) => boolean][] = [
    [
      'x'.repeat(5000),
      text => text === 'x'.repeat(text.length) && text.length >= 1000 && text.length <= 1024,
    ],
    ['ä'.repeat(5000), text => /^ä+�?$/.test(text) && Buffer.byteLength(text) <= 1027],
    [Buffer.from([0x61, 0, 0xff, 0xfe, 0x62]), text => text.startsWith('a') && text.endsWith('b')],
    ['', text => text === ''],
    ['<b>"quoted" \\ {}</b>', text => text === '<b>"quoted" \\ {}</b>'],
  ]
  for (const [body, isExpected] of answers) {
    const receiver = await startReceiver(response => void response.writeHead(200).end(body))
    t.after(receiver.close)
    const project = await webhooksProject(it)
    const { id } = await project.create(receiver.url, ['user.created'])
    await project.createUser()
    const [{ attempts }] = await project.ended(id, 'delivered')
    const text = attempts[0].response_body ?? ''
    assert.ok(isExpected(text), JSON.stringify(text.slice(0, 100)))
  }
})

test('2 §4.6 a receiver that cannot be reached is retried, and the attempts have no status', async () => {
  const receiver = await startReceiver()
  receiver.close()
  const { id } = await own.create(receiver.url, ['user.created'])
  await own.createUser()
  const [dead] = await own.ended(id, 'dead_letter')
  assert.equal(dead.attempt_count, 5)
  assert.equal(dead.last_status_code, null)
  for (const attempt of dead.attempts) {
    assert.deepEqual([attempt.status_code, attempt.response_body], [null, null])
    assert.match(attempt.error, /\w/)
  }
  await own.hooks('DELETE', `/${id}`)
})

test('2 §4.6 deliveries are filtered by status, event and time', async t => {
  const receiver = await startReceiver((response, _, { body }) =>
    response.writeHead(body.type === 'user.deleted' ? 500 : 200).end(),
  )
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const { id } = await project.create(receiver.url, ['user.created', 'user.deleted'])
  const user = await project.createUser()
  await project.admin('DELETE', `/admin/users/${user.id}`)
  const [dead] = await project.ended(id, 'dead_letter')
  const [delivered] = await project.deliveries(id, '&status=delivered')
  assert.deepEqual([dead.event, delivered.event], ['user.deleted', 'user.created'])
  const idsOf = async (query: string) => (await project.deliveries(id, query)).map((each: any) => each.id)
  assert.deepEqual(await idsOf(''), [dead.id, delivered.id], 'newest first')
  assert.deepEqual(await idsOf('&status=dead_letter'), [dead.id])
  assert.deepEqual(await idsOf('&status=pending'), [])
  assert.deepEqual(await idsOf('&event=user.created'), [delivered.id])
  assert.deepEqual(await idsOf('&event=user.created&status=dead_letter'), [])
  const [past, future] = [-1, 1].map(hours => new Date(Date.now() + hours * 3_600_000).toISOString())
  assert.deepEqual(await idsOf(`&from=${past}&to=${future}`), [dead.id, delivered.id])
  assert.deepEqual(await idsOf(`&from=${future}`), [])
  assert.deepEqual(await idsOf(`&to=${past}`), [])
  for (const query of [
    'status=failed',
    'status=',
    'from=yesterday',
    'to=5',
    'limit=x',
    'limit=-1',
    'before=x',
  ])
    assertManagementError(await project.hooks('GET', `/${id}/deliveries?${query}`), 'invalid_request')
})

test('2 §4.6 deliveries are listed newest first, in pages that neither skip nor repeat', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const { id } = await project.create(receiver.url, ['user.created'])
  await Promise.all(Array.from({ length: 7 }, () => project.createUser()))
  const all = await project.ended(id, 'delivered', 7)
  const times = all.map(({ created_at }) => created_at)
  assert.deepEqual(times, times.toSorted().reverse())
  const paged: any[] = []
  for (let before: string | null = ''; before !== null; ) {
    const query: string = before === '' ? '' : `&before=${before}`
    const { body } = await project.hooks('GET', `/${id}/deliveries?limit=3${query}`)
    assert.ok(body.deliveries.length <= 3)
    paged.push(...body.deliveries)
    // A delivery that comes in meanwhile is not on a later page.
    if (before === '') await project.createUser()
    before = body.next_before
  }
  assert.deepEqual(
    paged.map(each => each.id),
    all.map(each => each.id),
  )
  await project.ended(id, 'delivered', 8)
  assert.equal((await project.hooks('GET', `/${id}/deliveries?limit=5000`)).body.deliveries.length, 8)
})

test('2 §4.6 a purge removes only dead letters that are older than the given days', async t => {
  const receiver = await startReceiver((response, _, { body }) =>
    response.writeHead(body.type === 'user.deleted' ? 500 : 200).end(),
  )
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const { id } = await project.create(receiver.url, ['user.created', 'user.deleted'])
  const user = await project.createUser()
  await project.admin('DELETE', `/admin/users/${user.id}`)
  const [dead] = await project.ended(id, 'dead_letter')
  const purge = (query: string) => it.manage('POST', `/admin/webhooks/dlq/purge${query}`)
  const byDefault = await purge('')
  assert.deepEqual(byDefault.body, { deleted: 0, days: 30 })
  assert.deepEqual((await purge('?days=1')).body, { deleted: 0, days: 1 })
  for (const query of ['?days=-1', '?days=x', '?days=1.5', '?days='])
    assertManagementError(await purge(query), 'invalid_request')
  assert.equal((await project.deliveries(id)).length, 2)
  const all = await purge('?days=0')
  assert.equal(all.status, 200, all.text)
  assert.ok(all.body.deleted >= 1)
  assert.ok(await auditOf(it, 'webhooks.dead_letters_purged', all))
  const left = await project.deliveries(id)
  assert.deepEqual(
    left.map(({ status }) => status),
    ['delivered'],
  )
  assertManagementError(await project.hooks('GET', `/${id}/deliveries/${dead.id}`), 'delivery_not_found')
})

test('2 §2 a webhook that is not active gets nothing, and later only what happens from then on', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const { id } = await project.create(receiver.url, ['user.created'])
  const witness = await project.create(receiver.url.replace('/hook', '/witness'), ['user.created'])
  await project.update(id, { is_active: false })
  const missed = await project.createUser()
  await project.ended(witness.id, 'delivered')
  await project.update(id, { is_active: true })
  const seen = await project.createUser()
  const [delivery] = await project.ended(id, 'delivered')
  assert.equal(delivery.event, 'user.created')
  const users = receiver.received
    .filter(({ path }) => path.startsWith('/hook'))
    .map(({ body }) => body.data.user_id)
  assert.deepEqual(users, [seen.id])
  assert.notEqual(missed.id, seen.id)
})
