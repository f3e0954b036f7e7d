// Attempts, retries and dead letters, fairness, and webhooks that are switched off.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { quickRetries, startReceiver, type WebhookProject, webhookProject } from './webhook-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: { ...quickRetries, WEBHOOK_MAX_RETRIES: '3' } })
})
after(() => platform.stop())

const trigger = (project: WebhookProject, event = 'user.created') =>
  project.hooks.trigger({ params: { id: project.id }, body: { event } })
const list = async (project: WebhookProject, wid: string, query = {}) =>
  (await project.hooks.listDeliveries({ params: { id: project.id, wid }, query })).deliveries
const untilStatus = (project: WebhookProject, wid: string, status: string) =>
  eventually(async () => (await list(project, wid)).find(each => each.status === status), status)

test('webhooks: a failed delivery is retried under the same message id and becomes a dead letter', async t => {
  const receiver = await startReceiver(response => void response.writeHead(500).end('x'.repeat(3000)))
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const { id: wid } = await project.create(receiver.url)
  await trigger(project)
  const dead = await untilStatus(project, wid, 'dead_letter')
  assert.equal(receiver.received.length, 3)
  const of = (name: string) => new Set(receiver.received.map(({ headers }) => headers[name]))
  assert.equal(of('x-webhook-id').size, 3)
  assert.equal(of('webhook-id').size, 1)
  assert.deepEqual(
    dead.attempts.map(each => each.id),
    [...of('x-webhook-id')],
  )
  const { event, attempt_count, manual_retry_count, last_status_code, last_error } = dead
  assert.deepEqual(
    { event, attempt_count, manual_retry_count, last_status_code, last_error },
    {
      event: 'user.created',
      attempt_count: 3,
      manual_retry_count: 0,
      last_status_code: 500,
      last_error: 'The server answered with status 500.',
    },
  )
  assert.equal(dead.attempts[0]!.response_body, 'x'.repeat(1024))
  const params = { id: project.id, wid, delivery_id: dead.id }
  const { payload } = await project.hooks.readDelivery({ params })
  assert.equal(payload, receiver.received[0]!.raw)
})

test('webhooks: a dead letter that is retried goes through all attempts again', async t => {
  let status = 500
  const receiver = await startReceiver(response => void response.writeHead(status).end())
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const { id: wid } = await project.create(receiver.url)
  await trigger(project)
  const dead = await untilStatus(project, wid, 'dead_letter')
  const params = { id: project.id, wid, delivery_id: dead.id }
  const again = await project.hooks.retry({ params })
  assert.equal(again.manual_retry_count, 1)
  await eventually(
    async () => receiver.received.length === 6 && (await list(project, wid))[0]!.status === 'dead_letter',
    'three further attempts',
  )
  status = 204
  await project.hooks.retry({ params })
  const delivered = await untilStatus(project, wid, 'delivered')
  assert.deepEqual([delivered.id, delivered.attempt_count, delivered.manual_retry_count], [dead.id, 7, 2])
  await assert.rejects(project.hooks.retry({ params }), { code: 'delivery_not_dead' })
})

test('webhooks: pauses between attempts double', async t => {
  const receiver = await startReceiver(response => void response.writeHead(503).end())
  t.after(receiver.close)
  const slow = await startPlatform({ settings: { ...quickRetries, WEBHOOK_RETRY_BASE_DELAY: '60m' } })
  t.after(() => slow.stop())
  const project = await webhookProject(slow)
  const { id: wid } = await project.create(receiver.url)
  await trigger(project)
  for (const [tries, hours] of [
    [1, 1],
    [2, 2],
    [3, 4],
  ] as const) {
    const waiting = await eventually(
      async () => (await list(project, wid)).find(each => each.attempt_count === tries),
      `attempt ${tries}`,
    )
    const inHours = (Date.parse(waiting.next_attempt_at!) - Date.now()) / 3_600_000
    assert.ok(inHours > hours * 0.79 && inHours < hours * 1.21, `${inHours} hours after attempt ${tries}`)
    await slow.app.control.run(sql`update webhook_queue set due_at = now() where webhook_id = ${wid}`)
    // A change of the project wakes the worker.
    await project.hooks.update({ params: { id: project.id, wid }, body: { description: `${tries}` } })
  }
})

test('webhooks: endpoints that never answer do not delay others', async t => {
  const open: { end(): void }[] = []
  const dead = await startReceiver(response => void open.push(response))
  const receiver = await startReceiver()
  t.after(() => {
    dead.close()
    receiver.close()
  })
  const projects = await Promise.all([webhookProject(platform), webhookProject(platform)])
  const [bad, good] = projects as [WebhookProject, WebhookProject]
  for (let n = 0; n < 12; n++) await bad.create(`${dead.url}/${n}`)
  await good.create(receiver.url)
  for (let n = 0; n < 5; n++) await trigger(bad)
  // Four of ten places, because none of them has answered.
  await dead.until(4)
  for (let n = 1; n <= 20; n++) {
    await trigger(good)
    await receiver.until(n)
  }
  assert.equal(dead.received.length, 4)
})

test('webhooks: one project uses at most eight of ten places', async t => {
  let isOpen = false
  const waiting: { end(): void }[] = []
  const receiver = await startReceiver(response => void (isOpen ? response.end() : waiting.push(response)))
  const other = await startReceiver()
  t.after(() => {
    receiver.close()
    other.close()
  })
  const project = await webhookProject(platform)
  isOpen = true
  for (let n = 0; n < 4; n++) await project.create(`${receiver.url}/${n}`)
  // All four are proven.
  for (let n = 1; n <= 4; n++) {
    await trigger(project)
    await receiver.until(4 * n)
  }
  isOpen = false
  for (let n = 0; n < 20; n++) await trigger(project)
  await receiver.until(24)
  const neighbour = await webhookProject(platform)
  await neighbour.create(other.url)
  await trigger(neighbour)
  await other.until(1)
  assert.equal(receiver.received.length, 24)
  isOpen = true
  for (const response of waiting) response.end()
  await receiver.until(4 * 24)
})

test('webhooks: what waits for a webhook that is switched off is dropped', async t => {
  const receiver = await startReceiver(response => void response.writeHead(500).end())
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const { id: wid } = await project.create(receiver.url)
  const params = { id: project.id, wid }
  await platform.app.control.run(sql`update webhooks set is_active = false where id = ${wid}`)
  await trigger(project)
  assert.deepEqual(await list(project, wid), [])
  await project.hooks.update({ params, body: { is_active: true } })
  await platform.app.control.run(sql`
    insert into webhook_queue (id, webhook_id, event, payload, created_at, due_at)
    values (gen_random_uuid(), ${wid}, 'user.created', '{}', now(), now() + interval '1 hour')`)
  assert.equal((await list(project, wid)).length, 1)
  await project.hooks.update({ params, body: { is_active: false } })
  assert.deepEqual(await list(project, wid), [])
})

test('webhooks: an endpoint without a success for five days is switched off, and the owners get a mail', async t => {
  const receiver = await startReceiver(response => void response.writeHead(500).end())
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const owner = await platform.admin.createUser({
    body: { email: 'owner@example.test', password: 'a long password', role: 'developer' },
  })
  await platform.app.control.run(
    sql`insert into members (project_id, user_id, role) values (${project.id}, ${owner.id}, 'owner')`,
  )
  const { id: wid } = await project.create(receiver.url)
  const failingSince = (days: string) =>
    platform.app.control.run(
      sql`update webhooks set failing_since = now() - ${days}::interval where id = ${wid}`,
    )
  const read = () => project.hooks.read({ params: { id: project.id, wid } })
  await failingSince('4 days 23 hours')
  await trigger(project)
  await untilStatus(project, wid, 'dead_letter')
  assert.equal((await read()).is_active, true)
  await failingSince('5 days')
  await trigger(project)
  const webhook = await eventually(async () => {
    const found = await read()
    return found.is_active ? undefined : found
  }, 'the webhook to be switched off')
  assert.ok(webhook.switched_off_at)
  const { entries } = await platform.admin.listAudit({
    query: { action: 'webhooks.switched_off', project_id: project.id },
  })
  assert.deepEqual(
    entries.map(({ actor, target }) => [actor.kind, target]),
    [['system', wid]],
  )
  const mail = await eventually(async () => {
    const { body } = await platform.call('GET', `/api/v1/projects/${project.id}/email/outbox`, {
      token: platform.adminToken,
    })
    return body.messages.find(({ template }: { template: string }) => template === 'notice')
  }, 'the mail to the owner')
  assert.equal(mail.to, 'owner@example.test')
  const on = await project.hooks.update({ params: { id: project.id, wid }, body: { is_active: true } })
  assert.deepEqual([on.switched_off_at, on.failing_since], [null, null])
})

test('webhooks: a success ends the time of failing', async t => {
  let status = 500
  const receiver = await startReceiver(response => void response.writeHead(status).end())
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const { id: wid } = await project.create(receiver.url)
  const failing = async () => (await project.hooks.read({ params: { id: project.id, wid } })).failing_since
  assert.equal(await failing(), null)
  await trigger(project)
  await eventually(failing, 'the webhook to be failing')
  status = 200
  await trigger(project)
  await eventually(async () => (await failing()) === null, 'the webhook to work again')
})
