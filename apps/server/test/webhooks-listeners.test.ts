// Listeners of the command line, and copies of webhooks.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Streamed } from '@plinth/contract/webhooks.ts'
import { Webhook } from 'standardwebhooks'
import { sql } from '#src/kernel/postgres/sql.ts'
import { copyData } from './copied-data.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { quickRetries, startReceiver, type WebhookProject, webhookProject } from './webhook-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: quickRetries })
})
after(() => platform.stop())

const open = (project: WebhookProject, body: { events?: string[]; tables?: { table: string }[] } = {}) =>
  project.hooks.openListener({ params: { id: project.id }, body })
const read = async (
  project: WebhookProject,
  listener: string,
  query: { after?: string; wait_seconds?: number } = {},
) =>
  (await project.hooks.readListener({ params: { id: project.id, listener_id: listener }, query })).deliveries
const trigger = (project: WebhookProject, event: string) =>
  project.hooks.trigger({ params: { id: project.id }, body: { event, record: { id: 7 } } })
const events = (deliveries: readonly Streamed[]) => deliveries.map(({ event }) => event)

test('listeners: events are streamed with valid signatures, until they are acknowledged', async () => {
  const project = await webhookProject(platform)
  const listener = await open(project)
  const waiting = read(project, listener.id)
  await project.signUp('ada@example.test')
  const first = await waiting
  assert.equal(first[0]!.event, 'user.created')
  new Webhook(listener.secret).verify(first[0]!.body, first[0]!.headers)
  await trigger(project, 'db.public.todos.update')
  const last = await eventually(async () => {
    const found = await read(project, listener.id, { after: first.at(-1)!.id })
    return found.find(({ event }) => event === 'db.public.todos.update')
  }, 'the triggered event')
  const { record, old_record, type } = JSON.parse(last.body)
  assert.deepEqual({ record, old_record, type }, { record: { id: 7 }, old_record: { id: 7 }, type: 'UPDATE' })
  assert.deepEqual(await read(project, listener.id, { after: last.id, wait_seconds: 0 }), [])
  const [queued] = await platform.app.control.rows<{ n: number }>(
    sql`select count(*)::int as n from webhook_queue where webhook_id = ${listener.id}`,
  )
  assert.equal(queued!.n, 0)
})

test('listeners: what was read and not acknowledged is read again', async () => {
  const project = await webhookProject(platform)
  const { id } = await open(project)
  await trigger(project, 'user.created')
  const [first] = await read(project, id)
  assert.deepEqual(await read(project, id, { wait_seconds: 0 }), [])
  await platform.app.control.run(sql`update webhook_queue set leased_until = now() where webhook_id = ${id}`)
  assert.equal((await read(project, id))[0]!.id, first!.id)
})

test('listeners: a listener selects events and captures tables, which end with it', async () => {
  const project = await webhookProject(platform)
  await project.sql('create table todos (id int primary key)')
  const listener = await open(project, { events: ['db.public.todos.insert'], tables: [{ table: 'todos' }] })
  await project.signUp('ada@example.test')
  await project.rows('insert into public.todos values (1)')
  assert.deepEqual(events(await read(project, listener.id)), ['db.public.todos.insert'])
  const params = { id: project.id, listener_id: listener.id }
  await project.hooks.closeListener({ params })
  await assert.rejects(read(project, listener.id), { code: 'webhook_not_found' })
  const [left] = await project.rows(
    `select count(*)::int as n from pg_trigger where tgname like 'plinth_webhook%'`,
  )
  assert.equal(left.n, 0)
  await assert.rejects(open(project, { tables: [{ table: 'nosuch' }] }), { code: 'table_not_attachable' })
  const [kept] = await platform.app.control.rows<{ n: number }>(
    sql`select count(*)::int as n from webhooks where project_id = ${project.id}`,
  )
  assert.equal(kept!.n, 0)
})

test('listeners: they are not webhooks, and a project has at most 20', async () => {
  const project = await webhookProject(platform)
  for (let n = 0; n < 20; n++) await open(project)
  await assert.rejects(open(project), { code: 'too_many_webhooks' })
  const params = { id: project.id }
  assert.equal((await project.hooks.list({ params, query: {} })).total, 0)
  const [one] = await platform.app.control.rows<{ id: string }>(
    sql`select id from webhooks where project_id = ${project.id} limit 1`,
  )
  await assert.rejects(project.hooks.read({ params: { ...params, wid: one!.id } }), {
    code: 'webhook_not_found',
  })
  const other = await webhookProject(platform)
  await assert.rejects(read(other, one!.id), { code: 'webhook_not_found' })
})

test('webhooks: a copy has its own ids and the same secrets, is switched off and keeps its tables', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const copy = await webhookProject(platform)
  const { id: wid, secret } = await project.create(receiver.url, ['db.public.todos.*'])
  await platform.app.control.transaction(async session => {
    await copyData(platform, session, project.id, copy.id)
  })
  const { webhooks } = await copy.hooks.list({ params: { id: copy.id }, query: {} })
  assert.equal(webhooks.length, 1)
  assert.notEqual(webhooks[0]!.id, wid)
  assert.deepEqual([webhooks[0]!.is_active, webhooks[0]!.url], [false, receiver.url])
  // The triggers of a copied database have the ids of the original.
  await copy.sql('create table todos (id int primary key)')
  await copy.rows(`select platform.attach_webhook('public', 'todos', '${wid}', '{INSERT}')`)
  const params = { id: copy.id, wid: webhooks[0]!.id }
  const { attachments } = await copy.hooks.listAttachments({ params, query: {} })
  assert.deepEqual(attachments, [{ schema: 'public', table: 'todos', events: ['INSERT'] }])
  await copy.hooks.update({ params, body: { is_active: true } })
  await copy.rows('insert into public.todos values (1)')
  const [received] = await receiver.until(1)
  assert.equal(received!.body.project_id, copy.id)
  new Webhook(secret).verify(received!.raw, received!.headers as Record<string, string>)
})
