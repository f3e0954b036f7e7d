// What hostile subscribers and hostile owners of a project do with live changes: to hear what is not theirs, to make others
// hear nothing, to break writes, to stop the platform.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { watchAbandoned } from '#src/kernel/postgres/abandoned.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { createGate } from '#src/services/realtime/changes/gate.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { createGatePools } from '#src/tenancy/gate-pools.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { until } from '#test/cache-project.ts'
import { createRandom } from '#test/fuzz/random.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { promptly } from '#test/promptly.ts'
import { behind, everybodyStops, isTold, type Listening, listen } from '#test/realtime-listener.ts'
import { RawSocket } from '#test/realtime-raw.ts'

let platform: TestPlatform

before(async () => {
  platform = await startPlatform()
})
after(async () => {
  await everybodyStops()
  await platform.stop()
})

async function projectWith(script = '') {
  const project = await platform.createProject()
  const database = await behind(platform, project)
  await database.run(`
    create table notes (id int primary key, text text);
    create policy everybody on notes for select using (true);
    ${script}`)
  return { project, database }
}

const as = ({ jwt_secret: secret }: CreatedProject, name: string) =>
  signJwt({ role: 'authenticated', sub: randomUUID(), name }, secret)

/** Somebody who asks for whatever he likes. */
async function intruder(
  project: CreatedProject,
  wishes: object[],
  topic = 'realtime:intruder',
  node = platform,
) {
  const socket = await RawSocket.open(node, project)
  const ref = socket.push(topic, 'phx_join', { config: { postgres_changes: wishes } })
  return { socket, ref, topic }
}

const hears = (one: Listening, what: string, seconds = 60) =>
  until(`${what} is heard (told: ${one.told})`, async () => one.heard.includes(what), seconds)

const wish = (more: object) => ({ event: '*', schema: 'public', ...more })

for (const [what, name] of Object.entries({ 'a NUL': 'a\0b', 'half of a pair': 'a\ud800' }))
  for (const field of ['table', 'schema', 'filter'])
    test(`${what} in the name of a ${field} costs nobody else anything`, async () => {
      const { project, database } = await projectWith()
      const good = await listen(platform, project, { table: 'notes' })
      const { socket } = await intruder(project, [
        wish({ table: 'notes', filter: 'text=eq.a', [field]: name }),
      ])
      await new Promise(resolve => setTimeout(resolve, 500))
      await database.run('insert into notes values (1)')
      await hears(good, 'INSERT 1')
      const late = await listen(platform, project, { table: 'notes' })
      await database.run('insert into notes values (2)')
      await hears(late, 'INSERT 2')
      await hears(good, 'INSERT 2')
      assert.deepEqual(
        good.told.filter(each => each.startsWith('error')),
        [],
      )
      await socket.close()
      await good.leave()
      await late.leave()
    })

test('a wish that reads like that for another table takes nothing from who listens to it', async () => {
  const { project, database } = await projectWith(
    'create table "order items" (id int primary key); create policy everybody on "order items" for select using (true)',
  )
  const one = await listen(platform, project, { table: 'order items' })
  const { socket, topic } = await intruder(project, [{ event: '*', schema: 'public order', table: 'items' }])
  await socket.event(topic, 'system')
  await database.run('insert into "order items" values (1)')
  await hears(one, 'INSERT 1')
  await socket.close()
})

test('a cast of the tenant breaks no write while somebody listens', async () => {
  const { project, database } = await projectWith(`
    create type mood as enum ('good', 'bad');
    create table words (mood mood, word text);
    insert into words values ('good', 'well');
    create function mood_json(mood) returns json language sql as
      $$ select to_json(word) from words w where w.mood = $1 $$;
    create cast (mood as json) with function mood_json(mood);
    create table days (id int primary key, mood mood);
    create policy everybody on days for select using (true)`)
  const one = await listen(platform, project, { table: 'days' })
  await database.run(`insert into days values (1, 'good')`)
  await database.run(`update days set mood = 'bad'; delete from days`)
  await one.leave()
})

test('a cast to text is not run where changes are noted, and generated columns break nothing there', async () => {
  const { project, database } = await projectWith(`
    create type mood as enum ('good', 'bad');
    create table ran (who text);
    create function mood_json(mood) returns json language sql as $$ select '1'::json $$;
    create cast (mood as json) with function mood_json(mood);
    create function mood_text(mood) returns text language plpgsql as
      $$ begin raise 'run as %', current_user; end $$;
    create cast (mood as text) with function mood_text(mood);
    create table days (id int primary key, mood mood, moods mood[], large text);
    create policy everybody on days for select using (true);
    create table made (id int primary key, large text, twice int generated always as (id * 2));
    create policy everybody on made for select using (true)`)
  const one = await listen(platform, project)
  await database.run(
    `insert into days values (1, 'good', '{good,bad}'), (2, null, null); update days set mood = 'bad'; delete from days where id = 2`,
  )
  await database.run(
    `insert into made values (10); insert into made values (11, repeat('x', 3000000)); update made set id = id + 10; delete from made`,
  )
  await hears(one, 'INSERT 1')
  await hears(one, 'INSERT 10')
  await hears(one, 'DELETE 20')
  await one.leave()
})

test('strange tables are written to while somebody listens', async () => {
  const { project, database } = await projectWith(`
    create table nothing ();
    create table parted (id int, at date, primary key (id, at)) partition by range (at);
    create table parted_a partition of parted for values from ('2020-01-01') to ('2021-01-01');
    create table parted_b (at date not null, gone int, id int not null, primary key (id, at));
    alter table parted_b drop column gone;
    alter table parted attach partition parted_b for values from ('2021-01-01') to ('2022-01-01');
    create table parent (id int primary key, a text);
    create table child (b text) inherits (parent);
    create type pair as (a int, b text);
    create domain small as int check (value < 10);
    create domain pairs as pair[];
    create table shapes (id int primary key generated by default as identity, p pair, ps pair[], s small, r int4range,
      mr int4multirange, x xml, t tsvector, g int generated always as (id * 2) stored, c "char", rc regclass, m money, iv interval, ts timestamptz);
    create unlogged table quick (id int primary key);
    create table "Weird ""name'; --" (id int primary key, "col ""umn'" text);
    create view seen as select * from notes;
    create function instead() returns trigger language plpgsql as $$ begin insert into notes values (new.id, new.text); return new; end $$;
    create trigger instead instead of insert on seen for each row execute function instead();
    create table chained (id int primary key, up int references chained on delete cascade on update cascade deferrable initially deferred);
    alter table notes force row level security;
    create policy owner on notes for all using (true)`)
  const one = await listen(platform, project)
  await database.run(`
    insert into nothing default values; delete from nothing;
    insert into parted values (1, '2020-02-02'), (2, '2021-02-02'); update parted set at = '2021-03-03' where id = 1;
    insert into parted_b values ('2021-05-05', 3); delete from parted;
    insert into parent values (1, 'a'); insert into child values (2, 'b', 'c'); update parent set a = 'z'; delete from parent;
    insert into shapes (p, ps, s, r, mr, x, t, c, rc, m, iv, ts) values ((1, 'x,"'), array[(1, 'a')::pair], 3, '[1,2]', '{[1,2]}', '<a/>', 'a b', 'x', 'notes', 5, '1 day', 'infinity');
    insert into quick values (1); update quick set id = 2; truncate quick;
    insert into "Weird ""name'; --" values (1, 'x');
    insert into seen values (1, 'by the view');
    insert into notes values (1, 'again') on conflict (id) do update set text = excluded.text;
    insert into notes values (1, 'again') on conflict (id) do nothing;
    merge into notes n using (values (1, 'm'), (7, 'n')) v (id, text) on n.id = v.id when matched then update set text = v.text when not matched then insert values (v.id, v.text);
    insert into chained values (1, 2), (2, 1); update chained set id = id + 10; delete from chained;
    alter table notes rename to renamed; insert into renamed values (8); alter table renamed rename to notes;
    alter table notes add column extra int default 3; insert into notes values (9); alter table notes drop column text cascade; insert into notes values (10);
    create schema elsewhere; alter table quick set schema elsewhere; insert into elsewhere.quick values (5); alter table elsewhere.quick set schema public; insert into quick values (6);
    alter table shapes alter s type text; insert into shapes (id, s) values (50, 'abc');
    create temporary table passing (id int); insert into passing values (1)`)
  await hears(one, 'INSERT 10')
  await one.leave()
})

test('a transaction that began long ago is heard like any other', async () => {
  const { project, database } = await projectWith()
  await platform.asSuperuser(database.ref, async early => {
    await early.script('begin isolation level repeatable read; select 1 from public.notes')
    const one = await listen(platform, project, { table: 'notes' })
    await early.script('insert into public.notes values (1); commit')
    await database.run('insert into notes values (2)')
    await hears(one, 'INSERT 2')
    assert.deepEqual(one.heard, ['INSERT 1', 'INSERT 2'])
    await one.leave()
  })
})

test('a neighbour with an open transaction keeps nothing in the outboxes of others', async () => {
  const { project, database } = await projectWith()
  const neighbour = await projectWith()
  await platform.asSuperuser(neighbour.database.ref, async open => {
    await open.script('begin; insert into public.notes values (1)')
    const one = await listen(platform, project, { table: 'notes' })
    await database.run('insert into notes select generate_series(1, 50)')
    await hears(one, 'INSERT 50')
    await until(
      'the outbox is empty',
      async () => (await database.look('select 1 from platform.changes')).length === 0,
      50,
    )
    await one.leave()
  })
})

test('a tenant that takes the lock of the switch holds up nobody but itself', async () => {
  const { project, database } = await projectWith()
  const other = await projectWith()
  const second = await startPlatform({ beside: platform })
  await platform.asSuperuser(database.ref, async open => {
    await open.script(`set role ${database.ref}_owner; select pg_advisory_lock(hashtext('plinth: capture'))`)
    const { socket, ref } = await intruder(project, [wish({ table: 'notes' })], 'realtime:intruder', second)
    const one = await listen(platform, other.project, { table: 'notes' })
    await other.database.run('insert into notes values (1)')
    await hears(one, 'INSERT 1')
    assert.equal((await socket.answer(ref)).status, 'ok')
    await socket.close()
    await one.leave()
    const stopped = await Promise.race([second.stop().then(() => true), sleep(20_000)])
    assert.ok(stopped, 'the platform can be stopped')
  })
})

test('a transaction that holds one table keeps nobody from listening to another', async () => {
  const { project, database } = await projectWith(`
    create table held (id int primary key);
    create policy everybody on held for select using (true)`)
  await platform.asSuperuser(database.ref, async open => {
    await open.script('begin; insert into public.held values (1)')
    const { socket } = await intruder(project, [wish({ table: 'held' })])
    const one = await listen(platform, project, { table: 'notes' })
    await database.run('insert into notes values (1)')
    await hears(one, 'INSERT 1')
    await open.script('rollback')
    await socket.close()
    await one.leave()
  })
})

test('a tenant that spoils the table of messages spoils no row changes', async () => {
  const { project, database } = await projectWith(`
    insert into realtime.messages (topic, extension, inserted_at) values ('old', 'broadcast', now() - interval '80 hours');
    create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
    create trigger refuse before delete on realtime.messages for each row execute function refuse()`)
  const one = await listen(platform, project, { table: 'notes' })
  for (let id = 1; id < 6; id++) {
    await database.run(`insert into notes values (${id})`)
    await hears(one, `INSERT ${id}`)
    await sleep(300)
  }
  assert.deepEqual(
    one.told.filter(each => each.startsWith('error')),
    [],
  )
  await one.leave()
})

test('a project without a table of messages hears of its rows', async () => {
  const { project, database } = await projectWith('drop table realtime.messages')
  const one = await listen(platform, project, { table: 'notes' })
  for (let id = 1; id < 4; id++) {
    await database.run(`insert into notes values (${id})`)
    await hears(one, `INSERT ${id}`)
    await sleep(300)
  }
  await one.leave()
})

test('a subscriber who asks for much does not keep others waiting', async () => {
  const { project, database } = await projectWith('alter table notes add column at timestamptz default now()')
  const one = await listen(platform, project, { table: 'notes' })
  const many = Array.from({ length: 50 }, (_, place) =>
    wish({
      table: 'notes',
      filter: Array.from({ length: 20 }, (__, at) => `at=gt.2020-01-01 ${place % 24}:${at}:00`).join(),
    }),
  )
  const { socket } = await intruder(project, many)
  for (let at = 0; at < 10; at++)
    socket.push(`realtime:more ${at}`, 'phx_join', { config: { postgres_changes: many } })
  await socket.settled()
  await database.run('insert into notes values (1)')
  await hears(one, 'INSERT 1', 10)
  await socket.close()
  await one.leave()
})

test('filters that take for ever hold up nobody else', async () => {
  const { project, database } = await projectWith()
  const one = await listen(platform, project, { table: 'notes' })
  const slow = Array.from({ length: 30 }, (_, at) =>
    wish({ table: 'notes', filter: `text=match.^(a+)(a+)(a+)\\1\\2\\3${at}?$` }),
  )
  const { socket, topic } = await intruder(project, slow)
  await socket.event(topic, 'system')
  await database.run(`insert into notes values (1, repeat('a', 1001))`)
  await hears(one, 'INSERT 1', 10)
  await socket.close()
  await one.leave()
})

test('a row is judged by its generated columns, too', async t => {
  const [server] = await platform.asSuperuser('postgres', session =>
    session.rows<{ version: number }>(raw(`select current_setting('server_version_num')::int as version`)),
  )
  if (server!.version < 180_000) return t.diagnostic('there are only stored ones')
  const { project, database } = await projectWith(`
    create table secrets (id int primary key, is_secret bool generated always as (id > 5) virtual);
    create policy most on secrets for select using (is_secret is not true)`)
  const one = await listen(platform, project, { table: 'secrets' })
  await database.run('insert into secrets values (7); insert into secrets values (1)')
  await hears(one, 'INSERT 1')
  assert.deepEqual(one.heard, ['INSERT 1'])
  await one.leave()
})

test('joins of one subscriber do not make others lose changes', async () => {
  const { project, database } = await projectWith(`
    create policy all_topics on realtime.messages for select using (pg_sleep(0.05) is not null)`)
  const one = await listen(platform, project, { table: 'notes' })
  const sockets = await Promise.all(Array.from({ length: 4 }, () => RawSocket.open(platform, project)))
  for (const socket of sockets)
    for (let at = 0; at < 99; at++)
      socket.push(`realtime:private ${at}`, 'phx_join', { config: { private: true } })
  for (let id = 1; id < 20; id++) {
    await database.run(`insert into notes values (${id})`)
    await sleep(50)
  }
  await sleep(4000)
  await database.run('insert into notes values (100)')
  await hears(one, 'INSERT 100')
  assert.deepEqual(
    one.told.filter(each => each.startsWith('error')),
    [],
  )
  assert.equal(one.heard.length, 20)
  await Promise.all(sockets.map(socket => socket.close()))
  await one.leave()
})

test('a policy that cannot be cancelled holds up its own project at most', async () => {
  const { project, database } = await projectWith(`
    create function stay() returns boolean language plpgsql as $$
    begin
      for i in 1..100 loop
        begin perform pg_sleep(60); exception when query_canceled then null; end;
      end loop;
      return true;
    end $$;
    create table stuck (id int primary key);
    create policy stay on stuck for select using (stay())`)
  const second = await startPlatform({ beside: platform })
  const one = await listen(second, project, { table: 'stuck' })
  const other = await listen(second, project, { table: 'notes' })
  await database.run('insert into stuck values (1)')
  await sleep(3000)
  await database.run('insert into notes values (1)')
  const isHeard = await hears(other, 'INSERT 1', 15).then(
    () => true,
    () => false,
  )
  await one.leave()
  await other.leave()
  const isStopped = await Promise.race([second.stop().then(() => true), sleep(20_000, false)])
  assert.deepEqual({ isHeard, isStopped }, { isHeard: true, isStopped: true })
})

test('a function that is declared immutable, and is not, mixes up nobody', async () => {
  const { project, database } = await projectWith(`
    create function me() returns text language sql immutable as $$ select current_setting('request.jwt.claims')::json ->> 'name' $$;
    create table mine (id int primary key, owner text);
    create policy own on mine for select using (owner = me())`)
  const ada = await listen(platform, project, { token: as(project, 'ada'), table: 'mine' })
  const bob = await listen(platform, project, { token: as(project, 'bob'), table: 'mine' })
  for (let id = 1; id < 5; id++) {
    await database.run(`insert into mine values (${id * 10}, 'ada'), (${id * 10 + 1}, 'bob')`)
    await until('both have heard', async () => ada.heard.length >= id && bob.heard.length >= id, 20)
  }
  assert.deepEqual(ada.heard, ['INSERT 10', 'INSERT 20', 'INSERT 30', 'INSERT 40'])
  assert.deepEqual(bob.heard, ['INSERT 11', 'INSERT 21', 'INSERT 31', 'INSERT 41'])
  await ada.leave()
  await bob.leave()
})

test("columns and functions called like those of the gate change nobody's verdict", async () => {
  const { project, database } = await projectWith(`
    create collation lenient (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    create function concat(variadic text[]) returns text language plpgsql as $$ begin raise 'run by the gate'; end $$;
    create function cardinality(text[]) returns int language sql as $$ select 0 $$;
    create function array_append(text[], text) returns text[] language sql as $$ select '{1,1,1,1}'::text[] $$;
    create function array_to_string(text[], text) returns text language sql as $$ select '1111' $$;
    create function set_config(text, text, boolean) returns text language sql as $$ select 'x' $$;
    create table line (
      id int primary key, name text collate lenient, is_asked bool, claims text[], line text, lines text[], verdict text,
      verdicts text[], i int, set_of int[], row_sets text[], users text[], topic text, done text, rel text, who text, x text);
    create policy own on line for select using (
      name = (auth.jwt() ->> 'name') and is_asked is not true and verdict is null and line is null and claims is null
      and exists (select from notes where notes.id = 0 and notes.text = line.name))`)
  await database.run(`insert into notes values (0, 'ADA')`)
  const ada = await listen(platform, project, { token: as(project, 'ada'), table: 'line' })
  const bob = await listen(platform, project, { token: as(project, 'bob'), table: 'line' })
  await database.run(`insert into line (id, name, verdict) values (1, 'ADA', '1')`)
  await database.run(
    `insert into line (id, name, is_asked, verdicts, claims) values (2, 'ADA', true, '{1}', '{}')`,
  )
  await database.run(`insert into line (id, name) values (3, 'ADA')`)
  await database.run(
    `insert into line (id, name, is_asked) values (4, 'ada', false), (5, 'ADA', false), (6, 'Bob', false)`,
  )
  await hears(ada, 'INSERT 5')
  await database.run(`insert into line (id, name) values (7, 'ADA')`)
  await hears(ada, 'INSERT 7')
  assert.deepEqual(ada.heard, ['INSERT 3', 'INSERT 4', 'INSERT 5', 'INSERT 7'])
  assert.deepEqual(bob.heard, [])
  await ada.leave()
  await bob.leave()
})

test('a policy that takes the row as a whole is asked about it', async () => {
  const { project, database } = await projectWith(`
    create table wholes (id int primary key, owner text);
    create function is_own(wholes) returns boolean language sql stable as $$ select $1.owner = auth.jwt() ->> 'name' $$;
    create policy own on wholes for select using (is_own(wholes))`)
  const ada = await listen(platform, project, { token: as(project, 'ada'), table: 'wholes' })
  const bob = await listen(platform, project, { token: as(project, 'bob'), table: 'wholes' })
  await database.run(`insert into wholes values (1, 'ada')`)
  await database.run(`insert into wholes values (2, 'bob')`)
  await hears(ada, 'INSERT 1')
  await hears(bob, 'INSERT 2')
  await database.run(`insert into wholes values (3, 'ada'), (4, 'bob')`)
  await hears(ada, 'INSERT 3')
  await hears(bob, 'INSERT 4')
  assert.deepEqual(
    [ada.heard, bob.heard],
    [
      ['INSERT 1', 'INSERT 3'],
      ['INSERT 2', 'INSERT 4'],
    ],
  )
  await ada.leave()
  await bob.leave()
})

test('very many wishes do not stop the platform', async () => {
  const { project, database } = await projectWith()
  const sockets = await Promise.all(Array.from({ length: 3 }, () => RawSocket.open(platform, project)))
  for (const socket of sockets)
    for (let at = 0; at < 100; at++) {
      const wishes = Array.from({ length: 100 }, (_, id) => wish({ filter: `id=eq.${-id - at * 100}` }))
      socket.push(`realtime:${at}`, 'phx_join', { config: { postgres_changes: wishes } })
    }
  const one = await listen(platform, project, { table: 'notes' })
  await sleep(1000)
  let last = 0
  await promptly(1000, async () => {
    const stops = monitorEventLoopDelay({ resolution: 10 })
    stops.enable()
    await database.run(`insert into notes select generate_series(${last + 1}, ${last + 500})`)
    last += 500
    await hears(one, `INSERT ${last}`, 60)
    stops.disable()
    return stops.max / 1e6
  })
  for (const { connection } of sockets) connection.terminate()
  await one.leave()
})

test('large rows do not fill the memory', async () => {
  const { project, database } = await projectWith()
  const one = await listen(platform, project, { table: 'notes' })
  const before = process.memoryUsage().rss
  let most = 0
  const looking = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss)
  }, 5)
  await database.run(`insert into notes select i, repeat('x', 900000) from generate_series(1, 200) i`)
  await database.run('insert into notes values (1000)')
  await until('it is over', async () => one.heard.includes('INSERT 1000') || one.told.length > 1, 60)
  clearInterval(looking)
  assert.ok(most - before < 300 * 2 ** 20, `grown by ${Math.round((most - before) / 2 ** 20)} MiB`)
  await one.leave()
})

test('the claims of ten thousand users are judged', async () => {
  const { project, database } = await projectWith()
  const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const { control } = platform.app
  const abandoned = watchAbandoned(control, createLog('silent'))
  const pools = createGatePools({ control, logins, abandoned, perProject: 4, inAll: 20 })
  const gate = createGate(pools)
  const [notes] = await database.look<{ oid: string }>(`select 'public.notes'::regclass::oid::text as oid`)
  const tenant = { id: project.id, ref: database.ref, exposedSchemas: ['public'] } as unknown as Tenant
  const rows = ['(1,one)']
  const asked = Array.from({ length: 10_000 }, (_, at) => ({ claims: `{"at":${at}}`, userId: '', rows }))
  const verdicts = await gate.judge(tenant, { relid: notes!.oid, role: 'anon', command: 'select' }, asked)
  const count = new Map<string, number>()
  for (const verdict of verdicts) count.set(verdict, (count.get(verdict) ?? 0) + 1)
  pools.close()
  assert.deepEqual([...count], [['1', 10_000]])
})

test('a policy that fails an assertion for one fails for nobody else', async () => {
  const { project, database } = await projectWith(`
    create function asserted() returns boolean language plpgsql as $$
      begin assert auth.jwt() ->> 'name' is distinct from 'bad'; return true; end $$;
    create table checked (id int primary key);
    create policy asserted on checked for select using (asserted())`)
  const bad = await listen(platform, project, { token: as(project, 'bad'), table: 'checked' })
  const good = await listen(platform, project, { token: as(project, 'good'), table: 'checked' })
  await database.run('insert into checked values (1)')
  await hears(good, 'INSERT 1')
  assert.deepEqual(bad.heard, [])
  await bad.leave()
  await good.leave()
})

test('a policy may use what its readers cannot name', async () => {
  const { project, database } = await projectWith(`
    create schema private;
    create table private.members (name text);
    insert into private.members values ('ada');
    create function private.is_member() returns boolean language sql stable security definer as
      $$ select exists (select from private.members where name = auth.jwt() ->> 'name') $$;
    create table club (id int primary key);
    create policy members on club for select using ((select private.is_member()));
    create table bars (id int primary key, name text);
    insert into bars values (1, 'ada');
    create policy everybody on bars for select using (true);
    create table drinks (id int primary key, bar int);
    create policy members on drinks for select using (
      exists (select from bars where bars.id = drinks.bar and bars.name = auth.jwt() ->> 'name') and private.is_member())`)
  const token = as(project, 'ada')
  const one = await listen(platform, project, { token, table: 'club' })
  await database.run('insert into club values (1)')
  const rest = await platform.call('GET', `/v1/rest/${project.id}/club`, { token, apikey: project.anon_key })
  assert.deepEqual(rest.body, [{ id: 1 }])
  await hears(one, 'INSERT 1')
  const two = await listen(platform, project, { token, table: 'drinks' })
  await database.run('insert into drinks values (2, 1)')
  // Beside a sub-select on a table with policies of its own, Postgres reads the policy again as its reader. Nobody is shown
  // anything by that, and it is told.
  await isTold(two, /^error Changes of drinks were not delivered: its policies failed/)
  await one.leave()
  await two.leave()
})

test('a policy that cannot be cancelled for one is asked about the others', async () => {
  const { project, database } = await projectWith(`
    create function stay() returns boolean language plpgsql as $$
    begin
      if auth.jwt() ->> 'name' <> 'bad' then return true; end if;
      for i in 1..20 loop
        begin perform pg_sleep(60); exception when query_canceled then null; end;
      end loop;
      return true;
    end $$;
    create table stuck (id int primary key);
    create policy stay on stuck for select using (stay())`)
  const bad = await listen(platform, project, { token: as(project, 'bad'), table: 'stuck' })
  const good = await listen(platform, project, { token: as(project, 'good'), table: 'stuck' })
  await database.run('insert into stuck values (1)')
  await isTold(bad, /^error Changes of stuck were not delivered/)
  await database.run('insert into stuck values (2)')
  await hears(good, 'INSERT 2')
  await bad.leave()
  await good.leave()
})

test('no bytes on a socket stop the platform', async () => {
  const { project } = await projectWith()
  const seeds = [
    '[]',
    '{}',
    'null',
    '1',
    '""',
    '[null,null,"realtime:a","phx_join",null]',
    '["1","1","realtime:a","phx_join",{"config":[]}]',
    '["1","1","realtime:__proto__","phx_join",{"config":{"postgres_changes":[null,1,"x",[],{"event":"*","schema":"public","filter":{}}],"broadcast":{"replay":{"since":1e999}},"presence":{"key":{"a":1}}}}]',
    '["1","1","realtime:b","phx_join",{"config":{"private":"true","broadcast":{"replay":{"since":-1e300,"limit":-5}}}}]',
    '["1","2","realtime:a","access_token",{"access_token":{"a":1}}]',
    '["1","2","realtime:a","access_token",{"access_token":"a.b.c"}]',
    '["1","2","realtime:a","presence",{"event":"track","payload":{"phx_ref":"x","__proto__":{"a":1}}}]',
    '["1","2","realtime:a","presence",{"event":"untrack"}]',
    '["1","2","realtime:a","presence",[]]',
    '["1","2","realtime:a","broadcast",null]',
    '["1","2","realtime:a","broadcast",{"event":"a","payload":1e400}]',
    '["1","2","realtime:a","phx_leave",{}]',
    '[1e400,1,"phoenix","heartbeat",{}]',
    '["1","1","phoenix","phx_join",{}]',
    `[null,null,"realtime:a","phx_join",${'['.repeat(50000)}${']'.repeat(50000)}]`,
    `["9","9","realtime:deep","phx_join",{"config":{"postgres_changes":[{"event":"*","schema":"public","x":${'['.repeat(50000)}${']'.repeat(50000)}}]}}]`,
    `["9","9","realtime:deep","broadcast",{"event":"e","payload":${'{"a":'.repeat(20000)}1${'}'.repeat(20000)}}]`,
  ]
  const { int } = createRandom('bytes')
  const random = (most: number) => int(0, most - 1)
  for (let round = 0; round < 300; round++) {
    const socket = await RawSocket.open(platform, project)
    socket.send('["1","1","realtime:a","phx_join",{"config":{"presence":{"enabled":true}}}]')
    for (let at = 0; at < 6; at++) {
      const seed = seeds[random(seeds.length)]!
      if (socket.ended) break
      switch (random(5)) {
        case 0:
          socket.send(seed)
          break
        case 1: {
          const bytes = Buffer.from(seed.slice(0, 200))
          bytes[random(bytes.length)] = random(256)
          socket.connection.send(bytes, { binary: false })
          break
        }
        case 2:
          socket.send(
            Buffer.from([
              3,
              random(256),
              random(4),
              random(20),
              random(20),
              random(3),
              random(3),
              ...Array.from({ length: random(100) }, () => random(256)),
            ]),
          )
          break
        case 3: {
          const topic = Buffer.from('realtime:a')
          socket.send(
            Buffer.concat([
              Buffer.from([3, 0, 0, topic.length, 1, 0, random(2)]),
              topic,
              Buffer.from('e'),
              Buffer.from([random(256), random(256)]),
            ]),
          )
          break
        }
        default:
          socket.send(seed)
          socket.connection.ping(Buffer.alloc(125))
      }
    }
    if (round % 3 === 0) socket.connection.terminate()
    else {
      await Promise.race([sleep(5), socket.end().catch(() => {})])
      socket.connection.close()
    }
  }
  const last = await RawSocket.open(platform, project)
  await last.join('realtime:a')
  await last.close()
  assert.deepEqual(
    platform.logged
      .filter(line => /could not be handled|uncaught|unhandled/i.test(line))
      .map(line => line.slice(0, 600))
      .slice(0, 3),
    [],
  )
})

test('who is present on a topic is told in bounded bytes', async () => {
  const { project } = await projectWith()
  const sockets: RawSocket[] = []
  const large = 'x'.repeat(60_000)
  for (let at = 0; at < 120; at++) {
    const socket = await RawSocket.open(platform, project)
    sockets.push(socket)
    await socket.join('realtime:room', { presence: { key: `k${at}`, enabled: false } })
    socket.push('realtime:room', 'presence', { type: 'presence', event: 'track', payload: { large } })
    await socket.settled().catch(() => {})
  }
  const guest = await RawSocket.open(platform, project)
  await guest.join('realtime:room', { presence: { enabled: true } })
  const [, , , , state] = await guest.event('realtime:room', 'presence_state')
  assert.ok(JSON.stringify(state).length < 4 * 2 ** 20)
  for (let at = 0; at < 10; at++) {
    await guest.settled()
    await sleep(20)
  }
  for (const socket of [...sockets, guest]) socket.connection.terminate()
})

test('what a socket sends before it is judged waits where it comes from', async () => {
  const { project } = await projectWith(`
    create policy slowly on realtime.messages for select using (pg_sleep(0.4) is not null);
    create policy all_of_them on realtime.messages for insert with check (true)`)
  const socket = await RawSocket.open(platform, project)
  const ref = socket.push('realtime:room', 'phx_join', {
    config: { private: true, broadcast: { ack: true } },
  })
  const payload = 'x'.repeat(2_900_000)
  const sent = Array.from({ length: 20 }, () =>
    socket.push('realtime:room', 'broadcast', { type: 'broadcast', event: 'e', payload }),
  )
  assert.equal((await socket.answer(ref)).status, 'ok')
  assert.ok(socket.connection.bufferedAmount > 30_000_000, `only ${socket.connection.bufferedAmount} wait`)
  for (const each of sent) assert.equal((await socket.answer(each)).status, 'ok')
  await socket.close()
})

for (const [what, condition] of Object.entries({
  'that many': (place: number, at: number) =>
    `at=gt.2020-01-01 ${place % 24}:${at}:${Math.floor(place / 24)}`,
  'slow ones': (place: number, at: number) => `text=match.^(a+)(a+)(a+)\\1\\2\\3${place}b${at}?$`,
  'ones that do not fit': (place: number, at: number) => `at=gt.never ${place} ${at}`,
}))
  test(`filters of others still count, or it is told, whoever has ${what}`, async () => {
    const { project, database } = await projectWith(
      'alter table notes add column at timestamptz default now()',
    )
    const many = Array.from({ length: 60 }, (_, place) =>
      wish({
        table: 'notes',
        filter: Array.from({ length: 18 }, (__, at) => condition(place, at)).join(','),
      }),
    )
    const { socket, topic } = await intruder(project, many)
    await socket.event(topic, 'system')
    const one = await listen(platform, project, { table: 'notes', filter: 'at=gt.2001-01-01' })
    for (let id = 1; id < 4; id++) await database.run(`insert into notes values (${id}, repeat('a', 1001))`)
    await until(
      'it is heard or told',
      async () => one.heard.length === 3 || one.told.some(each => each.startsWith('error')),
      30,
    )
    assert.deepEqual([one.heard, one.told.length], [['INSERT 1', 'INSERT 2', 'INSERT 3'], 1])
    await socket.close()
    await one.leave()
  })

test('no request for a socket stops the platform', async () => {
  const { project } = await projectWith()
  const { hostname, port } = new URL(platform.url)
  const path = `/v1/realtime/${project.id}/socket/websocket?token=${project.anon_key}`
  const upgrade = [
    'connection: Upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
  ]
  const requests: string[][] = [
    [`GET ${path} HTTP/1.1`, ...upgrade.slice(0, 3)],
    [`GET ${path} HTTP/1.1`, ...upgrade.slice(0, 2), 'sec-websocket-version: 7', upgrade[3]!],
    [`GET ${path} HTTP/1.1`, ...upgrade.slice(0, 3), 'sec-websocket-key: x'],
    [`POST ${path} HTTP/1.1`, 'content-length: 5', ...upgrade],
    [`GET http://evil${path} HTTP/1.1`, ...upgrade],
    [`GET /v1/realtime/%zz/socket/websocket?token=%zz HTTP/1.1`, ...upgrade],
    [`GET /v1/%00/realtime/v1/websocket?apikey=${'a'.repeat(8000)} HTTP/1.1`, ...upgrade],
    [
      `GET /v1/realtime/${project.id}/socket/websocket HTTP/1.1`,
      ...upgrade,
      `authorization: Bearer ${'a.'.repeat(3000)}`,
    ],
    [
      `GET ${path} HTTP/1.1`,
      ...upgrade,
      'sec-websocket-protocol: a,,b',
      'sec-websocket-extensions: permessage-deflate; x="',
    ],
    [`GET ${path} HTTP/1.1`, 'connection: Upgrade', 'upgrade: h2c, websocket'],
    [`GET ${path} HTTP/1.0`, ...upgrade],
  ]
  for (const lines of requests)
    for (const isCut of [false, true]) {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {})
      socket.write(`${[lines[0], 'host: x', ...lines.slice(1)].join('\r\n')}\r\n\r\n`)
      if (isCut) setImmediate(() => socket.resetAndDestroy())
      else await Promise.race([once(socket, 'data'), once(socket, 'close'), sleep(2000)])
      socket.destroy()
    }
  const last = await RawSocket.open(platform, project)
  await last.settled()
  await last.close()
})
