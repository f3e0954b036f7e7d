// 2 §4.6 rules 1 and 2, §6 and the issue: row changes of attached tables as deliveries.
import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import { authOf } from '../auth.ts'
import { type RowsApi, rowsProject } from '../rows.ts'
import { freshTarget, type Target } from '../target.ts'
import { until } from '../until.ts'
import {
  assertSigned,
  localReceivers,
  type Received,
  type Receiver,
  startReceiver,
  type WebhooksApi,
  webhooksOf,
} from '../webhooks.ts'

let it: Target
before(async () => {
  it = await freshTarget(localReceivers)
})
after(() => it.stop())

const todos = 'create table public.todos (id int primary key, title text, done boolean default false)'
const insert = (...ids: number[]) =>
  `insert into public.todos values ${ids.map(id => `(${id}, 't${id}')`).join()}`
const todo = (id: number, fields: object = {}) => ({ id, title: `t${id}`, done: false, ...fields })

interface Attached extends WebhooksApi {
  rows: RowsApi
  receiver: Receiver
  /** The webhook, with its secret. */
  webhook: any
}

/** A project with tables and a webhook that gets all events, but has no attachment yet. */
async function prepare(t: TestContext, schema = todos, events = ['*']): Promise<Attached> {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const rows = await rowsProject(it, schema)
  const project = webhooksOf(it, authOf(it, rows.project))
  return { ...project, rows, receiver, webhook: await project.create(receiver.url, events) }
}

/** The same with an attachment of the table todos. */
async function attached(t: TestContext, operations?: string[], events?: string[]): Promise<Attached> {
  const project = await prepare(t, todos, events)
  await project.attach(project.webhook.id, 'todos', operations && { events: operations })
  return project
}

/** The events and the ids of the rows of all deliveries, sorted. */
const changesOf = (received: Received[]) =>
  received.map(({ body }) => `${body.event} ${(body.record ?? body.old_record)?.id}`).toSorted()

/** Waits for exactly these changes, as `changesOf` writes them. */
async function assertChanges({ receiver, webhook, ...project }: Attached, expected: string[]): Promise<void> {
  await receiver.until(expected.length)
  await project.ended(webhook.id, 'delivered', expected.length)
  assert.deepEqual(changesOf(receiver.received), expected.toSorted())
}

const bodyFields = ['event', 'old_record', 'project_id', 'record', 'schema', 'table', 'timestamp', 'type']

test('2 §6 the bodies of insert, update and delete', async t => {
  const project = await attached(t)
  await project.sql(insert(1))
  await project.sql(`update public.todos set title = 'changed', done = true where id = 1`)
  await project.sql('delete from public.todos')
  const received = await project.receiver.until(3)
  const changed = todo(1, { title: 'changed', done: true })
  const expected: Record<string, { record: unknown; old_record: unknown }> = {
    INSERT: { record: todo(1), old_record: null },
    UPDATE: { record: changed, old_record: todo(1) },
    DELETE: { record: null, old_record: changed },
  }
  assert.deepEqual(received.map(({ body }) => body.type).toSorted(), Object.keys(expected).toSorted())
  for (const delivered of received) {
    const { type, timestamp, ...body } = delivered.body
    assert.deepEqual(Object.keys(delivered.body).toSorted(), bodyFields)
    assert.deepEqual(body, {
      ...expected[type],
      schema: 'public',
      table: 'todos',
      event: `db.public.todos.${type.toLowerCase()}`,
      project_id: project.project.id,
    })
    assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/)
    assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 600_000)
    assertSigned(delivered, project.webhook.secret)
  }
  const deliveries = await project.ended(project.webhook.id, 'delivered', 3)
  assert.deepEqual(
    deliveries.map(({ event }) => event).toSorted(),
    ['delete', 'insert', 'update'].map(operation => `db.public.todos.${operation}`),
  )
})

test('2 §6 a record has every column with its exact value, also without a primary key', async t => {
  const project = await prepare(
    t,
    `create table public.odd (id bigint, "Mixed Case" text, amount numeric, tags text[], data jsonb, nothing int,
       at timestamptz, twice bigint generated always as (id * 2) stored)`,
  )
  await project.attach(project.webhook.id, 'odd')
  await project.sql(`insert into public.odd values
    (9007199254740993, E'Grüße "😀"\\n\\\\', 1.10, '{a,"b c"}', '{"deep":{"list":[1,null]}}', null,
     '2026-01-02 03:04:05.678+00')`)
  const [{ raw, body }] = (await project.receiver.until(1)) as [Received]
  const { id: _, twice: __, at, ...record } = body.record
  assert.match(raw, /"id":\s?9007199254740993\b/)
  assert.match(raw, /"twice":\s?18014398509481986\b/)
  assert.match(raw, /"amount":\s?1\.10\b/)
  assert.equal(Date.parse(at), Date.parse('2026-01-02T03:04:05.678Z'))
  assert.deepEqual(record, {
    'Mixed Case': 'Grüße "😀"\n\\',
    amount: 1.1,
    tags: ['a', 'b c'],
    data: { deep: { list: [1, null] } },
    nothing: null,
  })
  await project.sql('delete from public.odd')
  await project.receiver.until(2)
  assert.deepEqual(project.receiver.received[1]!.body.old_record, body.record)
})

test('2 §4.6 rule 1: row changes are delivered from the attachment until the detachment', async t => {
  const project = await prepare(t)
  const { id } = project.webhook
  await project.sql(insert(1))
  await project.attach(id, 'todos')
  await project.sql(insert(2))
  await project.detach(id, 'todos')
  await project.sql(insert(3))
  await project.sql('delete from public.todos where id = 1')
  await project.attach(id, 'todos')
  await project.sql(insert(4))
  await assertChanges(project, ['db.public.todos.insert 2', 'db.public.todos.insert 4'])
})

test('Issue: only the webhook that has attached the table gets its changes', async t => {
  const project = await attached(t)
  const others = await startReceiver()
  t.after(others.close)
  const without = await project.create(others.url, ['*'])
  await project.rows.ddl('create table public.other (id int)')
  const ofOther = await project.create(others.url, ['*'])
  await project.attach(ofOther.id, 'other')
  await project.sql('insert into public.other values (1)')
  await project.sql(insert(2))
  await project.sql('insert into public.other values (3)')
  await assertChanges(project, ['db.public.todos.insert 2'])
  await project.ended(ofOther.id, 'delivered', 2)
  assert.deepEqual(changesOf(others.received), ['db.public.other.insert 1', 'db.public.other.insert 3'])
  assert.deepEqual(await project.deliveries(without.id), [])
})

test('Issue: two webhooks that have attached the same table both get its changes', async t => {
  const project = await attached(t, ['insert'])
  const second = await startReceiver()
  t.after(second.close)
  const { id, secret } = await project.create(second.url, ['db.public.todos.*'])
  await project.attach(id, 'todos', { events: ['delete', 'insert'] })
  await project.sql(insert(1))
  await project.sql('delete from public.todos')
  await project.ended(id, 'delivered', 2)
  assert.deepEqual(changesOf(second.received), ['db.public.todos.delete 1', 'db.public.todos.insert 1'])
  for (const delivered of second.received) assertSigned(delivered, secret)
  await project.detach(id, 'todos')
  await project.sql(insert(2))
  await assertChanges(project, ['db.public.todos.insert 1', 'db.public.todos.insert 2'])
  assert.equal(second.received.length, 2)
})

const write = [insert(1), 'update public.todos set done = true', 'delete from public.todos', insert(9)].join(
  ';',
)
const selections: [string, string[] | undefined, string[], string[]][] = [
  ['all operations, *', undefined, ['*'], ['insert 1', 'update 1', 'delete 1', 'insert 9']],
  ['insert, *', ['insert'], ['*'], ['insert 1', 'insert 9']],
  ['insert and delete, *', ['delete', 'insert'], ['*'], ['insert 1', 'delete 1', 'insert 9']],
  ['all, the table’s *', undefined, ['db.public.todos.*'], ['insert 1', 'update 1', 'delete 1', 'insert 9']],
  ['all, insert', undefined, ['db.public.todos.insert'], ['insert 1', 'insert 9']],
  [
    'all, update and insert',
    undefined,
    ['db.public.todos.update', 'user.created', 'db.public.todos.insert'],
    ['insert 1', 'update 1', 'insert 9'],
  ],
  [
    'insert and update, the events update and delete',
    ['insert', 'update'],
    ['db.public.todos.update', 'db.public.todos.delete'],
    ['update 1'],
  ],
]

for (const [what, operations, events, expected] of selections)
  test(`Issue: attachment and events must both match: ${what}`, async t => {
    const project = await attached(t, operations, events)
    await project.sql(write)
    await assertChanges(
      project,
      expected.map(each => `db.public.todos.${each}`),
    )
  })

test('2 §6 events of other tables, other schemas and of users do not match', async t => {
  const project = await attached(t, undefined, [
    'user.created',
    'db.public.todo.*',
    'db.public.todos2.*',
    'db.private.todos.*',
    'db.public.Todos.insert',
  ])
  const witness = await project.create(project.receiver.url, ['*'])
  await project.attach(witness.id, 'todos')
  await project.sql(write)
  await project.ended(witness.id, 'delivered', 4)
  assert.deepEqual(await project.deliveries(project.webhook.id), [])
})

test('2 §6 a statement over many rows makes one delivery for each row', async t => {
  const project = await attached(t)
  await project.sql(`insert into public.todos select n, 't' || n from generate_series(1, 30) n`)
  await project.sql(`update public.todos set title = 'u' || id`)
  await project.sql('delete from public.todos where id > 10')
  await project.sql('update public.todos set done = true where id > 1000')
  const received = await project.receiver.until(30 + 30 + 20)
  await project.ended(project.webhook.id, 'delivered', 80)
  assert.equal(received.length, 80)
  assert.equal(new Set(changesOf(received)).size, 80)
  for (const { body } of received) {
    const { id } = body.record ?? body.old_record
    const before = body.type === 'UPDATE' ? todo(id) : todo(id, { title: `u${id}` })
    if (body.type !== 'INSERT') assert.deepEqual(body.old_record, before)
    if (body.type === 'UPDATE') assert.deepEqual(body.record, todo(id, { title: `u${id}` }))
  }
  assert.equal(new Set(received.map(({ headers }) => headers['x-webhook-id'])).size, 80)
  assert.equal(new Set(received.map(({ headers }) => headers['webhook-id'])).size, 80)
})

test('Case 29: every row of a large statement is delivered', async t => {
  const project = await attached(t, ['insert'])
  await project.sql(`insert into public.todos select n, 't' || n from generate_series(1, 1000) n`)
  const ids = () => new Set(project.receiver.received.map(({ body }) => body.record.id))
  await until('every row arrives', async () => ids().size === 1000, { seconds: 120 })
})

test('Issue: an upsert is an insert or an update, and TRUNCATE makes no event', async t => {
  const project = await attached(t)
  await project.sql(insert(1))
  await project.sql(`${insert(1, 2)} on conflict (id) do update set title = 'again'`)
  await project.sql(`${insert(1)} on conflict do nothing`)
  await project.sql('truncate public.todos')
  await project.sql(insert(3))
  await assertChanges(
    project,
    ['insert 1', 'update 1', 'insert 2', 'insert 3'].map(each => `db.public.todos.${each}`),
  )
})

test('Issue: a change that is rolled back is never delivered', async t => {
  const project = await attached(t)
  const run = (sql: string) => project.rows.post('rpc/exec_sql', { sql }, { as: 'service_role' })
  const failed = await run(`${insert(1)}; update public.todos set done = true; select 1 / 0`)
  assert.equal(failed.status, 400, failed.text)
  const violated = await project.rows.post('todos', [todo(2), todo(2)], { as: 'service_role' })
  assert.equal(violated.status, 409, violated.text)
  await project.sql(`do $$ begin
    ${insert(3)};
    begin
      ${insert(4)};
      raise exception 'undone';
    exception when others then null;
    end;
    ${insert(5)};
  end $$`)
  const dry = await project.rows.post('todos', todo(6), { as: 'service_role', prefer: 'tx=rollback' })
  assert.ok(dry.status < 300, dry.text)
  const kept = (await project.rows.read('todos?select=id&order=id', { as: 'service_role' })).map(
    ({ id }: { id: number }) => `db.public.todos.insert ${id}`,
  )
  assert.ok(kept.length >= 2 && !kept.some((each: string) => /[124]$/.test(each)), kept.join())
  await project.sql(insert(7))
  await assertChanges(project, [...kept, 'db.public.todos.insert 7'])
})

test('Issue: changes of every caller are delivered, also of one who may not read the row', async t => {
  const project = await prepare(t, '')
  await project.rows.ddl(`${todos}; alter table public.todos enable row level security;
    create policy writes on public.todos for insert with check (true);
    create function public.add_todo(id int) returns void language sql security definer
      as $$ insert into public.todos values (id, 'by function') $$`)
  await project.attach(project.webhook.id, 'todos')
  const posts = [
    await project.rows.post('todos', todo(1)),
    await project.rows.post('todos', [todo(2), todo(3)], {
      as: { sub: '11111111-1111-4111-8111-111111111111' },
    }),
    await project.rows.post('rpc/add_todo', { id: 4 }),
    await project.rows.patch('todos?id=eq.4', { done: true }, { as: 'service_role' }),
    await project.rows.delete('todos?id=eq.2', { as: 'service_role' }),
  ]
  for (const { status, text } of posts) assert.ok(status < 300, text)
  assert.deepEqual(await project.rows.read('todos'), [])
  await assertChanges(
    project,
    ['insert 1', 'insert 2', 'insert 3', 'insert 4', 'update 4', 'delete 2'].map(
      each => `db.public.todos.${each}`,
    ),
  )
})

test('2 §4.6 rule 2: changes go to the webhooks of the project they happen in', async t => {
  const [one, two] = [await attached(t), await attached(t)]
  await one.sql(insert(1))
  await two.sql(insert(2))
  await assertChanges(one, ['db.public.todos.insert 1'])
  await assertChanges(two, ['db.public.todos.insert 2'])
  assert.equal(one.receiver.received[0]!.body.project_id, one.project.id)
  assert.equal(two.receiver.received[0]!.body.project_id, two.project.id)
})
