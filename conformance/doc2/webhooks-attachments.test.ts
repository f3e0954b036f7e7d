// 2 §2 "Attachment", §4.6 rule 1 and the issue: attaching and detaching tables, which may be renamed and dropped.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { authOf } from '../auth.ts'
import { mintToken } from '../people.ts'
import { type RowsApi, rowsProject } from '../rows.ts'
import { freshTarget, type Target } from '../target.ts'
import { until } from '../until.ts'
import { localReceivers, type Receiver, startReceiver, type WebhooksApi, webhooksOf } from '../webhooks.ts'
import { assertManagementError, assertNeedsScope } from '../wire.ts'

let it: Target
let rows: RowsApi
let own: WebhooksApi
let receiver: Receiver
before(async () => {
  it = await freshTarget(localReceivers)
  rows = await rowsProject(
    it,
    `create table public.todos (id int primary key, title text);
     create schema shop; create table shop.todos (id int); create table shop.orders (id int);
     create table public."Odd Name.%/""?" (id int);
     create view public.seen as select * from public.todos;
     create materialized view public.stored as select * from public.todos;
     create sequence public.counter`,
  )
  own = webhooksOf(it, authOf(it, rows.project))
  receiver = await startReceiver()
})
after(async () => {
  receiver.close()
  await it.stop()
})

const operations = ['INSERT', 'UPDATE', 'DELETE']
const sorted = (attachment: any) => ({ ...attachment, events: attachment.events.toSorted() })
const byTable = (list: any[]) => list.map(sorted).toSorted((a, b) => (a.table < b.table ? -1 : 1))
const expected = (table: string, events = operations, schema = 'public') => sorted({ schema, table, events })
const create = async (): Promise<string> => (await own.create(receiver.url)).id
/** The names of events that a webhook has got, oldest first. */
const eventsOf = async (wid: string, count: number) =>
  (await own.ended(wid, 'delivered', count)).map(({ event }) => event).toReversed()

test('2 §4.6 attaching returns the schema, the table and the uppercase events', async () => {
  const wid = await create()
  assert.deepEqual(sorted(await own.attach(wid, 'todos')), expected('todos'))
  assert.deepEqual(
    sorted(await own.attach(wid, 'orders', { schema: 'shop', events: ['delete', 'insert'] })),
    expected('orders', ['INSERT', 'DELETE'], 'shop'),
  )
  const list = await own.hooks('GET', `/${wid}/attachments`)
  assert.deepEqual(byTable(list.body.attachments), [
    expected('orders', ['INSERT', 'DELETE'], 'shop'),
    expected('todos'),
  ])
  assert.equal(list.body.total, 2)
  assert.deepEqual(await own.attachments(await create()), [])
})

test('2 §4.6 rule 1: attaching again replaces the attachment', async () => {
  const wid = await create()
  for (const events of [['insert'], ['insert', 'insert'], ['update', 'delete'], ['delete']])
    await own.attach(wid, 'todos', { events })
  assert.deepEqual(await own.attachments(wid), [expected('todos', ['DELETE'])])
  await own.attach(wid, 'todos')
  await own.attach(wid, 'todos')
  assert.deepEqual((await own.attachments(wid)).map(sorted), [expected('todos')])
  await own.sql(`insert into public.todos values (100, 'once')`)
  assert.deepEqual(await eventsOf(wid, 1), ['db.public.todos.insert'])
  await own.attach(wid, 'todos', { events: ['delete'] })
  await own.sql(`update public.todos set title = 'x' where id = 100`)
  await own.sql('delete from public.todos where id = 100')
  assert.deepEqual(await eventsOf(wid, 2), ['db.public.todos.insert', 'db.public.todos.delete'])
  await own.detach(wid, 'todos')
})

test('2 §4.6 concurrent attachments of a table leave one', async () => {
  const wid = await create()
  await Promise.all(Array.from({ length: 8 }, () => own.attach(wid, 'todos', { events: ['insert'] })))
  assert.deepEqual(await own.attachments(wid), [expected('todos', ['INSERT'])])
  await own.sql(`insert into public.todos values (200, 'once')`)
  assert.deepEqual(await eventsOf(wid, 1), ['db.public.todos.insert'])
  await own.detach(wid, 'todos')
})

test('2 §4.6 detaching is safe to repeat, and takes the schema from the query', async () => {
  const wid = await create()
  await own.attach(wid, 'todos')
  await own.attach(wid, 'todos', { schema: 'shop' })
  await own.detach(wid, 'todos', '?schema=shop')
  await own.detach(wid, 'todos', '?schema=shop')
  assert.deepEqual((await own.attachments(wid)).map(sorted), [expected('todos')])
  await own.attach(wid, 'todos', { schema: 'shop' })
  await own.detach(wid, 'todos')
  await own.detach(wid, 'todos', '?schema=public')
  assert.deepEqual((await own.attachments(wid)).map(sorted), [expected('todos', operations, 'shop')])
  for (const query of ['', '?schema=nowhere']) await own.detach(wid, 'no_such_table', query)
})

test('2 §6 the tables of two schemas are different tables', async () => {
  const wid = await create()
  await own.attach(wid, 'todos', { schema: 'shop' })
  await own.sql(`insert into public.todos values (300, 'other schema'); insert into shop.todos values (301)`)
  assert.deepEqual(await eventsOf(wid, 1), ['db.shop.todos.insert'])
  const [{ body }] = receiver.received.filter(each => each.body.event === 'db.shop.todos.insert') as any
  assert.partialDeepStrictEqual(body, { schema: 'shop', table: 'todos', record: { id: 301 } })
  await own.detach(wid, 'todos', '?schema=shop')
})

test('2 §4.6 rule 1: the name of a table is any name', async () => {
  const wid = await create()
  const table = 'Odd Name.%/"?'
  assert.deepEqual(sorted(await own.attach(wid, table)), expected(table))
  await own.sql(`insert into public."Odd Name.%/""?" values (1)`)
  assert.deepEqual(await eventsOf(wid, 1), [`db.public.${table}.insert`])
  await own.detach(wid, table)
  assert.deepEqual(await own.attachments(wid), [])
})

test('2 §4.6 rule 1: an unknown table is 400', async () => {
  const wid = await create()
  const unknown: [string, string?][] = [
    ['no_such_table'],
    ['Todos'],
    ['TODOS'],
    ['"todos"'],
    ['public.todos'],
    ['todos '],
    ['todos; drop table public.todos'],
    ['orders'],
    ['todos', 'nowhere'],
    ['todos', 'Shop'],
    ['seen'],
    ['stored'],
    ['counter'],
    ['todos_pkey'],
    ['pg_class', 'pg_catalog'],
    ['tables', 'information_schema'],
  ]
  for (const [table, schema] of unknown) {
    const reply = await own.hooks('POST', `/${wid}/attach`, { table, schema })
    assert.equal(reply.status, 400, `${schema}.${table}: ${reply.status} ${reply.text}`)
    assertManagementError(reply, 'table_not_attachable')
  }
  for (const body of [
    {},
    { table: '' },
    { table: 5 },
    { table: 'x'.repeat(64) },
    { table: 'a\0b' },
    { table: 'todos', schema: '' },
    { table: 'todos', project_id: own.project.id },
  ]) {
    const reply = await own.hooks('POST', `/${wid}/attach`, body)
    assert.equal(reply.status, 400, `${JSON.stringify(body)}: ${reply.status} ${reply.text}`)
  }
  assert.deepEqual(await own.attachments(wid), [])
  assert.ok(await rows.read('todos?limit=1', { as: 'service_role' }))
})

test('2 §4.6 rule 1: an event other than insert, update and delete is 400 and changes nothing', async () => {
  const wid = await create()
  await own.attach(wid, 'todos', { events: ['insert'] })
  for (const events of [
    ['truncate'],
    ['select'],
    ['*'],
    [''],
    ['insert', 'upsert'],
    ['db.public.todos.insert'],
    ['insert or update'],
    [' insert'],
    [null],
    [5],
    [],
    'insert',
    {},
  ]) {
    const reply = await own.hooks('POST', `/${wid}/attach`, { table: 'todos', events })
    assert.equal(reply.status, 400, `${JSON.stringify(events)}: ${reply.status} ${reply.text}`)
  }
  const reply = await own.hooks('POST', `/${wid}/attach`, { table: 'todos', events: ['truncate'] })
  assertManagementError(reply, 'invalid_webhook_event', /truncate/)
  assert.deepEqual(await own.attachments(wid), [expected('todos', ['INSERT'])])
  await own.detach(wid, 'todos')
})

test('2 §5 attaching and detaching need the deploy scope, and the list read', async () => {
  const wid = await create()
  const [read, deploy] = [await mintToken(it, 'read'), await mintToken(it, 'deploy')]
  const root = `/api/v1/projects/${own.project.id}/webhooks/${wid}`
  const attach = (token: string) =>
    it.call('POST', `${root}/attach`, { token, body: { table: 'todos', events: ['insert'] } })
  const detach = (token: string) => it.call('DELETE', `${root}/attach/todos`, { token })
  assertNeedsScope(await attach(read.token), 'deploy')
  const { status, body, text } = await attach(deploy.token)
  assert.equal(status, 200, text)
  assert.deepEqual(body, expected('todos', ['INSERT']))
  assertNeedsScope(await detach(read.token), 'deploy')
  const list = await it.call('GET', `${root}/attachments`, { token: read.token })
  assert.deepEqual(list.body.attachments, [body])
  assert.equal((await detach(deploy.token)).status, 204)
  assert.deepEqual(await own.attachments(wid), [])
})

test('Issue: a renamed table stays attached under its new name', async () => {
  const wid = await create()
  await own.sql('create table public.before_rename (id int)')
  await own.attach(wid, 'before_rename', { events: ['insert', 'delete'] })
  await own.sql('insert into public.before_rename values (1)')
  await own.sql(`alter table public.before_rename rename to after_rename;
    alter table public.after_rename rename column id to number;
    alter table public.after_rename add column note text default 'new'`)
  await own.sql('insert into public.after_rename values (2)')
  assert.deepEqual((await own.attachments(wid)).map(sorted), [expected('after_rename', ['INSERT', 'DELETE'])])
  assert.deepEqual(await eventsOf(wid, 2), [
    'db.public.before_rename.insert',
    'db.public.after_rename.insert',
  ])
  const renamed = receiver.received.find(({ body }) => body.event === 'db.public.after_rename.insert')!
  assert.partialDeepStrictEqual(renamed.body, { table: 'after_rename', record: { number: 2, note: 'new' } })
  await own.sql('create table public.before_rename (id int); insert into public.before_rename values (3)')
  await own.detach(wid, 'before_rename')
  await own.sql('delete from public.after_rename where number = 1')
  assert.equal((await eventsOf(wid, 3)).at(-1), 'db.public.after_rename.delete')
  await own.detach(wid, 'after_rename')
  assert.deepEqual(await own.attachments(wid), [])
})

test('Issue: a dropped table is detached, and a new one with its name is not attached', async () => {
  const wid = await create()
  await own.sql('create table public.dropped (id int)')
  await own.attach(wid, 'dropped')
  await own.sql('insert into public.dropped values (1)')
  // What was committed before is delivered.
  await own.sql('drop table public.dropped')
  assert.deepEqual(await eventsOf(wid, 1), ['db.public.dropped.insert'])
  await until('the table is detached', async () => (await own.attachments(wid)).length === 0)
  await own.sql('create table public.dropped (id int); insert into public.dropped values (2)')
  assert.deepEqual(await own.attachments(wid), [])
  await own.attach(wid, 'dropped')
  await own.sql('insert into public.dropped values (3)')
  assert.deepEqual(await eventsOf(wid, 2), ['db.public.dropped.insert', 'db.public.dropped.insert'])
  const ids = receiver.received
    .filter(({ body }) => body.table === 'dropped')
    .map(({ body }) => body.record.id)
  assert.deepEqual(ids, [1, 3])
})

test('2 §4.6 deleting a webhook or switching it off ends its row changes', async () => {
  const [deleted, paused, kept] = [await create(), await create(), await create()]
  await own.sql('create table public.ending (id int)')
  for (const wid of [deleted, paused, kept]) await own.attach(wid, 'ending')
  await own.hooks('DELETE', `/${deleted}`)
  await own.update(paused, { is_active: false })
  await own.sql('insert into public.ending values (1)')
  await own.ended(kept, 'delivered', 1)
  assert.deepEqual((await own.attachments(paused)).map(sorted), [expected('ending')])
  await own.update(paused, { is_active: true })
  await own.sql('insert into public.ending values (2)')
  await own.ended(kept, 'delivered', 2)
  await own.ended(paused, 'delivered', 1)
  const ids = receiver.received
    .filter(({ body }) => body.table === 'ending')
    .map(({ body }) => body.record.id)
  assert.deepEqual(ids.toSorted(), [1, 2, 2])
})

test('2 §4.6 a table is changed as before while it is attached, and after', async () => {
  const wid = await create()
  await rows.ddl('create table public.plain (id int primary key, title text)')
  await own.attach(wid, 'plain')
  const added = await rows.post('plain', [{ id: 1 }, { id: 2 }], {
    as: 'service_role',
    prefer: 'return=representation',
  })
  assert.equal(added.status, 201, added.text)
  assert.deepEqual(added.body, [
    { id: 1, title: null },
    { id: 2, title: null },
  ])
  assert.equal((await rows.sql('delete from public.plain returning id')).length, 2)
  await own.ended(wid, 'delivered', 4)
  await own.detach(wid, 'plain')
  await own.hooks('DELETE', `/${wid}`)
  assert.equal((await rows.sql('insert into public.plain values (3) returning id')).length, 1)
})
