// Hostile use of the sessions that requests of the row API share: changed settings, locks, terminated connections, and
// requests that change the schema themselves.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { prefer, rowsProject } from './rows-project.ts'

const { platform, project, rows, owner } = rowsProject()

test('rows: session settings changed by a trigger do not affect later writes', async () => {
  await owner(`
    create table spoilt (id bigint generated always as identity, what text);
    alter table spoilt disable row level security;
    create function spoil() returns trigger language plpgsql as
      $$ begin if new.what <> '' then execute new.what; end if; return new; end $$;
    create trigger spoil before insert on spoilt for each row execute function spoil()`)
  const insert = async (what: string) => (await rows('POST', 'spoilt', { body: { what } })).status
  // Repeated until requests share connections.
  for (let run = 0; run < 8; run++) assert.equal(await insert(''), 201)
  for (const what of [
    'set default_transaction_read_only = on',
    'set session characteristics as transaction read only',
    'set role none',
    'set search_path = pg_temp',
    'deallocate all',
    `set client_encoding = 'LATIN1'`,
    'set statement_timeout = 1',
    'set default_transaction_isolation = serializable',
  ]) {
    assert.equal(await insert(what), 201, what)
    for (let run = 0; run < 3; run++) assert.equal(await insert(''), 201, `after ${what}`)
  }
})

test('rows: a trigger that changes the schema does not make concurrent requests fail', async () => {
  await owner(`
    create table events (id bigint generated always as identity, k int);
    alter table events disable row level security;
    create function place() returns trigger language plpgsql security definer as
      $$ begin execute format('create table if not exists events_%s (id int)', new.k); return new; end $$;
    create trigger place before insert on events for each row execute function place()`)
  const statuses = await Promise.all(
    Array.from({ length: 20 }, async (_, k) => {
      const { status, body } = await rows('POST', 'events', { body: { k } })
      return status === 201 ? 201 : JSON.stringify(body)
    }),
  )
  assert.deepEqual([...new Set(statuses)], [201])
})

test('rows: a serializable transaction can change the schema while another one does', async () => {
  const slow = rows('POST', 'rpc/exec_sql', {
    body: {
      sql: 'begin isolation level serializable; create table s1 (id int); select pg_sleep(0.6); commit',
    },
  })
  await sleep(250)
  await owner('create table s2 (id int)')
  const { status, body } = await slow
  assert.equal(status, 200, JSON.stringify(body))
})

test('rows: exec_sql is cancelled when its client disconnects', async () => {
  const client = new AbortController()
  const url = `${platform.url}/v1/rest/${project.id}/rpc/exec_sql`
  const headers = { apikey: project.service_role_key, 'content-type': 'application/json' }
  const body = JSON.stringify({ sql: `select pg_sleep(600) as left_behind` })
  const calls = Array.from({ length: 5 }, () =>
    fetch(url, { method: 'POST', headers, body, signal: client.signal }).catch(() => undefined),
  )
  await sleep(500)
  client.abort()
  await Promise.all(calls)
  const ref = await platform.refOf(project.id)
  const running = () =>
    platform.asSuperuser(ref, session =>
      session.rows(
        sql`select from pg_stat_activity where query like '%left_behind%' and state = 'active' and pid <> pg_backend_pid()`,
      ),
    )
  await eventually(async () => (await running()).length === 0, 'the statements are cancelled')
  assert.equal((await rows('POST', 'rpc/exec_sql', { body: { sql: 'select 1' } })).status, 200)
})

test('rows: exec_sql does not report success for a transaction that is left open and rolled back', async () => {
  const { status, body } = await rows('POST', 'rpc/exec_sql', {
    body: { sql: `begin; insert into things values (771, 'lost')` },
  })
  const stored = await rows('GET', 'things?id=eq.771')
  assert.ok(status >= 400 || stored.body.length === 1, `${status} ${JSON.stringify(body)}`)
})

test('rows: requests do not wait for a row lock that blocks other requests', async () => {
  await owner(`create table locked (id int primary key, v int); alter table locked disable row level security;
               insert into locked values (1, 1), (2, 2)`)
  const get = () => rows('GET', 'things?id=eq.1&select=id')
  const patch = (id: number) => rows('PATCH', `locked?id=eq.${id}`, { body: { v: 3 } })
  for (let run = 0; run < 8; run++) await Promise.all([patch(2), get()])
  await Promise.all(Array.from({ length: 40 }, (_, index) => (index % 2 ? get() : patch(2))))
  await platform.asSuperuser(await platform.refOf(project.id), async session => {
    await session.script('begin; update public.locked set v = 9 where id = 1')
    const blocked = [1, 1, 1, 1].map(patch)
    for (let waiting = 0; waiting === 0; await sleep(10))
      waiting = (
        await session.rows(sql`
        select from pg_locks where not granted
           and pid in (select pid from pg_stat_activity where datname = current_database())`)
      ).length
    const read = []
    for (let sent = 0; sent < 40; sent++) {
      read.push(get())
      await sleep(3)
    }
    for (const { status } of await Promise.all(read)) assert.equal(status, 200)
    await session.script('commit')
    for (const { status } of await Promise.all(blocked)) assert.equal(status, 204)
  })
})

test('rows: settings of one request never reach another, also after errors', async () => {
  await owner(`create function mine(x int) returns text language plpgsql stable as $$ begin
    if x % 7 = 0 then raise exception 'no %', x; end if;
    return (current_setting('request.headers')::json ->> 'x-n') || ' ' ||
      coalesce(nullif(current_setting('request.cookies', true), ''), 'none') || ' ' || current_setting('TimeZone'); end $$`)
  for (let round = 0; round < 5; round++)
    await Promise.all(
      Array.from({ length: 40 }, async (_, n) => {
        const hasCookie = n % 3 === 0
        const hasZone = n % 4 === 0
        const { body } = await rows('GET', `rpc/mine?x=${n + 1}`, {
          as: n % 2 ? 'anon' : 'service_role',
          headers: {
            'x-n': String(n),
            ...(hasCookie && { cookie: `a=${n}` }),
            ...(hasZone && prefer('timezone=Asia/Tokyo')),
          },
        })
        if ((n + 1) % 7 === 0) assert.equal(body.message, `no ${n + 1}`)
        else
          assert.equal(body, `${n} ${hasCookie ? `{"a":"${n}"}` : 'none'} ${hasZone ? 'Asia/Tokyo' : 'UTC'}`)
      }),
    )
})

test('rows: when connections are terminated, exactly the writes answered with 201 are stored', async () => {
  await owner(`
    create table cut (id bigint generated always as identity, tag text);
    alter table cut disable row level security;
    create function slowly() returns trigger language plpgsql as
      $$ begin if new.tag = 'slow' then perform pg_sleep(0.5); end if; return new; end $$;
    create trigger slowly before insert on cut for each row execute function slowly()`)
  const insert = async (tag: string) => ({
    tag,
    status: (await rows('POST', 'cut', { body: { tag } })).status,
  })
  for (let run = 0; run < 8; run++) await insert('warm')
  const writes = [insert('slow'), ...Array.from({ length: 8 }, (_, index) => insert(`w${index}`))]
  await sleep(200)
  await platform.asSuperuser(await platform.refOf(project.id), session =>
    session.rows(
      sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()
            and state <> 'idle' and query like '%insert%' and pid <> pg_backend_pid()`,
    ),
  )
  const answers = await Promise.all(writes)
  const stored = await rows('GET', 'cut?tag=neq.warm&order=tag&select=tag&limit=3&offset=0')
  const all = await owner(`select tag from cut where tag <> 'warm' order by tag`)
  assert.deepEqual(
    all.body.map(({ tag }: { tag: string }) => tag),
    answers
      .filter(({ status }) => status === 201)
      .map(({ tag }) => tag)
      .toSorted(),
  )
  assert.ok(answers.every(({ status }) => status === 201 || status === 503))
  assert.equal(stored.status, 200)
})

test('rows: schema public can be dropped, recreated and swapped', async () => {
  const own = await platform.createProject()
  const call = (method: string, path: string, body?: unknown) =>
    platform.call(method, `/v1/rest/${own.id}/${path}`, { apikey: own.service_role_key, body })
  const run = (text: string) => call('POST', 'rpc/exec_sql', { sql: text })
  await run('create table swapped (id int, a int); insert into swapped values (1, 1)')
  assert.deepEqual((await call('GET', 'swapped')).body, [{ id: 1, a: 1 }])
  await run('drop schema public cascade; create schema public; create table swapped (id int, b int)')
  assert.deepEqual((await call('GET', 'swapped')).body, [])
  await run('alter schema public rename to was; create schema public; create table swapped (c int)')
  assert.equal((await call('POST', 'swapped', { c: 1 })).status, 201)
  await run('drop schema public cascade')
  assert.equal((await call('GET', 'swapped')).status, 404)
  await run('alter schema was rename to public')
  assert.equal((await call('POST', 'swapped', { id: 1, b: 1 })).status, 201)
})

test('rows: a trigger that catches its errors still waits for its locks', async () => {
  await owner(`
    create table counted (id bigint generated always as identity, v int);
    create table counter (one int primary key, n int); insert into counter values (1, 0);
    alter table counted disable row level security; alter table counter disable row level security;
    create function count_up() returns trigger language plpgsql as $$ begin
      begin update counter set n = n + 1; exception when others then null; end; return new; end $$;
    create trigger count_up after insert on counted for each row execute function count_up()`)
  // Repeated until requests share connections.
  for (let run = 0; run < 8; run++) await rows('POST', 'counted', { body: { v: run } })
  const holding = owner('begin; update counter set n = n; select pg_sleep(0.7); commit')
  await sleep(350)
  assert.equal((await rows('POST', 'counted', { body: { v: 9 } })).status, 201)
  await holding
  assert.deepEqual((await rows('GET', 'counter')).body, [{ one: 1, n: 9 }])
})
