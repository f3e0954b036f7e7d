// 1 §6 and Clarifications "Realtime": names, number and privileges of columns, and columns that change.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newOf, type RealtimeApi, realtimeProject, summary } from '../realtime.ts'
import { ada, bob } from '../storage.ts'
import { type Target, target } from '../target.ts'

let it: Target
let realtime: RealtimeApi
before(async () => {
  it = await target()
  realtime = await realtimeProject(it)
})
after(async () => {
  await realtime.closeAll()
  await it.stop()
})

const everybody = (table: string) => `create policy everybody on public.${table} for select using (true)`
const mine = (table: string) => `create policy mine on public.${table} for select using (owner = auth.uid())`

test('1 §6 tables and columns may have any name', async () => {
  const name = `Odd "name", of: a table = 'x'`
  const quoted = `public."${name.replaceAll('"', '""')}"`
  await realtime.sql(
    `create table ${quoted} ("Id" int primary key, "select" text, "a b" int, "new" int, "ids" int, "Ünï""code" text);
     create policy everybody on ${quoted} for select using (true)`,
  )
  const subscription = await realtime.subscribe('anon', { table: name })
  await realtime.sql(`insert into ${quoted} values (1, 's', 2, 3, 4, 'u'); delete from ${quoted}`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(changes!.map(summary), [
    ['INSERT', { Id: 1, select: 's', 'a b': 2, new: 3, ids: 4, 'Ünï"code': 'u' }, null],
    ['DELETE', null, { Id: 1 }],
  ])
  assert.equal(changes![0]!.table, name)
})

test('1 §6 columns may have names that the capture trigger uses', async () => {
  const names =
    'a,b,c,d,e,f,k,n,o,p,r,s,t,x,new,old,row,rows,item,data,record,old_record,new_row,old_row,new_rows,old_rows,inserted,deleted,change,changes,relid,tg_op,type,key,keys,claims,role,seq,xid,side,sides'.split(
      ',',
    )
  const table = await realtime.table(
    `id int primary key, ${names.map(name => `"${name}" int`)}`,
    name => `create policy everybody on public.${name} for select using (n is not null and t = 1)`,
  )
  const [anon, service] = [
    await realtime.subscribe('anon', { table, filter: 'n=eq.1' }),
    await realtime.subscribe('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, ${names.map(() => 1)})`)
  await realtime.sql(`update public.${table} set o = 2`)
  const row = { id: 1, ...Object.fromEntries(names.map(name => [name, 1])) }
  for (const changes of await realtime.newChanges(anon, service))
    assert.deepEqual(changes.map(summary), [
      ['INSERT', row, null],
      ['UPDATE', { ...row, o: 2 }, row],
    ])
})

test('1 §6 a table may have very many columns', async () => {
  const names = Array.from({ length: 400 }, (_, i) => `c${i}`)
  const table = await realtime.table(`id int primary key, ${names.map(name => `${name} int`)}`, everybody)
  const subscription = await realtime.subscribe(ada, { table })
  await realtime.sql(`insert into public.${table} values (1, ${names.map((_, i) => i)})`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(changes![0]!.new, { id: 1, ...Object.fromEntries(names.map((name, i) => [name, i])) })
  assert.equal(changes![0]!.columns.length, 401)
})

test('1 §6 adding, renaming or dropping a column during a subscription shows in the next change', async () => {
  const table = await realtime.table('id int primary key, a text', everybody)
  const subscriptions = [
    await realtime.subscribe('anon', { table }),
    await realtime.subscribe('service_role', { table }),
  ]
  const step = async (ddl: string, id: number, row: object) => {
    await realtime.sql(ddl)
    await realtime.sql(`insert into public.${table} values (${id}, 'x')`)
    for (const changes of await realtime.newChanges(...subscriptions)) {
      assert.deepEqual(changes.map(summary), [['INSERT', { id, ...row }, null]], ddl)
      assert.deepEqual(
        changes[0]!.columns.map(({ name }) => name),
        ['id', ...Object.keys(row)],
      )
    }
  }
  await step('select 1', 1, { a: 'x' })
  await step(`alter table public.${table} add column b int default 7`, 2, { a: 'x', b: 7 })
  await step(`alter table public.${table} rename column a to c`, 3, { c: 'x', b: 7 })
  await step(`alter table public.${table} drop column b`, 4, { c: 'x' })
  await step(`alter table public.${table} alter column c type varchar(3)`, 5, { c: 'x' })
})

test('1 §6 rule 10: rows written right before and after ALTER TABLE are not lost silently', async () => {
  const table = await realtime.table('id int primary key, a text', everybody)
  const anon = await realtime.subscribe('anon', { table })
  const service = await realtime.subscribe('service_role', { table })
  await realtime.sql(`insert into public.${table} values (1, 'x')`)
  await realtime.sql(`alter table public.${table} add column b int default 7`)
  await realtime.sql(`insert into public.${table} values (2, 'y')`)
  const [anons, services] = await realtime.newChanges(anon, service)
  assert.deepEqual(newOf(services!), [1, 2])
  // Policies may not be checkable on a row that no longer fits its table.
  if (newOf(anons!).join() !== '1,2') {
    assert.deepEqual(newOf(anons!), [2])
    await anon.system('error')
  }
})

test('Clarifications: columns that the role may not select are omitted from both rows', async () => {
  const table = await realtime.table(
    'id int primary key, body text, salary int',
    name =>
      `${everybody(name)}; revoke select on public.${name} from authenticated; grant select (id, body) on public.${name} to authenticated`,
  )
  const [adas, anon, service] = [
    await realtime.subscribe(ada, { table }),
    await realtime.subscribe('anon', { table }),
    await realtime.subscribe('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'x', 987654)`)
  await realtime.sql(`update public.${table} set salary = 987655`)
  const [limited, open, all] = await realtime.newChanges(adas, anon, service)
  const row = { id: 1, body: 'x' }
  assert.deepEqual(limited!.map(summary), [
    ['INSERT', row, null],
    ['UPDATE', row, row],
  ])
  for (const { text } of limited!) assert.doesNotMatch(text, /98765\d/)
  const full = [
    ['INSERT', { ...row, salary: 987654 }, null],
    ['UPDATE', { ...row, salary: 987655 }, { ...row, salary: 987654 }],
  ]
  assert.deepEqual(open!.map(summary), full)
  assert.deepEqual(all!.map(summary), full)
})

test('Clarifications: a column dropped before delivery is omitted', async () => {
  const table = await realtime.table(
    'id int primary key, body text, salary int',
    name =>
      `${everybody(name)}; revoke select on public.${name} from authenticated; grant select (id, body) on public.${name} to authenticated`,
  )
  const [adas, service] = [
    await realtime.subscribe(ada, { table }),
    await realtime.subscribe('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'x', 987654);
    update public.${table} set salary = 987655; alter table public.${table} drop column salary`)
  const row = { id: 1, body: 'x' }
  for (const changes of await realtime.newChanges(adas, service)) {
    assert.deepEqual(changes.map(summary), [
      ['INSERT', row, null],
      ['UPDATE', row, row],
    ])
    assert.ok(!changes.some(({ text }) => text.includes('98765')))
  }
})

test('Clarifications: a policy may use a column that the role may not select', async () => {
  const table = await realtime.table(
    'id int primary key, owner uuid',
    name =>
      `${mine(name)}; revoke select on public.${name} from authenticated; grant select (id) on public.${name} to authenticated`,
  )
  const [adas, bobs] = [await realtime.subscribe(ada, { table }), await realtime.subscribe(bob, { table })]
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}')`)
  const newChanges = await realtime.newChanges(adas, bobs)
  assert.deepEqual(
    newChanges.map(changes => changes.map(({ new: now }) => now)),
    [[{ id: 1 }], [{ id: 2 }]],
  )
})

test('Clarifications: a role without SELECT on the table receives nothing, not even a DELETE', async () => {
  const table = await realtime.table(
    'id int primary key',
    name => `${everybody(name)}; revoke select on public.${name} from anon`,
  )
  const [anon, adas] = [
    await realtime.connect().then(socket => socket.join('realtime:quiet', bindings(table))),
    await realtime.subscribe(ada, { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1)`)
  await realtime.sql(`update public.${table} set id = 2; delete from public.${table}`)
  const [readers] = await realtime.newChanges(adas)
  assert.deepEqual(
    readers!.map(({ eventType }) => eventType),
    ['INSERT', 'UPDATE', 'DELETE'],
  )
  // The server may reject all bindings of this channel, so it does not wait for the marker here.
  await anon.socket.heartbeat()
  const events = anon.received().filter(({ event }) => event === 'postgres_changes')
  assert.ok(!events.some(({ payload }) => payload.data.table === table))
})

const bindings = (table: string) => ({ postgres_changes: [{ event: '*', schema: 'public', table }] })
