// Slow, failing and misleading policies of a project owner do not affect other callers or projects.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { watchAbandoned } from '#src/kernel/postgres/abandoned.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { createPolicyCheckPools } from '#src/services/realtime/changes/policy-check-pools.ts'
import { createPolicyChecks } from '#src/services/realtime/changes/policy-checks.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { createRequestHolds } from '#src/tenancy/request-holds.ts'
import { eventually } from '#test/eventually.ts'
import { startPlatform } from '#test/harness.ts'
import { patientTimeouts } from '#test/patient-timeouts.ts'
import { attackStage, receivesChange, tokenOf } from '#test/realtime-attack-stage.ts'
import { receivesStatus, subscribe } from '#test/realtime-subscriber.ts'

const { stage, projectWith } = attackStage()

test('realtime attacks: policies see the generated columns of a row', async t => {
  const [server] = await stage.platform.asSuperuser('postgres', session =>
    session.rows<{ version: number }>(raw(`select current_setting('server_version_num')::int as version`)),
  )
  if (server!.version < 180_000) return t.diagnostic('there are only stored ones')
  const { project, database } = await projectWith(`
    create table secrets (id int primary key, is_secret bool generated always as (id > 5) virtual);
    create policy most on secrets for select using (is_secret is not true)`)
  const one = await subscribe(stage.platform, project, { table: 'secrets' })
  await database.run('insert into secrets values (7); insert into secrets values (1)')
  await receivesChange(one, 'INSERT 1')
  assert.deepEqual(one.changes, ['INSERT 1'])
  await one.leave()
})

test('realtime attacks: a policy that ignores cancellation delays only its own project', async () => {
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
  const second = await startPlatform({ beside: stage.platform })
  const one = await subscribe(second, project, { table: 'stuck' })
  const other = await subscribe(second, project, { table: 'notes' })
  await database.run('insert into stuck values (1)')
  await sleep(3000)
  await database.run('insert into notes values (1)')
  const since = performance.now()
  const isHeard = await receivesChange(other, 'INSERT 1').then(
    () => performance.now() - since < 45_000,
    () => false,
  )
  await one.leave()
  await other.leave()
  const isStopped = await Promise.race([second.stop().then(() => true), sleep(90_000, false, { ref: false })])
  assert.deepEqual({ isHeard, isStopped }, { isHeard: true, isStopped: true })
})

test('realtime attacks: a function wrongly declared immutable does not mix up callers', async () => {
  const { project, database } = await projectWith(`
    create function me() returns text language sql immutable as $$ select current_setting('request.jwt.claims')::json ->> 'name' $$;
    create table mine (id int primary key, owner text);
    create policy own on mine for select using (owner = me())`)
  const ada = await subscribe(stage.platform, project, { token: tokenOf(project, 'ada'), table: 'mine' })
  const bob = await subscribe(stage.platform, project, { token: tokenOf(project, 'bob'), table: 'mine' })
  for (let id = 1; id < 5; id++) {
    await database.run(`insert into mine values (${id * 10}, 'ada'), (${id * 10 + 1}, 'bob')`)
    await eventually(() => ada.changes.length >= id && bob.changes.length >= id, 'both get the change')
  }
  assert.deepEqual(ada.changes, ['INSERT 10', 'INSERT 20', 'INSERT 30', 'INSERT 40'])
  assert.deepEqual(bob.changes, ['INSERT 11', 'INSERT 21', 'INSERT 31', 'INSERT 41'])
  await ada.leave()
  await bob.leave()
})

test('realtime attacks: columns and functions named like those of platform.judge do not change its result', async () => {
  const { project, database } = await projectWith(`
    create collation lenient (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    create function concat(variadic text[]) returns text language plpgsql as $$ begin raise 'run by the policy check'; end $$;
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
  const ada = await subscribe(stage.platform, project, { token: tokenOf(project, 'ada'), table: 'line' })
  const bob = await subscribe(stage.platform, project, { token: tokenOf(project, 'bob'), table: 'line' })
  await database.run(`insert into line (id, name, verdict) values (1, 'ADA', '1')`)
  await database.run(
    `insert into line (id, name, is_asked, verdicts, claims) values (2, 'ADA', true, '{1}', '{}')`,
  )
  await database.run(`insert into line (id, name) values (3, 'ADA')`)
  await database.run(
    `insert into line (id, name, is_asked) values (4, 'ada', false), (5, 'ADA', false), (6, 'Bob', false)`,
  )
  await receivesChange(ada, 'INSERT 5')
  await database.run(`insert into line (id, name) values (7, 'ADA')`)
  await receivesChange(ada, 'INSERT 7')
  assert.deepEqual(ada.changes, ['INSERT 3', 'INSERT 4', 'INSERT 5', 'INSERT 7'])
  assert.deepEqual(bob.changes, [])
  await ada.leave()
  await bob.leave()
})

test('realtime attacks: a policy on the whole row is checked with the whole row', async () => {
  const { project, database } = await projectWith(`
    create table wholes (id int primary key, owner text);
    create function is_own(wholes) returns boolean language sql stable as $$ select $1.owner = auth.jwt() ->> 'name' $$;
    create policy own on wholes for select using (is_own(wholes))`)
  const ada = await subscribe(stage.platform, project, { token: tokenOf(project, 'ada'), table: 'wholes' })
  const bob = await subscribe(stage.platform, project, { token: tokenOf(project, 'bob'), table: 'wholes' })
  await database.run(`insert into wholes values (1, 'ada')`)
  await database.run(`insert into wholes values (2, 'bob')`)
  await receivesChange(ada, 'INSERT 1')
  await receivesChange(bob, 'INSERT 2')
  await database.run(`insert into wholes values (3, 'ada'), (4, 'bob')`)
  await receivesChange(ada, 'INSERT 3')
  await receivesChange(bob, 'INSERT 4')
  assert.deepEqual(
    [ada.changes, bob.changes],
    [
      ['INSERT 1', 'INSERT 3'],
      ['INSERT 2', 'INSERT 4'],
    ],
  )
  await ada.leave()
  await bob.leave()
})

test('realtime attacks: policies are checked for 10,000 users', async () => {
  const { project, database } = await projectWith()
  const logins = createLogins(stage.platform.address, keyring(stage.platform.controlPlaneSecret))
  const { control } = stage.platform.app
  const abandoned = watchAbandoned(control, createLog('silent'))
  const pools = createPolicyCheckPools({
    holds: createRequestHolds(),
    control,
    logins,
    abandoned,
    perProject: 4,
    total: 20,
  })
  const policyChecks = createPolicyChecks(pools, 4, patientTimeouts)
  const [notes] = await database.rows<{ oid: string }>(`select 'public.notes'::regclass::oid::text as oid`)
  const tenant = { id: project.id, ref: database.ref, exposedSchemas: ['public'] } as unknown as Tenant
  const rows = ['(1,one)']
  const checks = Array.from({ length: 10_000 }, (_, at) => ({ claims: `{"at":${at}}`, userId: '', rows }))
  const verdicts = await policyChecks.check(
    tenant,
    { relid: notes!.oid, role: 'anon', command: 'select' },
    checks,
  )
  const count = new Map<string, number>()
  for (const verdict of verdicts) count.set(verdict, (count.get(verdict) ?? 0) + 1)
  pools.close()
  assert.deepEqual([...count], [['1', 10_000]])
})

test('realtime attacks: a policy that fails an assertion for one caller does not fail for others', async () => {
  const { project, database } = await projectWith(`
    create function asserted() returns boolean language plpgsql as $$
      begin assert auth.jwt() ->> 'name' is distinct from 'bad'; return true; end $$;
    create table checked (id int primary key);
    create policy asserted on checked for select using (asserted())`)
  const bad = await subscribe(stage.platform, project, { token: tokenOf(project, 'bad'), table: 'checked' })
  const good = await subscribe(stage.platform, project, { token: tokenOf(project, 'good'), table: 'checked' })
  await database.run('insert into checked values (1)')
  await receivesChange(good, 'INSERT 1')
  assert.deepEqual(bad.changes, [])
  await bad.leave()
  await good.leave()
})

test('realtime attacks: a policy may use objects that its callers have no privilege on', async () => {
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
  const token = tokenOf(project, 'ada')
  const one = await subscribe(stage.platform, project, { token, table: 'club' })
  await database.run('insert into club values (1)')
  const rest = await stage.platform.call('GET', `/v1/rest/${project.id}/club`, {
    token,
    apikey: project.anon_key,
  })
  assert.deepEqual(rest.body, [{ id: 1 }])
  await receivesChange(one, 'INSERT 1')
  const two = await subscribe(stage.platform, project, { token, table: 'drinks' })
  await database.run('insert into drinks values (2, 1)')
  // With a sub-select on a table that has policies itself, Postgres parses the policy again as the caller. The check then
  // fails: no row is shown, and the subscriber gets a notice.
  await receivesStatus(two, /^error Changes of drinks were not delivered: its policies failed/)
  await one.leave()
  await two.leave()
})

test('realtime attacks: a policy that ignores cancellation for one caller is still checked for others', async () => {
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
  const bad = await subscribe(stage.platform, project, { token: tokenOf(project, 'bad'), table: 'stuck' })
  const good = await subscribe(stage.platform, project, { token: tokenOf(project, 'good'), table: 'stuck' })
  await database.run('insert into stuck values (1)')
  await receivesStatus(bad, /^error Changes of stuck were not delivered/)
  await database.run('insert into stuck values (2)')
  await receivesChange(good, 'INSERT 2')
  await bad.leave()
  await good.leave()
})
