// 1 §6 rules 9 and 10: which writes emit events, their order, and at-most-once delivery.
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

const everybody = (table: string) =>
  `create policy everybody on public.${table} using (true) with check (true)`

test('1 §6 changes of one transaction arrive in the order of the writes', async () => {
  const [one, two] = [
    await realtime.table('id int primary key, n int', everybody),
    await realtime.table('id int primary key', everybody),
  ]
  const subscription = await realtime.subscribe('anon', [{ table: one }, { table: two }])
  await realtime.sql(`
    insert into public.${one} values (1, 0);
    insert into public.${two} values (1);
    update public.${one} set n = 1;
    update public.${one} set n = 2;
    delete from public.${two};
    insert into public.${two} values (2);
    delete from public.${one}`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(
    changes!.map(({ table, ...change }) => [table, ...summary({ table, ...change })]),
    [
      [one, 'INSERT', { id: 1, n: 0 }, null],
      [two, 'INSERT', { id: 1 }, null],
      [one, 'UPDATE', { id: 1, n: 1 }, { id: 1, n: 0 }],
      [one, 'UPDATE', { id: 1, n: 2 }, { id: 1, n: 1 }],
      [two, 'DELETE', null, { id: 1 }],
      [two, 'INSERT', { id: 2 }, null],
      [one, 'DELETE', null, { id: 1 }],
    ],
  )
})

test('1 §6 consecutive transactions arrive in order, each change once', async () => {
  const table = await realtime.table('id int primary key', everybody)
  const subscriptions = [
    await realtime.subscribe('anon', { table }),
    await realtime.subscribe(ada, { table }),
    await realtime.subscribe('service_role', { table }, { version: '1.0.0' }),
  ]
  for (let id = 1; id <= 40; id++) await realtime.sql(`insert into public.${table} values (${id})`)
  const ids = Array.from({ length: 40 }, (_, i) => i + 1)
  for (const changes of await realtime.newChanges(...subscriptions)) assert.deepEqual(newOf(changes), ids)
})

test('1 §6 changes arrive in commit order, not in write order', async () => {
  const table = await realtime.table('id int primary key', everybody)
  const subscription = await realtime.subscribe('anon', { table })
  for (let round = 0; round < 20; round += 2) {
    const [early, late] = [round, round + 1]
    // The first transaction writes, then waits until the second, which begins later, has committed.
    const slow = realtime.sql(`
      insert into public.${table} values (${early});
      do $$ begin
        for i in 1..5000 loop
          perform pg_sleep(0.001);
          exit when exists (select from public.${table} where id = ${late});
        end loop;
      end $$`)
    await realtime.sql(`insert into public.${table} values (${late})`)
    await slow
    const [changes] = await realtime.newChanges(subscription)
    assert.deepEqual(newOf(changes!), [late, early])
  }
})

test('1 §6 with concurrent writers every change arrives, those of one row in order', async () => {
  const table = await realtime.table('id int primary key, n int', everybody)
  await realtime.rows.ddl(`
    insert into public.${table} select i, 0 from generate_series(1, 4) i;
    create function public.count_up(which int) returns void language sql as $$ update public.${table} set n = n + 1 where id = which $$`)
  const subscription = await realtime.subscribe('anon', { event: 'UPDATE', table })
  const count = async (id: number) => {
    for (let n = 1; n <= 20; n++) {
      const { status, text } = await realtime.rows.post('rpc/count_up', { which: id }, { as: 'service_role' })
      assert.ok(status < 300, text)
    }
  }
  await Promise.all([1, 2, 3, 4, 1].map(count))
  const [changes] = await realtime.newChanges(subscription)
  assert.equal(changes!.length, 100)
  for (const id of [1, 2, 3, 4]) {
    const counts = changes!.filter(change => change.new.id === id).map(change => change.new.n)
    assert.deepEqual(
      counts,
      counts.map((_, i) => i + 1),
    )
  }
})

test('1 §6 a statement on many rows emits an event for each', async () => {
  const table = await realtime.table('id int primary key, n int', everybody)
  const [anon, service] = [
    await realtime.subscribe('anon', { table }),
    await realtime.subscribe('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} select i, 0 from generate_series(1, 1300) i`)
  await realtime.sql(`update public.${table} set n = id where id % 3 = 0`)
  await realtime.sql(`delete from public.${table} where id % 5 = 0`)
  const expected = Array.from({ length: 1300 }, (_, i) => i + 1)
  const sorted = (ids: number[]) => ids.toSorted((a, b) => a - b)
  for (const changes of await realtime.newChanges(anon, service)) {
    const of = (kind: string) => changes.filter(({ eventType }) => eventType === kind)
    assert.deepEqual(newOf(of('INSERT')), expected, 'in their order')
    assert.deepEqual(
      sorted(newOf(of('UPDATE'))),
      expected.filter(id => id % 3 === 0),
    )
    for (const { new: now, old } of of('UPDATE'))
      assert.deepEqual([now.n, old], [now.id, { id: now.id, n: 0 }])
    assert.deepEqual(
      sorted(of('DELETE').map(({ old }) => old.id)),
      expected.filter(id => id % 5 === 0),
    )
  }
})

test('1 §6 a statement that changes no row emits no events', async () => {
  const table = await realtime.table('id int primary key, n int', everybody)
  const subscription = await realtime.subscribe('service_role', { table })
  await realtime.sql(
    `insert into public.${table} select 1, 1 where false; update public.${table} set n = 2; delete from public.${table}`,
  )
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(changes, [])
})

test('1 §6 an upsert emits INSERT for a new row and UPDATE for an existing one', async () => {
  const table = await realtime.table('id int primary key, n int', everybody)
  await realtime.sql(`insert into public.${table} values (1, 1)`)
  const subscription = await realtime.subscribe('anon', { table })
  await realtime.sql(
    `insert into public.${table} values (1, 10), (2, 20) on conflict (id) do update set n = excluded.n`,
  )
  await realtime.sql(`insert into public.${table} values (1, 11) on conflict do nothing`)
  const [changes] = await realtime.newChanges(subscription)
  const events = changes!.map(summary).toSorted((a, b) => a[0].localeCompare(b[0]))
  assert.deepEqual(events, [
    ['INSERT', { id: 2, n: 20 }, null],
    ['UPDATE', { id: 1, n: 10 }, { id: 1, n: 1 }],
  ])
})

test('1 §6 MERGE emits an event for each action', async () => {
  const table = await realtime.table('id int primary key, n int', everybody)
  await realtime.sql(`insert into public.${table} values (1, 1), (2, 2)`)
  const subscription = await realtime.subscribe('anon', { table })
  await realtime.sql(`
    merge into public.${table} t using (values (1, 10), (2, null), (3, 30)) s (id, n) on t.id = s.id
    when matched and s.n is null then delete
    when matched then update set n = s.n
    when not matched then insert values (s.id, s.n)`)
  const [changes] = await realtime.newChanges(subscription)
  const events = changes!.map(summary).toSorted((a, b) => a[0].localeCompare(b[0]))
  assert.deepEqual(events, [
    ['DELETE', null, { id: 2 }],
    ['INSERT', { id: 3, n: 30 }, null],
    ['UPDATE', { id: 1, n: 10 }, { id: 1, n: 1 }],
  ])
})

test('1 §6 changes by WITH, by a foreign key or by a trigger are captured', async () => {
  const parent = await realtime.table('id int primary key', everybody)
  const child = await realtime.table(
    `id int primary key, parent int references public.${parent} on delete cascade`,
    everybody,
  )
  const log = await realtime.table('id int primary key', everybody)
  await realtime.sql(`
    create function public.logged() returns trigger language plpgsql as $$ begin insert into public.${log} values (new.id); return new; end $$;
    create trigger logged after insert on public.${parent} for each row execute function public.logged()`)
  const subscription = await realtime.subscribe('anon', [{ table: parent }, { table: child }, { table: log }])
  await realtime.sql(`insert into public.${parent} values (1)`)
  await realtime.sql(`insert into public.${child} values (10, 1), (11, 1)`)
  await realtime.sql(`delete from public.${parent}`)
  await realtime.sql(
    `with made as (insert into public.${parent} values (2) returning id) insert into public.${child} select 12, null from made`,
  )
  const [changes] = await realtime.newChanges(subscription)
  const events = changes!.map(
    ({ table, eventType, new: now, old }) => `${table} ${eventType} ${(now ?? old).id}`,
  )
  assert.deepEqual(
    events.toSorted(),
    [
      `${parent} INSERT 1`,
      `${log} INSERT 1`,
      `${child} INSERT 10`,
      `${child} INSERT 11`,
      `${parent} DELETE 1`,
      `${child} DELETE 10`,
      `${child} DELETE 11`,
      `${parent} INSERT 2`,
      `${log} INSERT 2`,
      `${child} INSERT 12`,
    ].toSorted(),
  )
})

test('1 §6 rows written over HTTP are captured for every role', async () => {
  const table = await realtime.table('id int primary key, n int', everybody)
  await realtime.rows.ddl('select 1')
  const subscription = await realtime.subscribe(bob, { table })
  const { rows } = realtime
  const good = [
    await rows.post(table, { id: 1, n: 1 }),
    await rows.post(table, [{ id: 2 }, { id: 3 }], { as: ada }),
    await rows.patch(`${table}?id=eq.1`, { n: 2 }, { as: ada }),
    await rows.post(
      `${table}`,
      { id: 1, n: 3 },
      { as: 'service_role', prefer: 'resolution=merge-duplicates' },
    ),
    await rows.delete(`${table}?id=eq.2`),
  ]
  for (const { status, text } of good) assert.ok(status < 300, text)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(changes!.map(summary), [
    ['INSERT', { id: 1, n: 1 }, null],
    ['INSERT', { id: 2, n: null }, null],
    ['INSERT', { id: 3, n: null }, null],
    ['UPDATE', { id: 1, n: 2 }, { id: 1, n: 1 }],
    ['UPDATE', { id: 1, n: 3 }, { id: 1, n: 2 }],
    ['DELETE', null, { id: 2 }],
  ])
})

test('1 §6 rolled back changes are never sent', async () => {
  const table = await realtime.table('id int primary key, n int check (n < 100)', everybody)
  const subscription = await realtime.subscribe('service_role', { table })
  const failing = await realtime.rows.post(
    'rpc/exec_sql',
    { sql: `insert into public.${table} values (1, 1); update public.${table} set n = 2; select 1 / 0` },
    { as: 'service_role' },
  )
  assert.equal(failing.status, 400, failing.text)
  await realtime.sql(`
    do $$ begin
      begin insert into public.${table} values (2, 1), (3, 1); raise 'no'; exception when raise_exception then null; end;
      insert into public.${table} values (4, 1);
      begin insert into public.${table} values (5, 1), (6, 1000); exception when check_violation then null; end;
    end $$`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(newOf(changes!), [4])
})

test('1 §6 rule 10: nothing is replayed to a later or reconnecting subscriber', async () => {
  const table = await realtime.table('id int primary key', everybody)
  const first = await realtime.subscribe('anon', { table })
  await realtime.sql(`insert into public.${table} values (1)`)
  const [changes] = await realtime.newChanges(first)
  assert.deepEqual(newOf(changes!), [1])
  const late = await realtime.subscribe('anon', { table })
  await first.socket.close()
  const again = await realtime.subscribe('anon', { table })
  await realtime.sql(`insert into public.${table} values (2)`)
  for (const newChanges of await realtime.newChanges(late, again)) assert.deepEqual(newOf(newChanges), [2])
})

test('1 §6 a change committed after the ok status is never missed', async () => {
  for (let i = 0; i < 8; i++) {
    const table = await realtime.table('id int primary key', everybody)
    const subscription = await realtime.subscribe('anon', { table })
    await realtime.sql(`insert into public.${table} values (1)`)
    const [changes] = await realtime.newChanges(subscription)
    assert.deepEqual(newOf(changes!), [1])
    await subscription.socket.close()
  }
})

test('1 §6 rule 9: a table is captured again after its last subscriber left and another joins', async () => {
  const table = await realtime.table('id int primary key', everybody)
  for (let id = 1; id <= 3; id++) {
    const subscription = await realtime.subscribe('anon', { table })
    await realtime.sql(`insert into public.${table} values (${id})`)
    const [changes] = await realtime.newChanges(subscription)
    assert.deepEqual(newOf(changes!), [id])
    await subscription.leave()
  }
})

test('1 §6 rule 9: rows of a partitioned table are sent under its name', async () => {
  const table = 'measured'
  await realtime.sql(`
    create table public.${table} (id int, at date, primary key (id, at)) partition by range (at);
    create table public.${table}_2026 partition of public.${table} for values from ('2026-01-01') to ('2027-01-01');
    alter table public.${table} enable row level security;
    create policy everybody on public.${table} for select using (true)`)
  const subscription = await realtime.subscribe('anon', { table })
  await realtime.sql(`insert into public.${table} values (1, '2026-05-05'); delete from public.${table}`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(changes!.map(summary), [
    ['INSERT', { id: 1, at: '2026-05-05' }, null],
    ['DELETE', null, { id: 1, at: '2026-05-05' }],
  ])
})

test('1 §1 another project receives nothing', async () => {
  const other = await realtimeProject(it)
  try {
    const [here, there] = [
      await realtime.table('id int primary key', everybody),
      await other.table('id int primary key', everybody),
    ]
    const [mine, theirs] = [
      await realtime.subscribe('service_role', { schema: '*' }),
      await other.subscribe('service_role', { schema: '*' }),
    ]
    await realtime.sql(`insert into public.${here} values (1)`)
    await other.sql(`insert into public.${there} values (2)`)
    const [[mines], [others]] = [await realtime.newChanges(mine), await other.newChanges(theirs)]
    assert.deepEqual([newOf(mines!), newOf(others!)], [[1], [2]])
  } finally {
    await other.closeAll()
  }
})
