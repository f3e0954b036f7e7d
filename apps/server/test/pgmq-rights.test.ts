// Permissions on queues: the owner creates them, service_role uses them, other roles have no access, and nobody can escalate.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Client } from 'pg'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform, untilUpgraded } from './harness.ts'
import { type QueueProject, queueProject } from './queue-database.ts'

let platform: TestPlatform
let project: QueueProject

before(async () => {
  platform = await startPlatform()
  project = await queueProject(platform)
  await project.rows(`select pgmq.create('jobs'), pgmq.create_unlogged('fast')`)
})
after(async () => {
  await project?.close()
  await platform.stop()
})

const look = <T>(query: SqlFragment) => platform.asSuperuser(project.ref, session => session.rows<T>(query))

test('pgmq: the owner owns its queue tables, and the platform owns the rest', async () => {
  const owners = await look<{ name: string; owner: string }>(sql`
    select c.relname as name, pg_get_userbyid(c.relowner) as owner from pg_class c
     where c.relnamespace = 'pgmq'::regnamespace and c.relkind in ('r', 'S') order by 1`)
  const owner = `${project.ref}_owner`
  assert.deepEqual(
    owners.filter(each => each.owner === owner).map(({ name }) => name),
    ['a_fast', 'a_jobs', 'q_fast', 'q_fast_msg_id_seq', 'q_jobs', 'q_jobs_msg_id_seq'],
  )
  assert.deepEqual(
    owners.filter(each => each.owner !== owner).map(({ name }) => name),
    ['meta'],
  )
})

test('pgmq: functions run as the caller with a fixed search_path, for owner and service_role only', async () => {
  const functions = await look<{
    name: string
    definer: boolean
    path: string | null
    grantees: string[]
    is_super: boolean
  }>(sql`
    select p.oid::regprocedure::text as name, p.prosecdef as definer, array_to_string(p.proconfig, ';') as path,
           (select rolsuper from pg_roles r where r.oid = p.proowner) as is_super,
           array(select case a.grantee when 0 then 'public' else regexp_replace(pg_get_userbyid(a.grantee), '^p_.{20}', '') end
                   from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee <> p.proowner order by 1) as grantees
      from pg_proc p where p.pronamespace in ('pgmq'::regnamespace, 'pgmq_public'::regnamespace)`)
  assert.equal(functions.length, 36 + 6)
  for (const { name, ...facts } of functions)
    assert.deepEqual(
      facts,
      {
        definer: false,
        path: 'search_path=pg_catalog, pg_temp',
        grantees: ['_owner', 'service_role'],
        is_super: true,
      },
      name,
    )
})

test('pgmq: service_role has exactly the rights that the HTTP routes need', async () => {
  const as = (statement: string) => project.as('service_role', statement)
  await as(
    `insert into pgmq.q_jobs (vt, message, headers) values (clock_timestamp(), '1', null) returning msg_id`,
  )
  await as(`with due as (select msg_id from pgmq.q_jobs where vt <= clock_timestamp() order by msg_id limit 1 for update skip locked)
            update pgmq.q_jobs q set vt = clock_timestamp(), read_ct = read_ct + 1 from due where q.msg_id = due.msg_id returning q.*`)
  await as(`with gone as (delete from pgmq.q_jobs where msg_id = any('{1}') returning msg_id, read_ct, enqueued_at, vt, message, headers)
            insert into pgmq.a_jobs (msg_id, read_ct, enqueued_at, vt, message, headers) select * from gone`)
  assert.equal((await as('select * from pgmq.a_jobs order by archived_at desc')).length, 1)
  await as(`with gone as (delete from pgmq.a_jobs where msg_id = 1 returning msg_id, message)
            insert into pgmq.q_jobs (msg_id, vt, message) overriding system value select msg_id, now(), message from gone`)
  assert.deepEqual(await as('select last_value, is_called from pgmq.q_jobs_msg_id_seq'), [
    { last_value: '1', is_called: true },
  ])
  assert.equal((await as('select * from pgmq.meta')).length, 2)
  assert.deepEqual(await as(`select pgmq.send('jobs', '1') as id`), [{ id: '2' }])
  assert.equal((await as(`select * from pgmq.read('jobs', 0, 5)`)).length, 2)
  assert.deepEqual(await as(`select pgmq.archive('jobs', 2) as done`), [{ done: true }])
  assert.deepEqual(await as(`select pgmq.purge_queue('jobs') as count`), [{ count: '1' }])
  assert.equal((await as(`select * from pgmq.metrics_all()`)).length, 2)
  assert.equal((await as(`select pgmq.create('jobs')`)).length, 1)
  for (const statement of [
    `select pgmq.create('mine')`,
    `select pgmq.drop_queue('jobs')`,
    'create table pgmq.q_mine ()',
    'drop table pgmq.q_jobs',
    'alter table pgmq.q_jobs add x int',
    `insert into pgmq.meta values ('mine', false, false)`,
    'delete from pgmq.meta',
    `update pgmq.meta set is_unlogged = true`,
    `create trigger t before insert on pgmq.q_jobs for each row execute function suppress_redundant_updates_trigger()`,
    `select setval('pgmq.q_jobs_msg_id_seq', 1)`,
  ])
    await assert.rejects(as(statement), { code: '42501' }, statement)
  await assert.rejects(as(`select pgmq.create('mine')`), {
    message: /by the project's owner only/,
    hint: /HTTP/,
  })
  await assert.rejects(as(`select pgmq.drop_queue('jobs')`), { message: /by the project's owner only/ })
  assert.deepEqual(await as(`select pgmq.drop_queue('nothing') as was`), [{ was: false }])
})

test('pgmq: service_role has the same rights on queue tables created in other ways', async () => {
  await project.rows(`
    create table pgmq.q_restored (msg_id bigint generated always as identity primary key, read_ct int not null default 0,
      enqueued_at timestamptz not null default now(), vt timestamptz not null, message jsonb, headers jsonb)`)
  assert.deepEqual(await project.as('service_role', `select pgmq.send('restored', '1') as id`), [{ id: '1' }])
  assert.deepEqual(await project.as('service_role', `select total_messages from pgmq.metrics('restored')`), [
    { total_messages: '1' },
  ])
  for (const role of ['anon', 'authenticated'] as const)
    await assert.rejects(project.as(role, 'select * from pgmq.q_restored'), { code: '42501' })
  await project.rows('drop table pgmq.q_restored')
})

test('pgmq: anon and authenticated have no access', async () => {
  for (const role of ['anon', 'authenticated'] as const)
    for (const statement of [
      `select pgmq.send('jobs', '1')`,
      `select pgmq.read('jobs', 0, 1)`,
      `select pgmq.pop('jobs')`,
      `select pgmq.create('x')`,
      'select pgmq.list_queues()',
      'select pgmq.metrics_all()',
      'select * from pgmq.meta',
      'select * from pgmq.q_jobs',
      'insert into pgmq.q_jobs (vt) values (now())',
      'select * from pgmq.a_jobs',
      'select nextval($$pgmq.q_jobs_msg_id_seq$$)',
      `select pgmq_public.send('jobs', '1')`,
      `select pgmq_public.read('jobs', 0, 1)`,
      `select pgmq_public.pop('jobs')`,
    ])
      await assert.rejects(project.as(role, statement), { code: '42501' }, `${role}: ${statement}`)
})

test('pgmq: the owner cannot change objects of the platform or inject code for others', async () => {
  for (const statement of [
    'drop function pgmq.pop(text)',
    `create or replace function pgmq.pop(queue_name text) returns setof pgmq.message_record language sql as 'select null::pgmq.message_record'`,
    'alter function pgmq.pop(text) security definer',
    'alter function pgmq.pop(text) reset search_path',
    'grant execute on function pgmq.pop(text) to anon with grant option',
    'drop schema pgmq cascade',
    'alter schema pgmq rename to mine',
    'grant usage on schema pgmq to anon with grant option',
    'drop table pgmq.meta',
    'alter table pgmq.meta add column x int',
    'create trigger t before insert on pgmq.meta for each row execute function suppress_redundant_updates_trigger()',
    'create rule r as on insert to pgmq.meta do instead nothing',
    'alter table pgmq.meta enable row level security',
    // A foreign key check would run as the owner of the referenced table.
    'create table keyed (q varchar references pgmq.meta (queue_name))',
    'create table heir () inherits (pgmq.meta)',
    'create index on pgmq.meta (created_at)',
    'drop type pgmq.message_record cascade',
    'create function pgmq_public.mine() returns int language sql return 1',
    'create table pgmq_public.mine ()',
    'drop function pgmq_public.pop(text)',
    'drop schema pgmq_public cascade',
  ]) {
    const outcome = await project.rows(statement).then(
      () => 'done',
      error => error.code,
    )
    // Postgres only warns about a grant without grant option. The access check below covers it.
    if (!statement.startsWith('grant')) assert.equal(outcome, '42501', statement)
  }
  await assert.rejects(project.as('anon', `select pgmq.pop('jobs')`), { code: '42501' })
})

test('pgmq: objects of the owner run only with the rights of the owner and its callers', async () => {
  const own = await queueProject(platform)
  await own.rows(`select pgmq.create('trap')`)
  await own.rows(`
    create function public.who() returns trigger language plpgsql as $$
    begin
      new.headers := jsonb_build_object('as', current_user, 'session', session_user, 'super', current_setting('is_superuser'));
      return new;
    end $$`)
  await own.rows('create trigger t before insert on pgmq.q_trap for each row execute function public.who()')
  // Overloads that match better than the functions called, in every schema of the search_path.
  await own.rows(`create function public.lower(varchar) returns text language sql as $$ select 'stolen' $$`)
  await own.rows(
    `create function pgmq.format(text, text) returns text language sql as $$ select 'drop table pgmq.q_trap' $$`,
  )
  await own.rows(
    `create operator public.<= (leftarg = timestamptz, rightarg = timestamptz, function = timestamptz_gt)`,
  )
  await own.rows(`set search_path = public, pgmq, pg_catalog`)
  await own.rows(`select pgmq.send('trap', '1')`)
  const [read] = await own.rows(`select * from pgmq.read('trap', 0, 1)`)
  assert.deepEqual(read.headers, { as: `${own.ref}_owner`, session: `${own.ref}_owner`, super: 'off' })
  const [id] = await own.as('service_role', `select pgmq.send('trap', '2') as id`)
  assert.deepEqual(await own.values(`select headers->>'as' from pgmq.q_trap where msg_id = $1`, [id.id]), [
    'service_role',
  ])
  await own.close()
})

test('pgmq: an upgrade runs no code of the tenant', async () => {
  const own = await queueProject(platform)
  await own.rows(`select pgmq.create('kept')`)
  await own.rows(`select pgmq.send('kept', '"here"')`)
  // Functions and triggers in the schema that the upgrade works in, with names that it might call.
  await own.rows(`
    create table public.stolen (as_whom text);
    create function pgmq.trap() returns trigger language plpgsql as $$ begin insert into public.stolen values (current_user); return new; end $$;
    create trigger t before insert or update or delete on pgmq.q_kept for each statement execute function pgmq.trap();
    create function pgmq.lower(text) returns text language plpgsql as $$ begin insert into public.stolen values (current_user); return $1; end $$;
    create function pgmq.to_regclass(text) returns regclass language plpgsql as $$ begin insert into public.stolen values (current_user); return null; end $$`)
  await platform.asSuperuser(own.ref, session =>
    session.script(`delete from platform.migrations where name like 'pgmq%'`),
  )
  await older(own.id)
  const next = await startPlatform({ beside: platform })
  await untilUpgraded(next)
  try {
    assert.deepEqual(await own.values('select as_whom from public.stolen'), [])
    assert.deepEqual(await own.values(`select message from pgmq.read('kept', 0, 1)`), ['here'])
    assert.deepEqual(await own.values('select as_whom from public.stolen'), [`${own.ref}_owner`])
  } finally {
    await next.stop()
    await own.close()
  }
})

const older = (id: string) =>
  platform.asSuperuser(platform.control, session =>
    session.run(sql`update public.projects set schema_version = 'older' where id = ${id}`),
  )

/** The state of a version without queues: an empty schema pgmq. */
async function asBeforeQueues(own: QueueProject): Promise<void> {
  await platform.asSuperuser(own.ref, async session => {
    await session.script('drop schema pgmq cascade; create schema pgmq; drop schema pgmq_public cascade')
    await session.run(sql`delete from platform.migrations where name = '0004_queues' or name like 'pgmq%'`)
  })
  await older(own.id)
}

test('pgmq: a project of an older version gets queues with all rights at the next start', async () => {
  const own = await queueProject(platform)
  await asBeforeQueues(own)
  await assert.rejects(own.rows(`select pgmq.create('x')`), { code: '42501' })
  const next = await startPlatform({ beside: platform })
  await untilUpgraded(next)
  try {
    await own.rows(`select pgmq.create('x')`)
    assert.deepEqual(await own.as('service_role', `select pgmq.send('x', '1') as id`), [{ id: '1' }])
    assert.deepEqual(await own.as('service_role', `select pgmq_public.send('x', '1') as id`), [{ id: '2' }])
    assert.deepEqual(await own.values(`select pgmq_public.delete('x', 2)`), [true])
    await assert.rejects(own.as('anon', `select pgmq.pop('x')`), { code: '42501' })
  } finally {
    await next.stop()
    await own.close()
  }
})

test('pgmq: an existing schema pgmq_public of the tenant is kept', async () => {
  const own = await queueProject(platform)
  await asBeforeQueues(own)
  await own.rows(`create schema pgmq_public`)
  await own.rows(
    `create function pgmq_public.send(queue_name text, message jsonb) returns text language sql return 'mine'`,
  )
  const next = await startPlatform({ beside: platform })
  await untilUpgraded(next)
  try {
    const found = await own.rows(`
      select p.proname as name, pg_get_userbyid(p.proowner) as owner, p.proacl::text as acl, n.nspacl::text as schema
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'pgmq_public'`)
    assert.deepEqual(found, [{ name: 'send', owner: `${own.ref}_owner`, acl: null, schema: null }])
    await own.rows(`select pgmq.create('x')`)
    assert.deepEqual(await own.values(`select pgmq.send('x', '1')`), ['1'])
    await own.rows('drop schema pgmq_public cascade')
  } finally {
    await next.stop()
    await own.close()
  }
})

test('pgmq: queues with the same name in different projects are separate', async () => {
  const other = await queueProject(platform)
  assert.deepEqual(await other.values('select queue_name from pgmq.list_queues()'), [])
  await assert.rejects(other.rows(`select pgmq.read('jobs', 0, 1)`), { code: '42P01' })
  await other.rows(`select pgmq.create('jobs')`)
  await other.rows(`select pgmq.send('jobs', '"theirs"')`)
  await project.rows(`select pgmq.send('jobs', '"ours"')`)
  assert.deepEqual(await other.values(`select message from pgmq.pop('jobs')`), ['theirs'])
  const elsewhere = new URL(other.direct)
  elsewhere.pathname = `/${project.ref}`
  const client = new Client({ connectionString: elsewhere.href })
  await assert.rejects(client.connect(), { code: '42501' })
  await client.end().catch(() => {})
  // The name of a queue is locked in one database only.
  const [mine, theirs] = [await project.connect(), await other.connect()]
  await mine.query('begin')
  await mine.query(`select pgmq.create('same')`)
  await theirs.query(`set lock_timeout = '60s'`)
  await theirs.query(`select pgmq.create('same')`)
  await mine.query('rollback')
  await other.close()
})
