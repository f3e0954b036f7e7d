// 1 §6 rules 3 and 6, faults and attacks 8–10: subscribers are judged together but never for one another.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Listener, newOf, type RealtimeApi, realtimeProject, told, topicOf } from '../realtime.ts'
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
const ids = (seen: Awaited<ReturnType<RealtimeApi['seen']>>) => seen.map(changes => newOf(changes))
const listenAll = (callers: Caller[], table: string, event = '*') =>
  Promise.all(callers.map(as => realtime.listen(as, { event, table })))

test('case 8: a subscriber whose policy raises gets nothing, every other one what is theirs, in any order of joining', async () => {
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
    const listeners = await listenAll(callers, table, 'INSERT')
    const [first, second] = [++row, ++row]
    await realtime.sql(`insert into public.${table} values (${first}, 1), (${second}, 2)`)
    const seen = ids(await realtime.seen(...listeners))
    const expected = callers.map(as => {
      if (as === 'service_role') return [first, second]
      return as === good ? [first] : []
    })
    assert.deepEqual(seen, expected)
    await Promise.all(listeners.map(({ socket }) => socket.close()))
  }
})

test('case 8: of tables whose policies raise for nobody the same subscriber hears as before', async () => {
  const bad = await realtime.table('id int primary key', policy(`(auth.jwt() ->> 'email')::int = id`))
  const fine = await realtime.table('id int primary key', policy('true'))
  const listener = await realtime.listen(ada, [{ table: bad }, { table: fine }])
  await realtime.sql(`insert into public.${bad} values (1); insert into public.${fine} values (1)`)
  await realtime.sql(`insert into public.${fine} values (2)`)
  const [changes] = await realtime.seen(listener)
  assert.deepEqual(
    changes!.map(({ table, new: now }) => [table, now.id]),
    [
      [fine, 1],
      [fine, 2],
    ],
  )
})

test('case 8: a policy that raises for one row alone keeps back that row, and later ones come', async () => {
  const table = await realtime.table('id int primary key, n int', policy('1 / n >= 0'))
  const [adas, service] = await listenAll([ada, 'service_role'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1, 0)`)
  await realtime.sql(`insert into public.${table} values (2, 1)`)
  const seen = await realtime.seen(adas!, service!)
  assert.deepEqual(ids(seen), [[2], [1, 2]])
})

test('case 8: an old row that raises does not stop the others, and is not told', async () => {
  const table = await realtime.table(
    'id int primary key, n int, owner uuid',
    policy('owner = auth.uid() and 1 / n > 0'),
  )
  const [adas, bobs, service] = await listenAll([ada, bob, 'service_role'], table, 'UPDATE')
  await realtime.sql(`insert into public.${table} values (1, 0, '${ada.sub}'), (2, 1, '${bob.sub}')`)
  await realtime.sql(`update public.${table} set n = 1`)
  const [a, b, all] = await realtime.seen(adas!, bobs!, service!)
  for (const { old, new: now } of a!) assert.deepEqual([now?.id, old], [1, null])
  assert.deepEqual(
    b!.map(({ new: now, old }) => [now.id, old.id]),
    [[2, 2]],
  )
  assert.deepEqual(newOf(all!), [1, 2])
})

test('case 9: equal wishes and different claims: each sees their own alone, whatever the order', async () => {
  const table = await realtime.table('id int primary key, kind text, owner uuid', mine)
  const users = Array.from({ length: 12 }, (_, i) => ({ sub: uid(i) }))
  const shuffled = [7, 0, 11, 3, 5, 1, 10, 2, 9, 4, 8, 6].map(i => users[i]!)
  for (const order of [users, users.toReversed(), shuffled]) {
    const listeners = await Promise.all(
      order.map(as => realtime.listen(as, { event: 'INSERT', table, filter: 'kind=eq.x' })),
    )
    const values = users.flatMap(({ sub }, i) => [`(${i}, 'x', '${sub}')`, `(${100 + i}, 'y', '${sub}')`])
    await realtime.sql(`delete from public.${table}; insert into public.${table} values ${values}`)
    const seen = await realtime.seen(...listeners)
    assert.deepEqual(
      ids(seen),
      order.map(user => [users.indexOf(user)]),
    )
    await Promise.all(listeners.map(({ socket }) => socket.close()))
  }
})

test('case 9: one user with different claims is two subscribers', async () => {
  const table = await realtime.table(
    'id int primary key, team text',
    policy(`team = any (array(select jsonb_array_elements_text(auth.jwt() -> 'app_metadata' -> 'teams')))`),
  )
  const withTeams = (...teams: string[]) => ({ ...ada, app_metadata: { teams } })
  const listeners = await listenAll(
    [withTeams('a'), withTeams('b', 'a'), withTeams(), ada, withTeams('b')],
    table,
    'INSERT',
  )
  await realtime.sql(`insert into public.${table} values (1, 'a'), (2, 'b'), (3, 'c')`)
  assert.deepEqual(ids(await realtime.seen(...listeners)), [[1], [1, 2], [], [], [2]])
})

test('case 9: subscribers of one channel name are still apart', async () => {
  const table = await realtime.table('id int primary key, owner uuid', mine)
  const topic = topicOf()
  const wishes = [
    { event: 'INSERT', schema: 'public', table },
    { event: 'INSERT', schema: 'public', table: 'markers' },
  ]
  const listeners: Listener[] = []
  for (const as of [ada, bob, 'anon'] as const) {
    const socket = await realtime.connect({ as })
    const channel = await socket.join(topic, { postgres_changes: wishes })
    await channel.system('ok')
    listeners.push({ ...channel, ids: [] })
  }
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}')`)
  assert.deepEqual(ids(await realtime.seen(...listeners)), [[1], [2], []])
})

test('1 §6 rule 6: a policy may ask other tables', async () => {
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
  const listeners = await listenAll([ada, bob, 'anon'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (10, 1), (20, 2), (30, 3)`)
  assert.deepEqual(ids(await realtime.seen(...listeners)), [[10, 20], [20], []])
})

test('1 §6 rule 6: the table that a policy asks is read as the subscriber may read it', async () => {
  const members = await realtime.table('room int, member uuid')
  const table = await realtime.table('id int primary key, room int')
  await realtime.sql(policy(`room in (select m.room from public.${members} m)`)(table))
  await realtime.sql(`insert into public.${members} values (1, '${ada.sub}')`)
  const listener = await realtime.listen(ada, { table })
  await realtime.sql(`insert into public.${table} values (10, 1)`)
  assert.deepEqual(ids(await realtime.seen(listener)), [[]])
  await realtime.sql(policy('member = auth.uid()')(members))
  await realtime.sql(`insert into public.${table} values (11, 1)`)
  assert.deepEqual(ids(await realtime.seen(listener)), [[11]])
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
test('1 §6 rule 6: a policy may be written in any of the usual forms', async () => {
  await realtime.sql(`
    create function public.is_owner(owner uuid) returns boolean language sql stable as $$ select owner = auth.uid() $$;
    create function public.is_owner_as_owner(owner uuid) returns boolean language plpgsql stable security definer as $$ begin return owner = auth.uid(); end $$`)
  for (const [what, using] of forms) {
    const table = await realtime.table('id int primary key, owner uuid', policy(using))
    const listeners = await listenAll([ada, bob, 'anon'], table, 'INSERT')
    await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}'), (3, null)`)
    assert.deepEqual(ids(await realtime.seen(...listeners)), [[1], [2], []], what)
    await Promise.all(listeners.map(({ socket }) => socket.close()))
  }
})

test('1 §6 rule 6: a policy may judge the row as a whole, or by the name of its table', async () => {
  const table = await realtime.table('id int primary key, owner uuid')
  await realtime.sql(`
    create function public.may_see(it public.${table}) returns boolean language sql stable as $$ select it.owner = auth.uid() $$;
    create policy whole on public.${table} for select to authenticated using (public.may_see(${table}));
    create policy named on public.${table} for select to anon using (${table}.id = 3)`)
  const listeners = await listenAll([ada, bob, 'anon'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}'), (3, null)`)
  assert.deepEqual(ids(await realtime.seen(...listeners)), [[1], [2], [3]])
})

test('1 §6 rule 6: permissive policies add up, restrictive ones narrow', async () => {
  const table = await realtime.table(
    'id int primary key, owner uuid, hidden boolean default false',
    name => `
      ${mine(name)};
      create policy shared on public.${name} for select using (owner is null);
      create policy not_hidden on public.${name} as restrictive for select using (not hidden);
      create policy small on public.${name} as restrictive for select to anon using (id < 10)`,
  )
  const listeners = await listenAll([ada, 'anon', 'service_role'], table, 'INSERT')
  await realtime.sql(
    `insert into public.${table} values (1, '${ada.sub}', false), (2, '${ada.sub}', true), (3, null, false), (4, null, true), (5, '${bob.sub}', false), (11, null, false)`,
  )
  assert.deepEqual(ids(await realtime.seen(...listeners)), [[1, 3, 11], [3], [1, 2, 3, 4, 5, 11]])
})

test('1 §6 rule 6: a restrictive policy alone lets nothing through', async () => {
  const table = await realtime.table(
    'id int primary key',
    name => `create policy alone on public.${name} as restrictive for select using (true)`,
  )
  const listeners = await listenAll([ada, 'anon'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1)`)
  assert.deepEqual(ids(await realtime.seen(...listeners)), [[], []])
})

test('1 §6 rule 6: a policy for one role is none for another; one for all commands counts', async () => {
  const table = await realtime.table(
    'id int primary key',
    name => `
      create policy a on public.${name} for select to anon using (id = 1);
      create policy b on public.${name} for select to authenticated using (id = 2);
      create policy c on public.${name} for all to anon, authenticated using (id = 3) with check (false);
      create policy d on public.${name} to authenticated using (id = 4)`,
  )
  const listeners = await listenAll(['anon', ada], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1), (2), (3), (4)`)
  assert.deepEqual(ids(await realtime.seen(...listeners)), [
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
  const listeners = await listenAll([ada, bob, 'service_role'], table, 'INSERT')
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}')`)
  assert.deepEqual(ids(await realtime.seen(...listeners)), [[1], [2], [1, 2]])
})

test('1 §6 rule 6: a row that is gone by then is judged as it was', async () => {
  const table = await realtime.table('id int primary key, owner uuid, n int', mine)
  const [adas, bobs] = await listenAll([ada, bob], table)
  await realtime.sql(`
    insert into public.${table} values (1, '${ada.sub}', 1);
    update public.${table} set n = 2;
    update public.${table} set owner = '${bob.sub}';
    delete from public.${table}`)
  const [a, b] = await realtime.seen(adas!, bobs!)
  const shown = a!.filter(({ new: now, eventType }) => eventType === 'DELETE' || now !== null)
  assert.deepEqual(shown.map(told), [
    ['INSERT', { id: 1, owner: ada.sub, n: 1 }, null],
    ['UPDATE', { id: 1, owner: ada.sub, n: 2 }, { id: 1, owner: ada.sub, n: 1 }],
    ['DELETE', null, { id: 1 }],
  ])
  assert.deepEqual(b!.map(told), [
    ['UPDATE', { id: 1, owner: bob.sub, n: 2 }, null],
    ['DELETE', null, { id: 1 }],
  ])
})

test('1 §6 rule 6: a row changed again by then is told as it was', async () => {
  const table = await realtime.table('id int primary key, owner uuid, n int', mine)
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 0)`)
  const [adas] = await listenAll([ada], table, 'UPDATE')
  await realtime.sql(Array.from({ length: 5 }, (_, i) => `update public.${table} set n = ${i + 1}`).join(';'))
  const [changes] = await realtime.seen(adas!)
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

test('1 §6 rule 6: columns of every type stand before the policies as they are in the table', async () => {
  const table = await realtime.table(
    `id int primary key, doc jsonb, tags text[], at timestamptz, price numeric, big bigint, raw json, bin bytea, nothing text`,
    policy(`doc ->> 'who' = auth.email() and 'x' = any (tags) and at < now() + interval '1 day' and price = 10.50
      and big = 9007199254740993 and raw ->> 'a' = '1' and bin = '\\xdead'::bytea and nothing is null`),
  )
  const listeners = await listenAll([ada, bob], table, 'INSERT')
  await realtime.sql(
    `insert into public.${table} values (1, '{"who": "${ada.email}"}', '{x,y}', now(), 10.5, 9007199254740993, '{"a":1}', '\\xdead', null)`,
  )
  assert.deepEqual(ids(await realtime.seen(...listeners)), [[1], []])
})

test('1 §6 rule 6: values of every kind stand before the policies exactly as they are stored', async () => {
  const table =
    await realtime.table(`id int primary key, body text, list text[], nested int[][], doc json, docb jsonb, f8 float8, f4 float4, num numeric,
    at timestamptz, plain timestamp, day date, span interval, bin bytea, fixed char(5), bits bit varying, spot point, path path, rel regclass, range tstzrange, words tsvector,
    cost money, net inet, key uuid, pair public.markers, pairs public.markers[], is_it boolean`)
  await realtime.sql(`
    create function public.is_as_stored(it public.${table}) returns boolean language sql stable security definer as $$
      select exists (select from public.${table} x where x.id = it.id and x::text = it::text and row_to_json(x)::text = row_to_json(it)::text) $$;
    create policy exact on public.${table} for select using (public.is_as_stored(${table}))`)
  const [adas] = await listenAll([ada], table, 'INSERT')
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
  assert.deepEqual(ids(await realtime.seen(adas!)), [texts.map((_, id) => id)])
})

test('case 7: what a policy does to the session is gone when the next change is judged', async () => {
  const table = await realtime.table('id int primary key')
  await realtime.sql(`
    create function public.noisy(id int) returns boolean language plpgsql volatile as $$ begin
      perform set_config('request.jwt.claims', '{"sub":"${bob.sub}","role":"service_role"}', false);
      return true;
    end $$;
    ${policy('public.noisy(id)')(table)}`)
  const owned = await realtime.table('id int primary key, owner uuid', mine)
  const listeners = await Promise.all(
    ([ada, bob, 'anon'] as const).map(as =>
      realtime.listen(as, [{ table }, { event: 'INSERT', table: owned }]),
    ),
  )
  for (let i = 0; i < 3; i++) {
    await realtime.sql(`insert into public.${table} values (${i})`)
    await realtime.seen(...listeners)
    await realtime.sql(
      `delete from public.${owned}; insert into public.${owned} values (1, '${ada.sub}'), (2, '${bob.sub}')`,
    )
    assert.deepEqual(ids(await realtime.seen(...listeners)), [[1], [2], []])
  }
})
