// 1 §2.5 and §6 rules 1–4: the content of a change for each kind of caller.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newOf, type RealtimeApi, realtimeProject, type Subscription, summary } from '../realtime.ts'
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

/** Subscribes each kind of caller to one table. */
const subscriptions = (table: string, event = '*'): Promise<Subscription[]> =>
  Promise.all(
    (['anon', ada, bob, 'service_role'] as const).map(as => realtime.subscribe(as, { event, table })),
  )

test('1 §2.5 an event has the fields of the specification', async () => {
  const table = await realtime.table(notes, everybody)
  const subscription = await realtime.subscribe('anon', { table })
  const started = Date.now()
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'x')`)
  const [[change] = []] = await realtime.newChanges(subscription)
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
  assert.deepEqual(ids, subscription.ids)
  const age = Date.parse(commit_timestamp) - started
  assert.ok(age > -10_000 && age < 60_000, `${commit_timestamp} is not about now`)
})

test('1 §6 rule 2: INSERT has the full row for those who may read it, and no old row', async () => {
  const table = await realtime.table(notes, mine)
  const all = await subscriptions(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'of ada')`)
  const event = ['INSERT', { id: 1, owner: ada.sub, body: 'of ada' }, null]
  const [anon, adas, bobs, service] = await realtime.newChanges(...all)
  assert.deepEqual([anon, bobs], [[], []])
  assert.deepEqual(adas!.map(summary), [event])
  assert.deepEqual(service!.map(summary), [event])
})

test('1 §6 rule 3: UPDATE has the full new row and the full prior row', async () => {
  const table = await realtime.table(notes, mine)
  const all = await subscriptions(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'first')`)
  await realtime.newChanges(...all)
  await realtime.sql(`update public.${table} set body = 'second'`)
  const [anon, adas, bobs, service] = await realtime.newChanges(...all)
  const event = [
    'UPDATE',
    { id: 1, owner: ada.sub, body: 'second' },
    { id: 1, owner: ada.sub, body: 'first' },
  ]
  assert.deepEqual([anon, bobs], [[], []])
  assert.deepEqual(adas!.map(summary), [event])
  assert.deepEqual(service!.map(summary), [event])
})

test('1 §6 rule 3: a prior row that the subscriber may not read is null', async () => {
  const table = await realtime.table(notes, mine)
  const all = await subscriptions(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'secret of ada')`)
  await realtime.newChanges(...all)
  await realtime.sql(`update public.${table} set owner = '${bob.sub}', body = 'given'`)
  const [anon, , bobs, service] = await realtime.newChanges(...all)
  const now = { id: 1, owner: bob.sub, body: 'given' }
  assert.deepEqual(anon, [])
  assert.deepEqual(bobs!.map(summary), [['UPDATE', now, null]])
  assert.doesNotMatch(bobs![0]!.text, /secret of ada/)
  assert.deepEqual(service!.map(summary), [['UPDATE', now, { id: 1, owner: ada.sub, body: 'secret of ada' }]])
})

test('1 §6 rule 3: an UPDATE that makes a row invisible to the subscriber is not sent', async () => {
  const table = await realtime.table(notes, mine)
  const all = await subscriptions(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'first')`)
  await realtime.newChanges(...all)
  await realtime.sql(`update public.${table} set owner = '${bob.sub}', body = 'secret of bob'`)
  const [, adas] = await realtime.newChanges(...all)
  for (const change of adas!) {
    assert.equal(change.new, null)
    assert.doesNotMatch(change.text, /secret of bob/)
    assert.doesNotMatch(change.text, new RegExp(bob.sub))
  }
})

test('1 §6 rule 4: DELETE has only the key columns, for service_role the full row', async () => {
  const table = await realtime.table(notes, mine)
  const all = await subscriptions(table)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'gone')`)
  await realtime.newChanges(...all)
  await realtime.sql(`delete from public.${table}`)
  const [anon, adas, bobs, service] = await realtime.newChanges(...all)
  // Only the table privilege and rule 7 limit DELETE. Subscribers that could not read the row receive it, too.
  for (const changes of [anon, adas, bobs]) {
    assert.deepEqual(changes!.map(summary), [['DELETE', null, { id: 1 }]])
    assert.equal(changes![0]!.errors, null)
    assert.doesNotMatch(changes![0]!.text, /gone/)
  }
  assert.deepEqual(service!.map(summary), [['DELETE', null, { id: 1, owner: ada.sub, body: 'gone' }]])
})

test('1 §6 rule 4: a composite key is sent completely', async () => {
  const table = await realtime.table('a int, b text, c int, primary key (b, a)', everybody)
  const subscription = await realtime.subscribe(ada, { event: 'DELETE', table })
  await realtime.sql(`insert into public.${table} values (1, 'x', 3); delete from public.${table}`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(changes!.map(summary), [['DELETE', null, { a: 1, b: 'x' }]])
})

test('1 §6 rule 4: a DELETE on a table without a key has no columns', async () => {
  const table = await realtime.table('a int, b text', everybody)
  const [reader, service] = [
    await realtime.subscribe(ada, { table }),
    await realtime.subscribe('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'x')`)
  await realtime.newChanges(reader, service)
  await realtime.sql(`delete from public.${table}`)
  const [readers, services] = await realtime.newChanges(reader, service)
  assert.deepEqual(
    readers!.map(({ eventType, old, new: now }) => [eventType, old ?? {}, now]),
    [['DELETE', {}, null]],
  )
  assert.deepEqual(services!.map(summary), [['DELETE', null, { a: 1, b: 'x' }]])
})

test('1 §6 rule 3: the prior row has the old value of a changed key', async () => {
  const table = await realtime.table('id int primary key, body text', everybody)
  const subscription = await realtime.subscribe('anon', { event: 'UPDATE', table })
  await realtime.sql(`insert into public.${table} values (1, 'x'); update public.${table} set id = 2`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(changes!.map(summary), [['UPDATE', { id: 2, body: 'x' }, { id: 1, body: 'x' }]])
})

for (const identity of ['default', 'full', 'nothing'])
  test(`1 §6 rule 1: replica identity ${identity} has no effect`, async () => {
    const table = await realtime.table(
      notes,
      name => `${everybody(name)}; alter table public.${name} replica identity ${identity}`,
    )
    const [reader, service] = [
      await realtime.subscribe(ada, { table }),
      await realtime.subscribe('service_role', { table }),
    ]
    await realtime.sql(`insert into public.${table} values (1, null, 'a')`)
    await realtime.sql(`update public.${table} set body = 'b'`)
    await realtime.sql(`delete from public.${table}`)
    const [readers, services] = await realtime.newChanges(reader, service)
    const [a, b] = [
      { id: 1, owner: null, body: 'a' },
      { id: 1, owner: null, body: 'b' },
    ]
    const first = [
      ['INSERT', a, null],
      ['UPDATE', b, a],
    ]
    assert.deepEqual(readers!.map(summary), [...first, ['DELETE', null, { id: 1 }]])
    assert.deepEqual(services!.map(summary), [...first, ['DELETE', null, b]])
  })

test('1 §6 values are the same as over HTTP', async () => {
  await realtime.sql(
    `create type public.mood as enum ('fine', 'tired'); create domain public.short as text check (length(value) < 5)`,
  )
  const table = await realtime.table(
    `id int primary key, small smallint, price numeric(10,2), ratio float8, yes boolean, doc jsonb, raw json, tags text[], matrix int[][],
     at timestamptz, day date, span interval, key uuid, bin bytea, net inet, range int4range, mood public.mood, small_text public.short, nothing text, made int generated always as (id * 2) stored`,
    everybody,
  )
  const subscription = await realtime.subscribe('anon', { event: 'INSERT', table })
  await realtime.sql(`insert into public.${table} values (1, 2, 10.50, 0.1, true, '{"a": [1, null, "x"]}', '{"b":  2}', '{a,"b,c",null}', '{{1,2},{3,4}}',
    '2026-02-03 04:05:06.789+02', '2026-02-03', '1 day 02:00', '${ada.sub}', '\\xdeadbeef', '10.0.0.1/8', '[1,5)', 'fine', 'x', null)`)
  const [changes] = await realtime.newChanges(subscription)
  await realtime.rows.ddl('select 1')
  const [row] = await realtime.rows.read(table)
  assert.deepEqual(changes![0]!.new, row)
})

test('1 §6 settings of the writing session do not change the event', async () => {
  const table = await realtime.table(
    'id int primary key, at timestamptz, plain timestamp, day date, span interval, bin bytea, f float8, m numeric',
    everybody,
  )
  const subscription = await realtime.subscribe('anon', { event: 'INSERT', table })
  const values = `timestamptz '2026-02-03 04:05:06.789+02', timestamp '2026-02-03 04:05:06', date '2026-02-03', interval '1 day 02:00', bytea '\\xdeadbeef', 0.1::float8 + 0.2, 1.50`
  await realtime.sql(`insert into public.${table} values (1, ${values})`)
  await realtime.sql(`set local timezone = 'Asia/Tokyo'; set local datestyle = 'German'; set local intervalstyle = 'sql_standard'; set local bytea_output = 'escape';
    set local extra_float_digits = 0; insert into public.${table} values (2, ${values})`)
  const [[one, two] = []] = await realtime.newChanges(subscription)
  assert.deepEqual({ ...two!.new, id: 1 }, one!.new)
})

test('1 §6 a subset of the columns is exact, whatever the other columns contain', async () => {
  const table = await realtime.table(
    'doc json, k text, body text, n int, primary key (k, n)',
    name =>
      `${everybody(name)}; revoke select on public.${name} from authenticated; grant select (k, n) on public.${name} to authenticated`,
  )
  const subscriptions = [
    await realtime.subscribe(ada, { table }),
    await realtime.subscribe('anon', { table, select: ['n'] }),
    await realtime.subscribe('anon', { event: 'DELETE', table }),
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
  const [adas, selected, deleted] = await realtime.newChanges(...subscriptions)
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

test('1 §6 numbers beyond the precision of JavaScript stay exact on the wire', async () => {
  const table = await realtime.table('id bigint primary key, n numeric, f jsonb', everybody)
  const subscription = await realtime.subscribe('anon', { table })
  await realtime.sql(
    `insert into public.${table} values (9007199254740993, 1234567890.12345678901234567890, '{"x": 9007199254740995}')`,
  )
  await realtime.sql(`update public.${table} set n = 9223372036854775807.5`)
  await realtime.sql(`delete from public.${table}`)
  const [[inserted, updated, deleted] = []] = await realtime.newChanges(subscription)
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

test('1 §6 text of every script, quotes and control characters arrive unchanged', async () => {
  const table = await realtime.table('id int primary key, body text', everybody)
  const subscription = await realtime.subscribe('anon', { table })
  const body = `"quoted" \\back ' 漢字 🙂 é e\u0301 \u2028 \u0001 \n\t </script>`
  await realtime.rows.ddl('select 1')
  const made = await realtime.rows.post(table, { id: 1, body }, { as: 'service_role' })
  assert.equal(made.status, 201, made.text)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(newOf(changes!, 'body'), [body])
})
