// Auth events as deliveries: bodies, headers and signatures.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { sql } from '#src/kernel/postgres/sql.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import { address } from './auth-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { quickRetries, type Received, startReceiver, webhookProject } from './webhook-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: quickRetries })
})
after(() => platform.stop())

const signature = (secret: string, { headers, raw }: Received) =>
  `v1=${createHmac('sha256', secret).update(`${headers['x-webhook-timestamp']}.${raw}`).digest('hex')}`
const verify = (secret: string, { headers, raw }: Received) =>
  new Webhook(secret).verify(raw, headers as Record<string, string>)

test('webhooks: auth events are delivered with the body and the headers of the specification', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const { id, secret } = await project.create(receiver.url, ['user.created', 'user.signed_in'])
  const email = address()
  await project.signUp(email)
  const [created] = await receiver.until(1)
  const { id: eventId, created_at: createdAt, data, ...rest } = created!.body
  assert.match(eventId, /^evt_[0-9a-f]{32}$/)
  assert.ok(Math.abs(Date.parse(createdAt) - Date.now()) < 600_000)
  assert.deepEqual(rest, { type: 'user.created', project_id: project.id })
  assert.equal(data.email, email)
  assert.ok(isUuid(data.user_id))
  const { headers } = created!
  assert.equal(headers['content-type'], 'application/json')
  assert.ok(isUuid(headers['x-webhook-id'] as string))
  assert.match(headers['x-webhook-timestamp'] as string, /^\d{10}$/)
  assert.equal(headers['x-webhook-signature'], signature(secret, created!))
  verify(secret, created!)
  assert.throws(() => verify(`whsec_${Buffer.alloc(32).toString('base64')}`, created!))
  // The record has no payload any more.
  const deliveries = await eventually(async () => {
    const listed = await project.hooks.listDeliveries({ params: { id: project.id, wid: id }, query: {} })
    return listed.deliveries.every(({ status }) => status === 'delivered') ? listed.deliveries : undefined
  }, 'all deliveries to be recorded')
  assert.ok(deliveries.some(({ event }) => event === 'user.created'))
  const delivery = deliveries.at(-1)!
  assert.equal(delivery.attempts[0]!.status_code, 200)
  assert.equal(delivery.attempts[0]!.response_body, 'ok')
  const read = await project.hooks.readDelivery({
    params: { id: project.id, wid: id, delivery_id: delivery.id },
  })
  assert.equal(read.payload, null)
})

test('webhooks: a webhook gets only the events that it selects, and none from before its creation', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const email = address()
  await project.signUp(email)
  await project.create(receiver.url, ['user.signed_in', 'user.deleted'])
  await project.openSession(email)
  await receiver.until(1)
  const { user } = await project.openSession(email)
  await receiver.until(2)
  await project.asAdmin('DELETE', `/admin/users/${user.id}`)
  await receiver.until(3)
  assert.deepEqual(
    receiver.received.map(({ body }) => body.type),
    ['user.signed_in', 'user.signed_in', 'user.deleted'],
  )
})

test('webhooks: after a rotation both secrets sign for a day, and then only the new one', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const { id, secret } = await project.create(receiver.url)
  const params = { id: project.id, wid: id }
  const rotated = await project.hooks.rotateSecret({ params })
  assert.notEqual(rotated.secret, secret)
  const overlap = Date.parse(rotated.secret_overlap_until!) - Date.now()
  assert.ok(overlap > 23 * 3_600_000 && overlap <= 24 * 3_600_000)
  const trigger = () => project.hooks.trigger({ params: { id: project.id }, body: { event: 'user.created' } })
  await trigger()
  const [first] = await receiver.until(1)
  assert.equal(
    first!.headers['x-webhook-signature'],
    `${signature(rotated.secret, first!)},${signature(secret, first!)}`,
  )
  for (const each of [secret, rotated.secret]) verify(each, first!)
  await platform.app.control.run(
    sql`update webhooks set previous_secret_until = now() - interval '1 second' where id = ${id}`,
  )
  await trigger()
  const second = (await receiver.until(2))[1]!
  assert.equal(second.headers['x-webhook-signature'], signature(rotated.secret, second))
  assert.throws(() => verify(secret, second))
  verify(rotated.secret, second)
})
