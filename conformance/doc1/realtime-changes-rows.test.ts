// 1 §2.5 and §6 rules 1–4: what a change tells of the rows, to whom.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Listener, newOf, type RealtimeApi, realtimeProject, told } from '../realtime.ts'
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
const notes = 'id int primary key, owner uuid, body text'

/** As each kind of caller, of one table. */
const listeners = (table: string, event = '*'): Promise<Listener[]> =>
  Promise.all((['anon', ada, bob, 'service_role'] as const).map(as => realtime.listen(as, { event, table })))

test('1 §2.5 an event has the fields of the specification', async () => {
  const table = await realtime.table(notes, everybody)
  const listener = await realtime.listen('anon', { table })
  const started = Date.now()
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'x')`)
  const [[change] = []] = await realtime.seen(listener)
  const { text: _, commit_timestamp, ids, ...rest } = change!
  assert.deepEqual(rest, {
    schema: 'public',
    table,
    eventType: 'INSERT',
    new: { id: 1, owner: ada.sub, body: 'x' },
    old: null,
    columns: ['id', 'owner', 'body'].map(name => ({ name, type: 'unknown' })),
    errors: null,
  })
  assert.deepEqual(ids, listener.ids)
  const age = Date.parse(commit_timestamp) - started
  assert.ok(age > -10_000 && age < 60_000, `${commit_timestamp} is not about now`)
})

test('1 §6 rule 2: INSERT tells the full row to those who may read it, and no old one', async () => {
  const table = await realtime.table(notes, mine)
  const all = await listeners(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'of ada')`)
  const event = ['INSERT', { id: 1, owner: ada.sub, body: 'of ada' }, null]
  const [anon, adas, bobs, service] = await realtime.seen(...all)
  assert.deepEqual([anon, bobs], [[], []])
  assert.deepEqual(adas!.map(told), [event])
  assert.deepEqual(service!.map(told), [event])
})

test('1 §6 rule 3: UPDATE tells the full new row and the full prior row', async () => {
  const table = await realtime.table(notes, mine)
  const all = await listeners(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'first')`)
  await realtime.seen(...all)
  await realtime.sql(`update public.${table} set body = 'second'`)
  const [anon, adas, bobs, service] = await realtime.seen(...all)
  const event = [
    'UPDATE',
    { id: 1, owner: ada.sub, body: 'second' },
    { id: 1, owner: ada.sub, body: 'first' },
  ]
  assert.deepEqual([anon, bobs], [[], []])
  assert.deepEqual(adas!.map(told), [event])
  assert.deepEqual(service!.map(told), [event])
})

test('1 §6 rule 3: a prior row that the subscriber may not read is null', async () => {
  const table = await realtime.table(notes, mine)
  const all = await listeners(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'secret of ada')`)
  await realtime.seen(...all)
  await realtime.sql(`update public.${table} set owner = '${bob.sub}', body = 'given'`)
  const [anon, , bobs, service] = await realtime.seen(...all)
  const now = { id: 1, owner: bob.sub, body: 'given' }
  assert.deepEqual(anon, [])
  assert.deepEqual(bobs!.map(told), [['UPDATE', now, null]])
  assert.doesNotMatch(bobs![0]!.text, /secret of ada/)
  assert.deepEqual(service!.map(told), [['UPDATE', now, { id: 1, owner: ada.sub, body: 'secret of ada' }]])
})

test('1 §6 rule 3: of a row that has left the subscriber’s sight nothing new is told', async () => {
  const table = await realtime.table(notes, mine)
  const all = await listeners(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'first')`)
  await realtime.seen(...all)
  await realtime.sql(`update public.${table} set owner = '${bob.sub}', body = 'secret of bob'`)
  const [, adas] = await realtime.seen(...all)
  for (const change of adas!) {
    assert.equal(change.new, null)
    assert.doesNotMatch(change.text, /secret of bob/)
    assert.doesNotMatch(change.text, new RegExp(bob.sub))
  }
})

test('1 §6 rule 4: DELETE tells the key columns alone, to service_role the full row', async () => {
  const table = await realtime.table(notes, mine)
  const all = await listeners(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'gone')`)
  await realtime.seen(...all)
  await realtime.sql(`delete from public.${table}`)
  const [anon, adas, bobs, service] = await realtime.seen(...all)
  // DELETE is gated by table privilege and rule 7 only: whoever could not read the row hears of it, too.
  for (const changes of [anon, adas, bobs]) {
    assert.deepEqual(changes!.map(told), [['DELETE', null, { id: 1 }]])
    assert.equal(changes![0]!.errors, null)
    assert.doesNotMatch(changes![0]!.text, /gone/)
  }
  assert.deepEqual(service!.map(told), [['DELETE', null, { id: 1, owner: ada.sub, body: 'gone' }]])
})

test('1 §6 rule 4: a key of several columns is told whole', async () => {
  const table = await realtime.table('a int, b text, c int, primary key (b, a)', everybody)
  const listener = await realtime.listen(ada, { event: 'DELETE', table })
  await realtime.sql(`insert into public.${table} values (1, 'x', 3); delete from public.${table}`)
  const [changes] = await realtime.seen(listener)
  assert.deepEqual(changes!.map(told), [['DELETE', null, { a: 1, b: 'x' }]])
})

test('1 §6 rule 4: of a table without a key a DELETE tells that it happened, and no column', async () => {
  const table = await realtime.table('a int, b text', everybody)
  const [reader, service] = [
    await realtime.listen(ada, { table }),
    await realtime.listen('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'x')`)
  await realtime.seen(reader, service)
  await realtime.sql(`delete from public.${table}`)
  const [readers, services] = await realtime.seen(reader, service)
  assert.deepEqual(
    readers!.map(({ eventType, old, new: now }) => [eventType, old ?? {}, now]),
    [['DELETE', {}, null]],
  )
  assert.deepEqual(services!.map(told), [['DELETE', null, { a: 1, b: 'x' }]])
})

test('1 §6 rule 3: a changed key shows as it was in the prior row', async () => {
  const table = await realtime.table('id int primary key, body text', everybody)
  const listener = await realtime.listen('anon', { event: 'UPDATE', table })
  await realtime.sql(`insert into public.${table} values (1, 'x'); update public.${table} set id = 2`)
  const [changes] = await realtime.seen(listener)
  assert.deepEqual(changes!.map(told), [['UPDATE', { id: 2, body: 'x' }, { id: 1, body: 'x' }]])
})

for (const identity of ['default', 'full', 'nothing'])
  test(`1 §6 rule 1: replica identity ${identity} has no effect`, async () => {
    const table = await realtime.table(
      notes,
      name => `${everybody(name)}; alter table public.${name} replica identity ${identity}`,
    )
    const [reader, service] = [
      await realtime.listen(ada, { table }),
      await realtime.listen('service_role', { table }),
    ]
    await realtime.sql(`insert into public.${table} values (1, null, 'a')`)
    await realtime.sql(`update public.${table} set body = 'b'`)
    await realtime.sql(`delete from public.${table}`)
    const [readers, services] = await realtime.seen(reader, service)
    const [a, b] = [
      { id: 1, owner: null, body: 'a' },
      { id: 1, owner: null, body: 'b' },
    ]
    const first = [
      ['INSERT', a, null],
      ['UPDATE', b, a],
    ]
    assert.deepEqual(readers!.map(told), [...first, ['DELETE', null, { id: 1 }]])
    assert.deepEqual(services!.map(told), [...first, ['DELETE', null, b]])
  })

test('1 §6 values are told as rows over HTTP tell them', async () => {
  await realtime.sql(
    `create type public.mood as enum ('fine', 'tired'); create domain public.short as text check (length(value) < 5)`,
  )
  const table = await realtime.table(
    `id int primary key, small smallint, price numeric(10,2), ratio float8, yes boolean, doc jsonb, raw json, tags text[], matrix int[][],
     at timestamptz, day date, span interval, key uuid, bin bytea, net inet, range int4range, mood public.mood, small_text public.short, nothing text, made int generated always as (id * 2) stored`,
    everybody,
  )
  const listener = await realtime.listen('anon', { event: 'INSERT', table })
  await realtime.sql(`insert into public.${table} values (1, 2, 10.50, 0.1, true, '{"a": [1, null, "x"]}', '{"b":  2}', '{a,"b,c",null}', '{{1,2},{3,4}}',
    '2026-02-03 04:05:06.789+02', '2026-02-03', '1 day 02:00', '${ada.sub}', '\\xdeadbeef', '10.0.0.1/8', '[1,5)', 'fine', 'x', null)`)
  const [changes] = await realtime.seen(listener)
  await realtime.rows.ddl('select 1')
  const [row] = await realtime.rows.read(table)
  assert.deepEqual(changes![0]!.new, row)
})

test('1 §6 what the writer’s session has set does not change what is told', async () => {
  const table = await realtime.table(
    'id int primary key, at timestamptz, plain timestamp, day date, span interval, bin bytea, f float8, m numeric',
    everybody,
  )
  const listener = await realtime.listen('anon', { event: 'INSERT', table })
  const values = `timestamptz '2026-02-03 04:05:06.789+02', timestamp '2026-02-03 04:05:06', date '2026-02-03', interval '1 day 02:00', bytea '\\xdeadbeef', 0.1::float8 + 0.2, 1.50`
  await realtime.sql(`insert into public.${table} values (1, ${values})`)
  await realtime.sql(`set local timezone = 'Asia/Tokyo'; set local datestyle = 'German'; set local intervalstyle = 'sql_standard'; set local bytea_output = 'escape';
    set local extra_float_digits = 0; insert into public.${table} values (2, ${values})`)
  const [[one, two] = []] = await realtime.seen(listener)
  assert.deepEqual({ ...two!.new, id: 1 }, one!.new)
})

test('1 §6 a part of the columns is told exactly, whatever stands in the others', async () => {
  const table = await realtime.table(
    'doc json, k text, body text, n int, primary key (k, n)',
    name =>
      `${everybody(name)}; revoke select on public.${name} from authenticated; grant select (k, n) on public.${name} to authenticated`,
  )
  const listeners = [
    await realtime.listen(ada, { table }),
    await realtime.listen('anon', { table, select: ['n'] }),
    await realtime.listen('anon', { event: 'DELETE', table }),
  ]
  const tricky = [
    `"},{"n":7,"k":"`,
    `back\\\\" \\`,
    `line\nbreak\ttab`,
    `{[(,)]}`,
    `'quoted' \u0001 漢🙂`,
    '',
    ' ',
  ]
  const key = (text: string) => text.replaceAll('\\\\', '\\')
  for (const [n, text] of tricky.entries()) {
    const value = `'${key(text).replaceAll("'", "''")}'`
    await realtime.sql(
      `insert into public.${table} values (json_build_object('n', ${value}::text, 'k', json_build_array(${value}::text)), ${value}, ${value}, ${n})`,
    )
  }
  await realtime.sql(`delete from public.${table}`)
  const [adas, selected, deleted] = await realtime.seen(...listeners)
  const rows = tricky.map((text, n) => ({ k: key(text), n }))
  const byNumber = (list: any[]) => list.toSorted((a, b) => a.n - b.n)
  for (const changes of [adas!, selected!]) {
    assert.deepEqual(
      changes.slice(0, rows.length).map(({ new: now }) => now),
      rows,
    )
    assert.deepEqual(byNumber(changes.slice(rows.length).map(({ old }) => old)), rows)
  }
  assert.deepEqual(byNumber(deleted!.map(({ old }) => old)), rows)
})

test('1 §6 numbers beyond what JavaScript counts stay exact on the wire', async () => {
  const table = await realtime.table('id bigint primary key, n numeric, f jsonb', everybody)
  const listener = await realtime.listen('anon', { table })
  await realtime.sql(
    `insert into public.${table} values (9007199254740993, 1234567890.12345678901234567890, '{"x": 9007199254740995}')`,
  )
  await realtime.sql(`update public.${table} set n = 9223372036854775807.5`)
  await realtime.sql(`delete from public.${table}`)
  const [[inserted, updated, deleted] = []] = await realtime.seen(listener)
  for (const [change, digits] of [
    [inserted, '9007199254740993'],
    [inserted, '1234567890.12345678901234567890'],
    [inserted, '9007199254740995'],
    [updated, '9223372036854775807.5'],
    [updated, '1234567890.12345678901234567890'],
    [deleted, '9007199254740993'],
  ] as const)
    assert.match(change!.text, new RegExp(`(?<![\\d.])${digits.replace('.', '\\.')}(?![\\d.])`))
})

test('1 §6 text of every script, quotes and control characters comes through', async () => {
  const table = await realtime.table('id int primary key, body text', everybody)
  const listener = await realtime.listen('anon', { table })
  const body = `"quoted" \\back ' 漢字 🙂 é e\u0301 \u2028 \u0001 \n\t </script>`
  await realtime.rows.ddl('select 1')
  const made = await realtime.rows.post(table, { id: 1, body }, { as: 'service_role' })
  assert.equal(made.status, 201, made.text)
  const [changes] = await realtime.seen(listener)
  assert.deepEqual(newOf(changes!, 'body'), [body])
})

test('1 §6 names of tables and columns may be any', async () => {
  const name = `Odd "name", of: a table = 'x'`
  const quoted = `public."${name.replaceAll('"', '""')}"`
  await realtime.sql(
    `create table ${quoted} ("Id" int primary key, "select" text, "a b" int, "new" int, "ids" int, "Ünï""code" text);
     create policy everybody on ${quoted} for select using (true)`,
  )
  const listener = await realtime.listen('anon', { table: name })
  await realtime.sql(`insert into ${quoted} values (1, 's', 2, 3, 4, 'u'); delete from ${quoted}`)
  const [changes] = await realtime.seen(listener)
  assert.deepEqual(changes!.map(told), [
    ['INSERT', { Id: 1, select: 's', 'a b': 2, new: 3, ids: 4, 'Ünï"code': 'u' }, null],
    ['DELETE', null, { Id: 1 }],
  ])
  assert.equal(changes![0]!.table, name)
})

test('1 §6 names that a trigger might use for itself are names of columns like others', async () => {
  const names =
    'a,b,c,d,e,f,k,n,o,p,r,s,t,x,new,old,row,rows,item,data,record,old_record,new_row,old_row,new_rows,old_rows,inserted,deleted,change,changes,relid,tg_op,type,key,keys,claims,role,seq,xid,side,sides'.split(
      ',',
    )
  const table = await realtime.table(
    `id int primary key, ${names.map(name => `"${name}" int`)}`,
    name => `create policy everybody on public.${name} for select using (n is not null and t = 1)`,
  )
  const [anon, service] = [
    await realtime.listen('anon', { table, filter: 'n=eq.1' }),
    await realtime.listen('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, ${names.map(() => 1)})`)
  await realtime.sql(`update public.${table} set o = 2`)
  const row = { id: 1, ...Object.fromEntries(names.map(name => [name, 1])) }
  for (const changes of await realtime.seen(anon, service))
    assert.deepEqual(changes.map(told), [
      ['INSERT', row, null],
      ['UPDATE', { ...row, o: 2 }, row],
    ])
})

test('1 §6 a table may have very many columns', async () => {
  const names = Array.from({ length: 400 }, (_, i) => `c${i}`)
  const table = await realtime.table(`id int primary key, ${names.map(name => `${name} int`)}`, everybody)
  const listener = await realtime.listen(ada, { table })
  await realtime.sql(`insert into public.${table} values (1, ${names.map((_, i) => i)})`)
  const [changes] = await realtime.seen(listener)
  assert.deepEqual(changes![0]!.new, { id: 1, ...Object.fromEntries(names.map((name, i) => [name, i])) })
  assert.equal(changes![0]!.columns.length, 401)
})

test('1 §6 a column added, renamed or dropped while somebody listens shows in the next change', async () => {
  const table = await realtime.table('id int primary key, a text', everybody)
  const listeners = [
    await realtime.listen('anon', { table }),
    await realtime.listen('service_role', { table }),
  ]
  const step = async (ddl: string, id: number, row: object) => {
    await realtime.sql(ddl)
    await realtime.sql(`insert into public.${table} values (${id}, 'x')`)
    for (const changes of await realtime.seen(...listeners)) {
      assert.deepEqual(changes.map(told), [['INSERT', { id, ...row }, null]], ddl)
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

test('1 §6 rule 10: of rows written before and after a change of the table in one breath none is lost in silence', async () => {
  const table = await realtime.table('id int primary key, a text', everybody)
  const anon = await realtime.listen('anon', { table })
  const service = await realtime.listen('service_role', { table })
  await realtime.sql(`insert into public.${table} values (1, 'x')`)
  await realtime.sql(`alter table public.${table} add column b int default 7`)
  await realtime.sql(`insert into public.${table} values (2, 'y')`)
  const [anons, services] = await realtime.seen(anon, service)
  assert.deepEqual(newOf(services!), [1, 2])
  // A row that no longer fits its table may not be judged any more.
  if (newOf(anons!).join() !== '1,2') {
    assert.deepEqual(newOf(anons!), [2])
    await anon.system('error')
  }
})

test('Clarifications: columns that the role may not read are left out, on both sides', async () => {
  const table = await realtime.table(
    'id int primary key, body text, salary int',
    name =>
      `${everybody(name)}; revoke select on public.${name} from authenticated; grant select (id, body) on public.${name} to authenticated`,
  )
  const [adas, anon, service] = [
    await realtime.listen(ada, { table }),
    await realtime.listen('anon', { table }),
    await realtime.listen('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'x', 987654)`)
  await realtime.sql(`update public.${table} set salary = 987655`)
  const [limited, open, all] = await realtime.seen(adas, anon, service)
  const row = { id: 1, body: 'x' }
  assert.deepEqual(limited!.map(told), [
    ['INSERT', row, null],
    ['UPDATE', row, row],
  ])
  for (const { text } of limited!) assert.doesNotMatch(text, /98765\d/)
  const full = [
    ['INSERT', { ...row, salary: 987654 }, null],
    ['UPDATE', { ...row, salary: 987655 }, { ...row, salary: 987654 }],
  ]
  assert.deepEqual(open!.map(told), full)
  assert.deepEqual(all!.map(told), full)
})

test('Clarifications: so is one that is gone when its row is told', async () => {
  const table = await realtime.table(
    'id int primary key, body text, salary int',
    name =>
      `${everybody(name)}; revoke select on public.${name} from authenticated; grant select (id, body) on public.${name} to authenticated`,
  )
  const [adas, service] = [
    await realtime.listen(ada, { table }),
    await realtime.listen('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'x', 987654);
    update public.${table} set salary = 987655; alter table public.${table} drop column salary`)
  const row = { id: 1, body: 'x' }
  for (const changes of await realtime.seen(adas, service)) {
    assert.deepEqual(changes.map(told), [
      ['INSERT', row, null],
      ['UPDATE', row, row],
    ])
    assert.ok(!changes.some(({ text }) => text.includes('98765')))
  }
})

test('Clarifications: a policy may judge by a column that the role may not read', async () => {
  const table = await realtime.table(
    'id int primary key, owner uuid',
    name =>
      `${mine(name)}; revoke select on public.${name} from authenticated; grant select (id) on public.${name} to authenticated`,
  )
  const [adas, bobs] = [await realtime.listen(ada, { table }), await realtime.listen(bob, { table })]
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}')`)
  const seen = await realtime.seen(adas, bobs)
  assert.deepEqual(
    seen.map(changes => changes.map(({ new: now }) => now)),
    [[{ id: 1 }], [{ id: 2 }]],
  )
})

test('Clarifications: a role without the privilege to read the table hears nothing of it, not even a DELETE', async () => {
  const table = await realtime.table(
    'id int primary key',
    name => `${everybody(name)}; revoke select on public.${name} from anon`,
  )
  const [anon, adas] = [
    await realtime.connect().then(socket => socket.join('realtime:quiet', wishes(table))),
    await realtime.listen(ada, { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1)`)
  await realtime.sql(`update public.${table} set id = 2; delete from public.${table}`)
  const [readers] = await realtime.seen(adas)
  assert.deepEqual(
    readers!.map(({ eventType }) => eventType),
    ['INSERT', 'UPDATE', 'DELETE'],
  )
  // What it asked for may have been refused as a whole, so the marker is not waited for on this channel.
  await anon.socket.heartbeat()
  const events = anon.received().filter(({ event }) => event === 'postgres_changes')
  assert.ok(!events.some(({ payload }) => payload.data.table === table))
})

const wishes = (table: string) => ({ postgres_changes: [{ event: '*', schema: 'public', table }] })
