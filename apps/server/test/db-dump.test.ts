// db/schema and db/data: dumps of a project's schema and rows as SQL that restores them in another project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const schema = `
  create extension citext with schema extensions;
  create extension hstore;
  create schema app;
  grant usage on schema app to anon, service_role;
  comment on schema app is 'the application''s own';
  create type app.mood as enum ('ok', 'it''s sad');
  create domain positive as int default 1 not null constraint more_than_none check (value > 0);
  create domain moody as app.mood;
  create type pair as (a positive, b app.mood, c text[]);
  create type pairs as (one pair, more pair[]);
  create type span as range (subtype = float8, subtype_diff = float8mi);
  create sequence numbers as int increment by 5 start 10 cache 3 cycle;
  create function next_number(prefix text default 'n''') returns text language plpgsql volatile security definer set search_path = '' as $$
    begin return prefix || nextval('public.numbers'); end $$;
  create table people (
    id bigint generated always as identity (start with 100 increment by 2) primary key,
    "Full ""Name" text collate "C" not null,
    email extensions.citext unique,
    mood app.mood default 'ok',
    code text default next_number('p-'),
    age positive,
    tags hstore default ''::hstore,
    tall numeric(5, 2) check (tall > 0),
    born timestamptz default now(),
    length int generated always as (length("Full ""Name")) stored,
    boss bigint references people on delete set null,
    exclude using btree (email with =)
  ) with (fillfactor = 70);
  comment on table people is 'Who they are';
  comment on column people."Full ""Name" is 'As they say it';
  create table old (id serial, note varchar(20) default 'x', constraint old_key primary key (id) deferrable);
  create table app.orders (id int primary key, person bigint not null references people (id) on update cascade, p pair, span span);
  create table app.lines (order_id int references app.orders, place int, primary key (order_id, place));
  create unlogged table fast (a int);
  create table parted (id int, at date not null, primary key (id, at)) partition by range (at);
  create table parted_2024 partition of parted for values from ('2024-01-01') to ('2025-01-01');
  create table parted_rest partition of parted default;
  create index parted_at on parted (at desc);
  create table base (a int, b text);
  create table derived (c int) inherits (base);
  create unique index people_mood on people (mood, lower(code)) where mood <> 'ok';
  create index on people using gin (tags);
  create statistics people_stats on id, mood from people;
  create function full_name(people) returns text stable language sql begin atomic select $1."Full ""Name" || '!'; end;
  comment on function full_name(people) is 'computed';
  create function orders_of(p people) returns setof app.orders rows 5 stable language sql as 'select * from app.orders where person = p.id';
  create function many(variadic ints int[]) returns table (a int, b text) language sql as 'select 1, null::text';
  create procedure act(inout x int) language plpgsql as $body$ begin x := x + 1; end; $body$;
  create aggregate total (int) (sfunc = int4pl, stype = int, initcond = '0');
  create view named with (security_barrier) as select id, full_name(p) as label from people p;
  create view app.named_again as select * from named where label <> '';
  create view insiders as select * from people where mood = 'ok' with local check option;
  create materialized view app.summary as select mood, count(*) from people group by mood;
  create unique index on app.summary (mood);
  create function touch() returns trigger language plpgsql as $$ begin return new; end $$;
  create trigger touch before update of mood on people for each row when (old.mood is distinct from new.mood) execute function touch();
  create trigger off after insert on old for each statement execute function touch();
  alter table old disable trigger off;
  create rule quiet as on delete to old do also (select 1; select 2);
  create policy mine on people for select to authenticated using (email = auth.email()::extensions.citext);
  create policy "no ""odd"" ones" on people as restrictive for all to public using (id % 2 = 0) with check (age > 0);
  create policy anyone on app.orders using (true);
  comment on policy mine on people is 'own row';
  alter table old disable row level security;
  alter table app.lines disable row level security;
  alter table people force row level security;
  alter table old replica identity full;
  revoke all on old from anon;
  grant select (id) on old to anon;
  grant select, insert on app.orders to authenticated, service_role;
  revoke execute on function next_number from public, anon;
  revoke all on sequence numbers from anon, authenticated;
  alter publication supabase_realtime add table people, app.orders;
  alter default privileges in schema app grant select on tables to anon;
  alter default privileges in schema public revoke insert, update, delete on tables from anon;`

const rows = `
  insert into people ("Full ""Name", email, mood, age, tall, tags, born) values
    ('Ann; ''O''Neil''', 'A@x.test', 'it''s sad', 3, 1.5, 'a=>1', '2024-02-03 04:05:06+02'), (E'B\\\\o\\nb', null, null, 7, null, null, null);
  update people set boss = (select min(id) from people);
  insert into old (note) values ('one'), (null);
  insert into app.orders values (1, (select max(id) from people), row(1, 'ok', '{a,"b c",NULL}'), '[1,2)');
  insert into app.lines values (1, 1), (1, 2);
  insert into parted values (1, '2024-05-05'), (2, '2030-01-01');
  insert into base values (1, 'b'); insert into derived values (2, 'c', 3);`

/** The catalog's description of a schema, without OIDs. */
const description = (project: Project) =>
  project.look<object>(sql`
    with own as (select oid, nspname from pg_namespace where nspowner = ${`${project.ref}_owner`}::regrole and nspname <> 'supabase_migrations')
    select array(select concat_ws(':', nspname, array(select x.grantee::regrole || '=' || x.privilege_type from aclexplode(nspacl) x where x.grantee::regrole::text !~ '^p_' order by 1)) from pg_namespace where oid in (select oid from own) order by 1) as schemas,
      array(select extname || ':' || extnamespace::regnamespace from pg_extension order by 1) as extensions,
      array(select concat_ws(':', c.oid::regclass, relkind, relpersistence, relrowsecurity, relforcerowsecurity, relreplident, reloptions, relispartition,
              pg_get_expr(relpartbound, c.oid), case relkind when 'v' then pg_get_viewdef(c.oid) when 'm' then pg_get_viewdef(c.oid) when 'i' then pg_get_indexdef(c.oid) end,
              array(select x.grantee::regrole || '=' || x.privilege_type from aclexplode(relacl) x where x.grantee::regrole::text !~ '^p_' order by 1),
              obj_description(c.oid, 'pg_class')) from pg_class c where relnamespace in (select oid from own) order by 1) as relations,
      array(select concat_ws(':', a.attrelid::regclass, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, a.attcollation::regcollation,
              pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum), array(select x.grantee::regrole || '=' || x.privilege_type from aclexplode(a.attacl) x where x.grantee::regrole::text !~ '^p_' order by 1), a.attislocal)
              from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
             where c.relnamespace in (select oid from own) and c.relkind in ('r', 'p', 'v', 'm', 'c') and a.attnum > 0 and not a.attisdropped order by 1) as columns,
      array(select concat_ws(':', conrelid::regclass, conname, contype, condeferrable, pg_get_constraintdef(oid)) from pg_constraint where connamespace in (select oid from own) order by 1) as constraints,
      array(select concat_ws(':', oid::regprocedure, array(select x.grantee::regrole || '=' || x.privilege_type from aclexplode(proacl) x where x.grantee::regrole::text !~ '^p_' order by 1), case when prokind <> 'a' then pg_get_functiondef(oid) end, obj_description(oid, 'pg_proc'))
              from pg_proc p where pronamespace in (select oid from own) and not exists (select from pg_depend where objid = p.oid and deptype = 'e') order by 1) as functions,
      array(select concat_ws(':', oid::regtype, typtype, typnotnull, typdefault, (select string_agg(enumlabel, ',' order by enumsortorder) from pg_enum where enumtypid = t.oid))
              from pg_type t where typnamespace in (select oid from own) order by 1) as types,
      array(select concat_ws(':', pg_get_triggerdef(oid), tgenabled) from pg_trigger where not tgisinternal order by 1) as triggers,
      array(select pg_get_ruledef(r.oid) from pg_rewrite r join pg_class c on c.oid = ev_class where relnamespace in (select oid from own) order by 1) as rules,
      array(select concat_ws(':', polrelid::regclass, polname, polcmd, polpermissive, array(select case o when 0 then 'public' else pg_get_userbyid(o) end from unnest(polroles) o),
              pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid), obj_description(oid, 'pg_policy')) from pg_policy order by 1) as policies,
      array(select concat_ws(':', seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle,
              (select refobjid::regclass || '.' || refobjsubid from pg_depend where classid = 'pg_class'::regclass and objid = seqrelid and deptype in ('a', 'i') and refclassid = 'pg_class'::regclass))
              from pg_sequence order by 1) as sequences,
      array(select pg_get_statisticsobjdef(oid) from pg_statistic_ext order by 1) as statistics,
      array(select prrelid::regclass::text from pg_publication_rel order by 1) as published,
      array(select concat_ws(':', defaclnamespace::regnamespace, defaclobjtype, a.grantee::regrole, a.privilege_type) from pg_default_acl, aclexplode(defaclacl) a
             where defaclrole = ${`${project.ref}_owner`}::regrole order by 1) as defaults`)

test('dump: the schema script creates the same schema in an empty project', async () => {
  const [source, target] = await Promise.all([Project.create(platform), Project.create(platform)])
  const pushed = await source.push({ version: '1', sql: schema })
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const pulled = await source.manage('GET', '/db/schema')
  assert.equal(pulled.status, 200, JSON.stringify(pulled.body))
  const again = await target.push({ version: '1', sql: pulled.body.sql })
  assert.equal(again.status, 200, again.body.error?.message)
  const [expected] = await description(source)
  const [actual] = await description(target)
  for (const [part, value] of Object.entries(expected as Record<string, string[]>))
    assert.deepEqual((actual as Record<string, string[]>)[part], value, part)
  // Dumps of equal schemas are equal.
  assert.equal((await target.manage('GET', '/db/schema')).body.sql, pulled.body.sql)
  assert.doesNotMatch(pulled.body.sql, new RegExp(source.ref))
  assert.doesNotMatch(pulled.body.sql, /supabase_migrations|platform\./)
})

test('dump: a new project has an empty schema, and objects that cannot be dumped are named', async () => {
  const project = await Project.create(platform)
  assert.equal((await project.manage('GET', '/db/schema')).body.sql, '')
  await project.push({
    version: '1',
    sql: 'create operator === (leftarg = int, rightarg = int, function = int4eq)',
  })
  const { body } = await project.manage('GET', '/db/schema')
  assert.match(body.sql, /^-- Not in here, to be made by hand: operator public\.===\(integer,integer\)$/m)
})

test('dump: the data script restores the rows of the tables', async () => {
  const [source, target] = await Promise.all([Project.create(platform), Project.create(platform)])
  const sent = [{ version: '1', sql: schema }]
  assert.equal((await target.push(...sent)).status, 200)
  const filled = await source.push(...sent, {
    version: '2',
    sql: `alter table people no force row level security; ${rows}`,
  })
  assert.equal(filled.status, 200, filled.body.error?.message)
  const pulled = await source.manage('GET', '/db/data')
  assert.equal(pulled.status, 200, JSON.stringify(pulled.body))
  assert.ok(pulled.body.sql.indexOf('app.orders') < pulled.body.sql.indexOf('app.lines'))
  const again = await target.push({
    version: '2',
    sql: `alter table people no force row level security; ${pulled.body.sql}`,
  })
  assert.equal(again.status, 200, again.body.error?.message)
  const contentOf = sql`
    select array(select p::text from public.people p order by 1) as people, array(select o::text from public.old o order by 1) as old,
           array(select o::text from app.orders o order by 1) as orders, array(select l::text from app.lines l order by 1) as lines,
           array(select tableoid::regclass || p::text from public.parted p order by 1) as parted,
           array(select tableoid::regclass || b::text from public.base b order by 1) as base,
           array(select sequencename || ':' || last_value from pg_sequences where schemaname <> 'platform' order by 1) as sequences`
  assert.deepEqual(await target.look(contentOf), await source.look(contentOf))
  const forced = await Project.create(platform)
  await forced.push({
    version: '1',
    sql: 'create table t (a int); insert into t values (1); alter table t force row level security',
  })
  const refused = await forced.manage('GET', '/db/data')
  assert.equal(refused.status, 403, 'rows hidden by a policy are an error, not left out')
})

test('dump: the difference to the recorded migrations is dumped alone and gives the same schema elsewhere', async () => {
  const [source, target] = await Promise.all([Project.create(platform), Project.create(platform)])
  const migrations = [
    {
      version: '1',
      sql: `create type mood as enum ('a', 'c');
        create table kept (id int primary key, old text, changed int default 1, free text not null, code text, mood mood, twice int generated always as (changed * 2) stored);
        create table dropped (id int primary key, parent int references kept);
        create index dropped_index on dropped (parent); create policy p on dropped using (true); comment on table dropped is 'x'; comment on index dropped_index is 'y';
        create index kept_index on kept (old); create index other_index on kept (code);
        create view v as select id from kept; create view gone as select 1 as a;
        create function f() returns int language sql as 'select 1'; create function no_more(a int) returns int language sql as 'select 1';
        comment on function no_more is 'x';
        create policy p on kept using (id > 1); create policy q on kept using (true);
        create function touch() returns trigger language plpgsql as 'begin return new; end';
        create trigger t before update on kept for each row execute function touch();
        alter table kept disable row level security;`,
    },
    { version: '2', sql: '-- no-transaction\ncreate index concurrently later on kept (changed);' },
  ]
  assert.equal((await source.push(...migrations)).status, 200)
  const none = await source.manage('GET', '/db/schema?beyond_migrations=true')
  assert.deepEqual([none.status, none.body.sql], [200, ''])

  await source.asOwner(session =>
    session.script(`
      set search_path = public;
      drop table dropped; drop view gone; drop function no_more; drop index other_index; drop policy q on kept;
      alter table kept enable row level security;
      drop view v; drop index kept_index; alter table kept drop column old; alter table kept add column fresh numeric(4, 1) not null default 0.5;
      alter table kept alter column free drop not null, alter column code set not null, alter column code set default 'n';
      alter type mood add value 'b' before 'c'; alter type mood add value 'd';
      create view v as select id, fresh from kept where id > 0;
      create or replace function f() returns int language sql as 'select 2';
      alter policy p on kept using (id > 2);
      alter table kept disable trigger t;
      alter table kept add constraint positive check (changed > 0);
      create table made (id int primary key references kept, at timestamptz default now()); create policy own on made to anon using (true);
      create schema app; create table app.things (id serial primary key, mood mood); grant usage on schema app to anon; grant select on app.things to anon;
      comment on table made is 'by hand';`),
  )
  const { status, body } = await source.manage('GET', '/db/schema?beyond_migrations=true')
  assert.equal(status, 200, JSON.stringify(body))
  const pushed = await target.push(...migrations, { version: '3', name: 'remote_schema', sql: body.sql })
  assert.equal(pushed.status, 200, pushed.body.error?.message)
  const [expected] = await description(source)
  const [actual] = await description(target)
  for (const [part, value] of Object.entries(expected as Record<string, string[]>))
    assert.deepEqual((actual as Record<string, string[]>)[part], value, part)

  // Once recorded it is no longer part of the difference and does not run again.
  const recorded = await source.manage('POST', '/db/migrations', {
    migrations: [{ version: '3', name: 'remote_schema', sql: body.sql }],
  })
  assert.deepEqual(recorded.body, { recorded: [{ version: '3', name: 'remote_schema' }], skipped: [] })
  assert.equal((await source.manage('GET', '/db/schema?beyond_migrations=true')).body.sql, '')
  const again = await source.push(...migrations, { version: '3', sql: body.sql })
  assert.deepEqual([again.status, again.body.applied], [200, []])
  const changed = await source.manage('POST', '/db/migrations', {
    migrations: [{ version: '3', sql: 'select 1' }],
  })
  assert.deepEqual([changed.status, changed.body.error.code], [409, 'migration_changed'])
  const left = await source.look(sql`select datname from pg_database where datname like ${`${source.ref}_%`}`)
  assert.deepEqual(left, [])
})

test('dump: migrations that cannot run on an empty project are named', async () => {
  const project = await Project.create(platform)
  await project.manage('POST', '/db/migrations', {
    migrations: [{ version: '1', name: 'odd', sql: 'alter table absent add column a int' }],
  })
  const { status, body } = await project.manage('GET', '/db/schema?beyond_migrations=true')
  assert.deepEqual([status, body.error.code], [400, 'migration_failed'])
  assert.match(
    body.error.message,
    /cannot be applied to an empty project.*Migration 1 \(odd\) failed at line 1/s,
  )
  assert.deepEqual(await platform.projects.remove({ params: { id: project.id } }), undefined)
})
