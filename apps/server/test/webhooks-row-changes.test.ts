// Row changes as deliveries, from the statement to the receiver.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { quickRetries, startReceiver, type TestReceiver, webhookProject } from './webhook-project.ts'

let platform: TestPlatform
let receiver: TestReceiver
before(async () => {
  platform = await startPlatform({ settings: quickRetries })
})
after(() => platform.stop())

async function attachedProject(t: { after(run: () => void): void }, events?: string[]) {
  receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhookProject(platform)
  await project.sql('create table todos (id int primary key, title text)')
  const webhook = await project.create(receiver.url, events)
  return { project, webhook, receiver }
}

test('webhooks: a committed row change is delivered with its body, and leaves nothing in the outbox', async t => {
  const { project, webhook } = await attachedProject(t)
  await project.attach(webhook.id, 'todos')
  await platform.call('POST', `/v1/rest/${project.id}/todos`, {
    token: project.service_role_key,
    body: { id: 1, title: 'write “tests”' },
  })
  await receiver.until(1)
  await project.rows("update public.todos set title = 'done' where id = 1")
  await receiver.until(2)
  await project.rows('delete from public.todos')
  await receiver.until(3)
  const [inserted, updated, deleted] = receiver.received.map(({ body }) => body)
  const { timestamp, ...rest } = inserted
  assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 600_000)
  assert.deepEqual(rest, {
    type: 'INSERT',
    table: 'todos',
    schema: 'public',
    record: { id: 1, title: 'write “tests”' },
    old_record: null,
    event: 'db.public.todos.insert',
    project_id: project.id,
  })
  assert.deepEqual(
    [updated.type, updated.record, updated.old_record, updated.event],
    ['UPDATE', { id: 1, title: 'done' }, { id: 1, title: 'write “tests”' }, 'db.public.todos.update'],
  )
  assert.deepEqual(
    [deleted.type, deleted.record, deleted.old_record, deleted.event],
    ['DELETE', null, { id: 1, title: 'done' }, 'db.public.todos.delete'],
  )
  const left = () => project.rows<{ n: number }>('select count(*)::int as n from platform.webhook_changes')
  await eventually(async () => (await left())[0]!.n === 0, 'an empty outbox')
})

test('webhooks: one statement over many rows is delivered row by row, and a rolled back one never', async t => {
  const { project, webhook } = await attachedProject(t)
  await project.attach(webhook.id, 'todos', ['insert'])
  await project
    .rows(`do $$ begin
    insert into public.todos select n, 'never' from generate_series(1, 100) n;
    raise exception 'undone';
  end $$`)
    .catch(() => {})
  await project.rows(`insert into public.todos select n, 'row ' || n from generate_series(1, 1000) n`)
  await receiver.until(1000)
  const ids = new Set(receiver.received.map(({ body }) => body.record.id))
  assert.equal(ids.size, 1000)
  assert.ok(receiver.received.every(({ body }) => body.record.title.startsWith('row ')))
})

test('webhooks: a change goes to webhooks that attached the table and operation and select the event', async t => {
  const { project } = await attachedProject(t)
  const start = async (events: string[], attached?: string[]) => {
    const own = await startReceiver()
    t.after(own.close)
    const { id } = await project.create(own.url, events)
    if (attached) await project.attach(id, 'todos', attached)
    return own
  }
  const all = await start(['*'], ['insert', 'update', 'delete'])
  const inserts = await start(['*'], ['insert'])
  const updates = await start(['db.public.todos.update'], ['insert', 'update', 'delete'])
  const ofTable = await start(['db.public.todos.*'], ['insert', 'update', 'delete'])
  const ofOther = await start(['db.public.others.*'], ['insert', 'update', 'delete'])
  const unattached = await start(['*'])
  await project.rows(`insert into public.todos values (1, 'a')`)
  await project.rows(`update public.todos set title = 'b'`)
  await project.rows('delete from public.todos')
  const types = ({ received }: TestReceiver) => received.map(({ body }) => body.type).sort()
  await all.until(3)
  await ofTable.until(3)
  await inserts.until(1)
  await updates.until(1)
  assert.deepEqual(types(all), ['DELETE', 'INSERT', 'UPDATE'])
  assert.deepEqual(types(inserts), ['INSERT'])
  assert.deepEqual(types(updates), ['UPDATE'])
  assert.deepEqual(types(ofTable), ['DELETE', 'INSERT', 'UPDATE'])
  assert.deepEqual([types(ofOther), types(unattached)], [[], []])
})

test('webhooks: a renamed table stays attached, a dropped or detached one does not', async t => {
  const { project, webhook } = await attachedProject(t)
  const params = { id: project.id, wid: webhook.id }
  const attached = async () =>
    (await project.hooks.listAttachments({ params, query: {} })).attachments.map(({ table }) => table)
  await project.attach(webhook.id, 'todos')
  await project.sql('alter table todos rename to tasks')
  assert.deepEqual(await attached(), ['tasks'])
  await project.rows(`insert into public.tasks values (1, 'a')`)
  const [first] = await receiver.until(1)
  assert.equal(first!.body.event, 'db.public.tasks.insert')
  await project.hooks.detach({ params: { ...params, table: 'tasks' }, query: {} })
  await project.hooks.detach({ params: { ...params, table: 'tasks' }, query: {} })
  assert.deepEqual(await attached(), [])
  await project.attach(webhook.id, 'tasks')
  await project.sql('drop table tasks')
  assert.deepEqual(await attached(), [])
  assert.equal(receiver.received.length, 1)
})

test('webhooks: deleting the last webhook removes its triggers and what they captured', async t => {
  const { project, webhook } = await attachedProject(t)
  await project.attach(webhook.id, 'todos')
  await project.hooks.remove({ params: { id: project.id, wid: webhook.id } })
  await project.rows(`insert into public.todos values (1, 'a')`)
  const [left] = await project.rows(`
    select (select count(*)::int from platform.webhook_changes) as changes,
           (select count(*)::int from pg_trigger where tgname like 'plinth_webhook%') as triggers`)
  assert.deepEqual(left, { changes: 0, triggers: 0 })
})

test('webhooks: changes of a suspended project wait until it is resumed', async t => {
  const { project, webhook } = await attachedProject(t)
  await project.attach(webhook.id, 'todos')
  const params = { id: project.id }
  await platform.projects.suspend({ params })
  await project.rows(`insert into public.todos values (1, 'a')`)
  await platform.projects.resume({ params })
  await receiver.until(1)
})

test('webhooks: changes that became deliveries and could not be deleted are not delivered again', async t => {
  const { project, webhook } = await attachedProject(t)
  await project.attach(webhook.id, 'todos')
  await project.rows('revoke delete on platform.webhook_changes from service_role')
  await project.rows(`insert into public.todos values (1, 'a')`)
  await receiver.until(1)
  await eventually(
    () => platform.logged.some(line => line.includes(project.id) && line.includes('could not relay')),
    'the failure',
  )
  await project.rows('grant delete on platform.webhook_changes to service_role')
  await eventually(
    async () => (await project.rows('select count(*)::int as n from platform.webhook_changes'))[0]!.n === 0,
    'the deletion of the change',
  )
  const [queued] = await platform.app.control.rows<{ n: number }>(
    sql`select count(*)::int as n from webhook_deliveries where webhook_id = ${webhook.id}`,
  )
  assert.equal(queued!.n, 1)
})
