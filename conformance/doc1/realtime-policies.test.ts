// 1 §6 rules 3 and 6, faults and attacks 8–10: policies are checked for many subscribers at once, each with its own claims.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newOf, type RealtimeApi, realtimeProject, type Subscription, summary, topicOf } from '../realtime.ts'
import type { Caller } from '../rows.ts'
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

const uid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
const mine = (table: string) => `create policy mine on public.${table} for select using (owner = auth.uid())`
const policy =
  (using: string, to = 'public') =>
  (table: string) =>
    `create policy p_${Math.random().toString(36).slice(2)} on public.${table} for select to ${to} using (${using})`
const ids = (newChanges: Awaited<ReturnType<RealtimeApi['newChanges']>>) =>
  newChanges.map(changes => newOf(changes))
const subscribeAll = (callers: Caller[], table: string, event = '*') =>
  Promise.all(callers.map(as => realtime.subscribe(as, { event, table })))

test('case 8: a subscriber whose policy raises gets nothing, the others get their rows, in any order of joining', async () => {
  const table = await realtime.table(
    'id int primary key, tenant int',
    policy(`tenant = (auth.jwt() ->> 'tenant')::int`),
  )
  const good = { ...ada, tenant: '1' }
  const raising = { ...bob, tenant: 'one' }
  let row = 0
  for (const callers of [
    [raising, good, 'service_role'],
    [good, raising, 'service_role'],
    ['service_role', good, raising],
    [good, 'service_role', raising, good, raising],
  ] as Caller[][]) {
    const subscriptions = await subscribeAll(callers, table, 'INSERT')
    const [first, second] = [++row, ++row]
    await realtime.sql(`insert into public.${table} values (${first}, 1), (${second}, 2)`)
    const newChanges = ids(await realtime.newChanges(...subscriptions))
    const expected = callers.map(as => {
      if (as === 'service_role') return [first, second]
      return as === good ? [first] : []
    })
    assert.deepEqual(newChanges, expected)
    await Promise.all(subscriptions.map(({ socket }) => socket.close()))
  }
})

test('case 8: a subscriber whose policy raises on one table still receives other tables', async () => {
  const bad = await realtime.table('id int primary key', policy(`(auth.jwt() ->> 'email')::int = id`))
  const fine = await realtime.table('id int primary key', policy('true'))
  const subscription = await realtime.subscribe(ada, [{ table: bad }, { table: fine }])
  await realtime.sql(`insert into public.${bad} values (1); insert into public.${fine} values (1)`)
  await realtime.sql(`insert into public.${fine} values (2)`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(
    changes!.map(({ table, new: now }) => [table, now.id]),
    [
      [fine, 1],
      [fine, 2],
    ],
  )
})

test('case 8: a policy that raises for one row withholds only that row', async () => {
  const table = await realtime.table('id int primary key, n int', policy('1 / n >= 0'))
  const [adas, service] = await subscribeAll([ada, 'service_role'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1, 0)`)
  await realtime.sql(`insert into public.${table} values (2, 1)`)
  const newChanges = await realtime.newChanges(adas!, service!)
  assert.deepEqual(ids(newChanges), [[2], [1, 2]])
})

test('case 8: an old row on which the policy raises is omitted, and does not affect others', async () => {
  const table = await realtime.table(
    'id int primary key, n int, owner uuid',
    policy('owner = auth.uid() and 1 / n > 0'),
  )
  const [adas, bobs, service] = await subscribeAll([ada, bob, 'service_role'], table, 'UPDATE')
  await realtime.sql(`insert into public.${table} values (1, 0, '${ada.sub}'), (2, 1, '${bob.sub}')`)
  await realtime.sql(`update public.${table} set n = 1`)
  const [a, b, all] = await realtime.newChanges(adas!, bobs!, service!)
  for (const { old, new: now } of a!) assert.deepEqual([now?.id, old], [1, null])
  assert.deepEqual(
    b!.map(({ new: now, old }) => [now.id, old.id]),
    [[2, 2]],
  )
  assert.deepEqual(newOf(all!), [1, 2])
})

test('case 9: with equal bindings and different claims each subscriber sees only its own rows, in any order', async () => {
  const table = await realtime.table('id int primary key, kind text, owner uuid', mine)
  const users = Array.from({ length: 12 }, (_, i) => ({ sub: uid(i) }))
  const shuffled = [7, 0, 11, 3, 5, 1, 10, 2, 9, 4, 8, 6].map(i => users[i]!)
  for (const order of [users, users.toReversed(), shuffled]) {
    const subscriptions = await Promise.all(
      order.map(as => realtime.subscribe(as, { event: 'INSERT', table, filter: 'kind=eq.x' })),
    )
    const values = users.flatMap(({ sub }, i) => [`(${i}, 'x', '${sub}')`, `(${100 + i}, 'y', '${sub}')`])
    await realtime.sql(`delete from public.${table}; insert into public.${table} values ${values}`)
    const newChanges = await realtime.newChanges(...subscriptions)
    assert.deepEqual(
      ids(newChanges),
      order.map(user => [users.indexOf(user)]),
    )
    await Promise.all(subscriptions.map(({ socket }) => socket.close()))
  }
})

test('case 9: one user with different claims is two subscribers', async () => {
  const table = await realtime.table(
    'id int primary key, team text',
    policy(`team = any (array(select jsonb_array_elements_text(auth.jwt() -> 'app_metadata' -> 'teams')))`),
  )
  const withTeams = (...teams: string[]) => ({ ...ada, app_metadata: { teams } })
  const subscriptions = await subscribeAll(
    [withTeams('a'), withTeams('b', 'a'), withTeams(), ada, withTeams('b')],
    table,
    'INSERT',
  )
  await realtime.sql(`insert into public.${table} values (1, 'a'), (2, 'b'), (3, 'c')`)
  assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[1], [1, 2], [], [], [2]])
})

test('case 9: subscribers on the same topic are checked separately', async () => {
  const table = await realtime.table('id int primary key, owner uuid', mine)
  const topic = topicOf()
  const bindings = [
    { event: 'INSERT', schema: 'public', table },
    { event: 'INSERT', schema: 'public', table: 'markers' },
  ]
  const subscriptions: Subscription[] = []
  for (const as of [ada, bob, 'anon'] as const) {
    const socket = await realtime.connect({ as })
    const channel = await socket.join(topic, { postgres_changes: bindings })
    await channel.system('ok')
    subscriptions.push({ ...channel, ids: [] })
  }
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}')`)
  assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[1], [2], []])
})

test('1 §6 rule 6: a policy may query other tables', async () => {
  const members = await realtime.table('room int, member uuid', policy('member = auth.uid()'))
  const table = await realtime.table('id int primary key, room int')
  await realtime.sql(
    policy(`exists (select from public.${members} m where m.room = ${table}.room and m.member = auth.uid())`)(
      table,
    ),
  )
  await realtime.sql(
    `insert into public.${members} values (1, '${ada.sub}'), (2, '${ada.sub}'), (2, '${bob.sub}')`,
  )
  const subscriptions = await subscribeAll([ada, bob, 'anon'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (10, 1), (20, 2), (30, 3)`)
  assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[10, 20], [20], []])
})

test('1 §6 rule 6: a policy reads other tables with the permissions of the subscriber', async () => {
  const members = await realtime.table('room int, member uuid')
  const table = await realtime.table('id int primary key, room int')
  await realtime.sql(policy(`room in (select m.room from public.${members} m)`)(table))
  await realtime.sql(`insert into public.${members} values (1, '${ada.sub}')`)
  const subscription = await realtime.subscribe(ada, { table })
  await realtime.sql(`insert into public.${table} values (10, 1)`)
  assert.deepEqual(ids(await realtime.newChanges(subscription)), [[]])
  await realtime.sql(policy('member = auth.uid()')(members))
  await realtime.sql(`insert into public.${table} values (11, 1)`)
  assert.deepEqual(ids(await realtime.newChanges(subscription)), [[11]])
})

const forms: [string, string][] = [
  ['(select auth.uid())', 'owner = (select auth.uid())'],
  ['the claims themselves', `owner::text = (current_setting('request.jwt.claims', true)::jsonb ->> 'sub')`],
  ['a claim of its own setting', `owner::text = current_setting('request.user_id', true)`],
  ['a function of its own', 'public.is_owner(owner)'],
  ['a function of the owner', 'public.is_owner_as_owner(owner)'],
  ['a case', 'case when auth.uid() is null then false else owner = auth.uid() end'],
  ['a list', 'auth.uid() = any (array[owner])'],
  ['null, which is not true', 'case when owner = auth.uid() then true end'],
]
test('1 §6 rule 6: a policy may have any of the usual forms', async () => {
  await realtime.sql(`
    create function public.is_owner(owner uuid) returns boolean language sql stable as $$ select owner = auth.uid() $$;
    create function public.is_owner_as_owner(owner uuid) returns boolean language plpgsql stable security definer as $$ begin return owner = auth.uid(); end $$`)
  for (const [what, using] of forms) {
    const table = await realtime.table('id int primary key, owner uuid', policy(using))
    const subscriptions = await subscribeAll([ada, bob, 'anon'], table, 'INSERT')
    await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}'), (3, null)`)
    assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[1], [2], []], what)
    await Promise.all(subscriptions.map(({ socket }) => socket.close()))
  }
})

test('1 §6 rule 6: a policy may use the whole row, or the name of its table', async () => {
  const table = await realtime.table('id int primary key, owner uuid')
  await realtime.sql(`
    create function public.may_see(it public.${table}) returns boolean language sql stable as $$ select it.owner = auth.uid() $$;
    create policy whole on public.${table} for select to authenticated using (public.may_see(${table}));
    create policy named on public.${table} for select to anon using (${table}.id = 3)`)
  const subscriptions = await subscribeAll([ada, bob, 'anon'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}'), (3, null)`)
  assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[1], [2], [3]])
})

test('1 §6 rule 6: permissive policies combine with OR, restrictive ones with AND', async () => {
  const table = await realtime.table(
    'id int primary key, owner uuid, hidden boolean default false',
    name => `
      ${mine(name)};
      create policy shared on public.${name} for select using (owner is null);
      create policy not_hidden on public.${name} as restrictive for select using (not hidden);
      create policy small on public.${name} as restrictive for select to anon using (id < 10)`,
  )
  const subscriptions = await subscribeAll([ada, 'anon', 'service_role'], table, 'INSERT')
  await realtime.sql(
    `insert into public.${table} values (1, '${ada.sub}', false), (2, '${ada.sub}', true), (3, null, false), (4, null, true), (5, '${bob.sub}', false), (11, null, false)`,
  )
  assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[1, 3, 11], [3], [1, 2, 3, 4, 5, 11]])
})

test('1 §6 rule 6: a restrictive policy alone shows nothing', async () => {
  const table = await realtime.table(
    'id int primary key',
    name => `create policy alone on public.${name} as restrictive for select using (true)`,
  )
  const subscriptions = await subscribeAll([ada, 'anon'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1)`)
  assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[], []])
})

test('1 §6 rule 6: a policy applies only to its role, and FOR ALL includes SELECT', async () => {
  const table = await realtime.table(
    'id int primary key',
    name => `
      create policy a on public.${name} for select to anon using (id = 1);
      create policy b on public.${name} for select to authenticated using (id = 2);
      create policy c on public.${name} for all to anon, authenticated using (id = 3) with check (false);
      create policy d on public.${name} to authenticated using (id = 4)`,
  )
  const subscriptions = await subscribeAll(['anon', ada], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1), (2), (3), (4)`)
  assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [
    [1, 3],
    [2, 3, 4],
  ])
})

test('1 §6 rule 6: forced row-level security changes nothing for subscribers', async () => {
  const table = await realtime.table(
    'id int primary key, owner uuid',
    name => `${mine(name)}; alter table public.${name} force row level security;
      create policy writer on public.${name} for all to current_user using (true) with check (true)`,
  )
  const subscriptions = await subscribeAll([ada, bob, 'service_role'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}')`)
  assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[1], [2], [1, 2]])
})

test('1 §6 rule 6: a row deleted before delivery is checked as it was', async () => {
  const table = await realtime.table('id int primary key, owner uuid, n int', mine)
  const [adas, bobs] = await subscribeAll([ada, bob], table)
  await realtime.sql(`
    insert into public.${table} values (1, '${ada.sub}', 1);
    update public.${table} set n = 2;
    update public.${table} set owner = '${bob.sub}';
    delete from public.${table}`)
  const [a, b] = await realtime.newChanges(adas!, bobs!)
  const shown = a!.filter(({ new: now, eventType }) => eventType === 'DELETE' || now !== null)
  assert.deepEqual(shown.map(summary), [
    ['INSERT', { id: 1, owner: ada.sub, n: 1 }, null],
    ['UPDATE', { id: 1, owner: ada.sub, n: 2 }, { id: 1, owner: ada.sub, n: 1 }],
    ['DELETE', null, { id: 1 }],
  ])
  assert.deepEqual(b!.map(summary), [
    ['UPDATE', { id: 1, owner: bob.sub, n: 2 }, null],
    ['DELETE', null, { id: 1 }],
  ])
})

test('1 §6 rule 6: a row changed again before delivery is sent as it was', async () => {
  const table = await realtime.table('id int primary key, owner uuid, n int', mine)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 0)`)
  const [adas] = await subscribeAll([ada], table, 'UPDATE')
  await realtime.sql(Array.from({ length: 5 }, (_, i) => `update public.${table} set n = ${i + 1}`).join(';'))
  const [changes] = await realtime.newChanges(adas!)
  assert.deepEqual(
    changes!.map(({ new: now, old }) => [old.n, now.n]),
    [
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 4],
      [4, 5],
    ],
  )
})

test('1 §6 rule 6: policies see columns of every type as in the table', async () => {
  const table = await realtime.table(
    `id int primary key, doc jsonb, tags text[], at timestamptz, price numeric, big bigint, raw json, bin bytea, nothing text`,
    policy(`doc ->> 'who' = auth.email() and 'x' = any (tags) and at < now() + interval '1 day' and price = 10.50
      and big = 9007199254740993 and raw ->> 'a' = '1' and bin = '\\xdead'::bytea and nothing is null`),
  )
  const subscriptions = await subscribeAll([ada, bob], table, 'INSERT')
  await realtime.sql(
    `insert into public.${table} values (1, '{"who": "${ada.email}"}', '{x,y}', now(), 10.5, 9007199254740993, '{"a":1}', '\\xdead', null)`,
  )
  assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[1], []])
})

test('1 §6 rule 6: policies see values of every kind exactly as stored', async () => {
  const table =
    await realtime.table(`id int primary key, body text, list text[], nested int[][], doc json, docb jsonb, f8 float8, f4 float4, num numeric,
    at timestamptz, plain timestamp, day date, span interval, bin bytea, fixed char(5), bits bit varying, spot point, path path, rel regclass, range tstzrange, words tsvector,
    cost money, net inet, key uuid, pair public.markers, pairs public.markers[], is_it boolean`)
  await realtime.sql(`
    create function public.is_as_stored(it public.${table}) returns boolean language sql stable security definer as $$
      select exists (select from public.${table} x where x.id = it.id and x::text = it::text and row_to_json(x)::text = row_to_json(it)::text) $$;
    create policy exact on public.${table} for select using (public.is_as_stored(${table}))`)
  const [adas] = await subscribeAll([ada], table, 'INSERT')
  const texts = [
    `''`,
    `' '`,
    `'null'`,
    `'NULL'`,
    `null`,
    `'"'`,
    `'""'`,
    `'\\'`,
    `'a\\"b'`,
    `'(a,b)'`,
    `'{x}'`,
    `E'line\\nbreak\\t\\u0001'`,
    `'漢 🙂 e\u0301'`,
  ]
  for (const [id, text] of texts.entries())
    await realtime.sql(`insert into public.${table} values (${id}, ${text}, array[${text}, 'x', null], '{{1,2},{3,null}}', '{"a":  1, "a": 2}', '{"n": 1234567890.12345678901234567890}',
      0.1::float8 + 0.2, 1.1::float4, 1.10, case ${id} % 3 when 0 then 'infinity' else now() end, 'now', '0044-03-15 BC', '-1 year 2 days -03:04:05.678', '\\x00ff5c27', 'ab', '101',
      '(1.5,-2)', '[(0,0),(1,1)]', 'public.markers', '[2026-01-01,)', 'a fat cat', '12.34', '10.0.0.1/8', '${ada.sub}', row(1), array[row(2)::public.markers, null], ${id} % 2 = 0)`)
  assert.deepEqual(ids(await realtime.newChanges(adas!)), [texts.map((_, id) => id)])
})

test('case 7: session changes by a policy do not affect the next check', async () => {
  const table = await realtime.table('id int primary key')
  await realtime.sql(`
    create function public.noisy(id int) returns boolean language plpgsql volatile as $$ begin
      perform set_config('request.jwt.claims', '{"sub":"${bob.sub}","role":"service_role"}', false);
      return true;
    end $$;
    ${policy('public.noisy(id)')(table)}`)
  const owned = await realtime.table('id int primary key, owner uuid', mine)
  const subscriptions = await Promise.all(
    ([ada, bob, 'anon'] as const).map(as =>
      realtime.subscribe(as, [{ table }, { event: 'INSERT', table: owned }]),
    ),
  )
  for (let i = 0; i < 3; i++) {
    await realtime.sql(`insert into public.${table} values (${i})`)
    await realtime.newChanges(...subscriptions)
    await realtime.sql(
      `delete from public.${owned}; insert into public.${owned} values (1, '${ada.sub}'), (2, '${bob.sub}')`,
    )
    assert.deepEqual(ids(await realtime.newChanges(...subscriptions)), [[1], [2], []])
  }
})
