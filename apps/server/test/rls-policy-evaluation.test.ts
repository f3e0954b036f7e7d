// How the test of a role's access evaluates policies: rights, claims, side effects, errors and unusual tables.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { TestPlatform } from './harness.ts'
import { allowedIds, ann, bob, rlsProject } from './rls-project.ts'

const { stage, call, asOwner, policy, simulate } = rlsProject()
let platform: TestPlatform
let id: string
before(() => {
  ;({ platform, id } = stage)
})

test('case 2: an expression of a policy cannot contain another statement', async () => {
  const cases: [string, number][] = [
    ['true); drop table notes; --', 400],
    ['true; drop table notes', 400],
    ['true) with check (true', 400],
    ["copy notes to program 'id'", 400],
    ['set role postgres', 400],
    ['owner = nobody', 400],
    ['body', 400],
  ]
  for (const [using, status] of cases) {
    const reply = await call('POST', '/tables/teams/policies', { name: 'evil', command: 'ALL', using })
    assert.equal(reply.status, status, JSON.stringify([using, reply.body]))
    assert.equal(reply.body.error.code, 'sql_error')
  }
  // A policy of the owner runs with the privileges of the reader.
  await asOwner('create table reach (id int); insert into reach values (1)')
  await policy('reach', {
    name: 'file',
    command: 'SELECT',
    using: "pg_read_file('/etc/passwd') <> ''",
    roles: ['anon'],
  })
  await policy('reach', {
    name: 'role',
    command: 'SELECT',
    using: "set_config('role', 'postgres', true) <> ''",
    roles: ['authenticated'],
  })
  const file = await simulate({ table: 'reach', role: 'anon' })
  assert.deepEqual([file.error.code, allowedIds(file)], ['42501', []])
  assert.match(file.rows[0].verdicts[0].error, /permission denied/)
  const role = await simulate({ table: 'reach', role: 'authenticated' })
  assert.deepEqual([role.error.code, allowedIds(role)], ['42501', []])
})

test('rls: subqueries of a policy run with the rights of the role, not of the owner', async () => {
  await policy('teams', {
    name: 'mine',
    command: 'SELECT',
    using: 'exists (select 1 from members m where m.team = teams.id and m.person = auth.uid())',
  })
  const blind = await simulate({ table: 'teams', role: 'authenticated', user_id: ann })
  assert.deepEqual(allowedIds(blind), [], 'members has no policy, so the user cannot read her own row in it')
  assert.deepEqual(
    blind.rows.map((each: any) => each.verdicts[0].using),
    [false, false],
  )
  await policy('members', { name: 'own', command: 'SELECT', using: 'person = auth.uid()' })
  const seeing = await simulate({ table: 'teams', role: 'authenticated', user_id: ann })
  assert.deepEqual(allowedIds(seeing), [1])
  assert.deepEqual(
    seeing.rows.map((each: any) => [each.row.id, each.verdicts[0].using]),
    [
      [1, true],
      [2, false],
    ],
  )
})

test('rls: policies see the given claims, with role and sub of the test', async () => {
  await asOwner(`create table plans (id int, plan text); insert into plans values (1, 'gold'), (2, 'free')`)
  await policy('plans', { name: 'plan', command: 'SELECT', using: `plan = auth.jwt() ->> 'plan'` })
  const gold = await simulate({
    table: 'plans',
    role: 'authenticated',
    user_id: bob,
    claims: { plan: 'gold', role: 'service_role', sub: ann },
  })
  assert.deepEqual([allowedIds(gold), gold.claims], [[1], { plan: 'gold', role: 'authenticated', sub: bob }])
})

test('rls: changes by triggers and policies during a test are rolled back', async () => {
  await asOwner(`create table trail (at timestamptz default clock_timestamp());
    create table watched (id int);  insert into watched values (1);
    alter table trail disable row level security;
    create function note() returns boolean language plpgsql volatile as $$ begin insert into trail default values; return true; end $$;
    create function note_row() returns trigger language plpgsql as $$ begin perform note(); return new; end $$;
    create trigger t before insert or update on watched for each row execute function note_row()`)
  await policy('watched', { name: 'noting', command: 'ALL', using: 'note()', with_check: 'note()' })
  for (const extra of [
    {},
    { command: 'INSERT', row: { id: 2 } },
    { command: 'UPDATE', row: { id: 3 } },
    { command: 'DELETE' },
  ]) {
    const reply = await simulate({ table: 'watched', role: 'anon', ...extra })
    assert.deepEqual(
      reply.rows.map((each: any) => each.allowed),
      [true],
    )
  }
  const ref = await platform.refOf(id)
  const [count] = await platform.app.databases.asOwner({ ref }, session =>
    session.rows<{ trail: number; watched: number }>(sql`
      select (select count(*)::int from public.trail) as trail, (select count(*)::int from public.watched) as watched`),
  )
  assert.deepEqual(count, { trail: 0, watched: 1 })
})

test('rls: the error of a policy is reported, and the other policies are still evaluated', async () => {
  await asOwner('create table brittle (id int, key text); insert into brittle values (1, $$x$$)')
  await policy('brittle', { name: 'a breaks', command: 'SELECT', using: 'key::int > 0' })
  await policy('brittle', { name: 'b works', command: 'SELECT', using: 'id > 5' })
  const reply = await simulate({ table: 'brittle', role: 'anon' })
  assert.equal(reply.error.code, '22P02')
  assert.deepEqual(
    reply.rows[0].verdicts.map((one: any) => [one.policy, one.using, one.error === null]),
    [
      ['a breaks', null, false],
      ['b works', false, true],
    ],
  )
})

test('rls: unusual names, partitions and a column named like the alias work', async () => {
  await asOwner(`create table "we""ird; t" ("Id" int, whole int, value int, place int, row int);
    insert into "we""ird; t" values (1, 2, 3, 4, 5), (2, 2, 3, 4, 5);
    create table parts (id int) partition by list (id); create table parts1 partition of parts for values in (1);
    create table parts2 partition of parts for values in (2); insert into parts values (1), (2)`)
  await policy('we"ird; t', {
    name: 'p',
    command: 'ALL',
    using: '"Id" = 1 and whole = 2 and value = 3 and place = 4 and row = 5',
  })
  const odd = await simulate({ table: 'we"ird; t', role: 'anon' })
  assert.deepEqual(
    odd.rows.map((each: any) => [each.row.Id, each.allowed, each.verdicts[0].using]),
    [
      [1, true, true],
      [2, false, false],
    ],
  )
  const set = await simulate({ table: 'we"ird; t', role: 'anon', command: 'UPDATE', row: { whole: 2 } })
  assert.deepEqual(
    set.rows.map((each: any) => each.allowed),
    [true, false],
  )
  await policy('parts', { name: 'p', command: 'SELECT', using: 'id = 2' })
  const parts = await simulate({ table: 'parts', role: 'anon' })
  assert.deepEqual(
    parts.rows.map((each: any) => [each.row.id, each.allowed]),
    [
      [2, true],
      [1, false],
    ],
  )
})

test('rls: numbers outside the range of JavaScript are evaluated exactly', async () => {
  await asOwner(
    'create table large (n bigint); insert into large values (9007199254740993), (9007199254740992)',
  )
  await policy('large', { name: 'one', command: 'SELECT', using: 'n = 9007199254740993' })
  const reply = await simulate({ table: 'large', role: 'anon' })
  assert.deepEqual(
    reply.rows.map((each: any) => [each.allowed, each.verdicts[0].using]),
    [
      [true, true],
      [false, false],
    ],
  )
})

test('rls: with FORCE the owner’s sample has fewer rows, and the result is still correct', async () => {
  await asOwner(`create table strict (id int); insert into strict values (1), (2);
    alter table strict force row level security; create policy one on strict using (id = 1) with check (id < 3)`)
  const reply = await simulate({ table: 'strict', role: 'anon' })
  assert.deepEqual(
    reply.rows.map((each: any) => [each.row.id, each.allowed]),
    [[1, true]],
  )
  const insert = { table: 'strict', role: 'anon', command: 'INSERT' }
  assert.equal((await simulate({ ...insert, row: { id: 2 } })).rows[0].allowed, true)
  const refused = (await simulate({ ...insert, row: { id: 3 } })).rows[0]
  assert.deepEqual([refused.allowed, refused.verdicts[0].with_check], [false, false])
})

test('rls: a missing grant is reported as the error that the role would get', async () => {
  await asOwner(
    'create table ungranted (id int); insert into ungranted values (1); revoke all on ungranted from anon',
  )
  const reply = await simulate({ table: 'ungranted', role: 'anon' })
  assert.deepEqual([reply.error.code, allowedIds(reply)], ['42501', []])
  assert.match(reply.error.message, /permission denied for table ungranted/)
})

test('rls: no request of this file caused a 500', () => {
  assert.deepEqual(
    platform.logged.filter(line => /"status":5\d\d|request failed/.test(line)),
    [],
  )
})
