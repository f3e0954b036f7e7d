// The diff of a branch, applied to its parent: the schemas are equal afterwards, and so are the rights in them.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import { anyHoldMs, branchesOf } from './branch-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ branchHoldMs: anyHoldMs })
})
after(() => platform.stop())

/** What callers may do with each object, column and schema, and policies that decide about rows. */
const rights: SqlFragment = sql`
  with caller (name) as (values ('anon'), ('authenticated'), ('service_role')),
  place as (
    select oid, nspname from pg_namespace
     where pg_get_userbyid(nspowner) like 'p\_%' and nspname <> 'supabase_migrations' and nspname !~ '^pg_' or nspname in ('storage', 'realtime'))
  select concat_ws(' ', r.name, c.oid::regclass, a.attname, p.privilege) as right
    from pg_class c join place on place.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped,
         caller r, (values ('select'), ('insert'), ('update'), ('references')) p (privilege)
   where c.relkind in ('r', 'v', 'm', 'p') and has_column_privilege(r.name, c.oid, a.attnum, p.privilege)
  union all
  select concat_ws(' ', r.name, c.oid::regclass, p.privilege)
    from pg_class c join place on place.oid = c.relnamespace, caller r, (values ('select'), ('insert'), ('update'), ('delete'), ('truncate'), ('trigger')) p (privilege)
   where c.relkind in ('r', 'v', 'm', 'p') and has_table_privilege(r.name, c.oid, p.privilege)
  union all
  select concat_ws(' ', r.name, s.relname, 'usage') from pg_class s join place on place.oid = s.relnamespace, caller r
   where s.relkind = 'S' and has_sequence_privilege(r.name, s.oid, 'usage')
  union all
  select concat_ws(' ', r.name, f.oid::regprocedure) from pg_proc f join place on place.oid = f.pronamespace, caller r
   where has_function_privilege(r.name, f.oid, 'execute')
  union all
  select concat_ws(' ', r.name, nspname, p.privilege) from place, caller r, (values ('usage'), ('create')) p (privilege)
   where has_schema_privilege(r.name, place.oid, p.privilege)
  union all
  select concat_ws(' ', polrelid::regclass, polname, polcmd, polroles::regrole[], pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) from pg_policy
  union all
  select concat_ws(' ', c.oid::regclass, 'row-level security', c.relrowsecurity, c.relforcerowsecurity) from pg_class c join place on place.oid = c.relnamespace
   where c.relkind in ('r', 'p')
  union all
  select concat_ws(' ', c.oid::regclass, c.reloptions) from pg_class c join place on place.oid = c.relnamespace where c.relkind = 'v'
  order by 1`

interface Applied {
  parent: Project
  branch: Project
  /** The diff. */
  script: string
  isDestructive: boolean
}

/** Changes a branch, and perhaps its parent, and pushes the diff to the parent. */
async function applied(start: string, change: string, ofParent = ''): Promise<Applied> {
  const parent = await Project.create(platform)
  const push = async (project: Project, version: string, text: string) => {
    const { status, body } = await project.push({ version, sql: text })
    assert.equal(status, 200, `${body.error?.message}\n\n${text}`)
  }
  await push(parent, '1', start)
  const branches = branchesOf(platform, parent.id)
  const { id } = await branches.create({ name: 'change' })
  const branch = new Project(platform, id, await platform.refOf(id))
  const params = { id: parent.id, slug: 'change' }
  assert.deepEqual(await branches.api.diff({ params }), { is_destructive: false, sql: '' })
  await push(branch, '2', change)
  if (ofParent !== '') await push(parent, '2', ofParent)
  const { sql: script, is_destructive: isDestructive } = await branches.api.diff({ params })
  await push(parent, '3', script)
  assert.equal((await branches.api.diff({ params })).sql, '', script)
  assert.deepEqual(await parent.look(rights), await branch.look(rights), script)
  return { parent, branch, script, isDestructive }
}

const closed = 'anon, authenticated, service_role'
/** The name of the login differs between projects. */
const grantToLogin = `do $$ begin execute format('grant select on public.other to %I', replace(current_user, '_owner', '_svc')); end $$;`

test('branch diff: a changed view, function or materialized view keeps its grants, options and all that hangs on it', async () => {
  const { parent, script } = await applied(
    `create table people (id int primary key, name text, salary int);
     create view payroll with (security_invoker = false) as select id, name from people;
     revoke all on payroll from ${closed};
     create view other with (security_invoker = false) as select id, name from people;
     revoke all on other from ${closed};
     grant select (id) on other to anon; grant update (name) on other to authenticated;
     comment on view other is 'of others'; comment on column other.id is 'number';
     ${grantToLogin}
     create view dependent with (security_invoker = false) as select name from other;
     revoke all on dependent from ${closed}; grant select on dependent to authenticated;
     create function instead() returns trigger language plpgsql as 'begin return new; end';
     create trigger instead instead of insert on other for each row execute function instead();
     comment on trigger instead on other is 'nothing';
     create rule quiet as on delete to other do instead nothing;
     create function of_view() returns setof other language sql as 'select * from public.other';
     revoke all on function of_view from public, ${closed};
     create materialized view counted as select name, count(*) from people group by name;
     grant select on counted to authenticated; revoke all on counted from service_role;
     create unique index on counted (name); comment on materialized view counted is 'numbers';
     create function secret() returns int language sql security definer as 'select 1';
     revoke all on function secret from public, ${closed}; grant execute on function secret to service_role;
     comment on function secret is 'ssh';
     create policy own on people using (secret() > 0);
     create function plain(a int) returns int language sql as 'select 1'; revoke all on function plain from public, anon;
     create aggregate total (int) (sfunc = int4pl, stype = int);
     revoke all on function total(int) from public, ${closed};
     create type pair as (a int, b text); create function of_pair(pair) returns int language sql as 'select 1';
     revoke usage on type pair from public; grant usage on type pair to authenticated;
     revoke all on function of_pair from public, ${closed};
     create table replaced (id int); revoke all on replaced from ${closed};`,
    `create or replace view payroll with (security_invoker = false) as select id, name, salary from people;
     drop policy own on people;
     drop function of_view; drop view dependent; drop view other;
     create view other with (security_invoker = false) as select id::bigint, name, salary from people;
     revoke all on other from ${closed};
     grant select (id) on other to anon; grant update (name) on other to authenticated;
     comment on view other is 'of others'; comment on column other.id is 'number';
     ${grantToLogin}
     create view dependent with (security_invoker = false) as select name from other;
     revoke all on dependent from ${closed}; grant select on dependent to authenticated;
     create trigger instead instead of insert on other for each row execute function instead();
     comment on trigger instead on other is 'nothing';
     create rule quiet as on delete to other do instead nothing;
     create function of_view() returns setof other language sql as 'select * from public.other';
     revoke all on function of_view from public, ${closed};
     drop materialized view counted; create materialized view counted as select name, count(*), max(id) from people group by name;
     grant select on counted to authenticated; revoke all on counted from service_role;
     create unique index on counted (name); comment on materialized view counted is 'numbers';
     drop function secret; create function secret() returns bigint language sql security definer as 'select 1';
     revoke all on function secret from public, ${closed}; grant execute on function secret to service_role;
     comment on function secret is 'ssh';
     create policy own on people using (secret() > 0);
     drop function plain; create function plain(b int, c int default 1) returns int language sql as 'select 2';
     drop aggregate total (int); create aggregate total (int) (sfunc = int4pl, stype = int, initcond = '1');
     revoke all on function total(int) from public, ${closed};
     drop function of_pair; drop type pair;
     create type pair as (a int, b text, c int); create function of_pair(pair) returns int language sql as 'select 1';
     revoke usage on type pair from public; grant usage on type pair to authenticated;
     revoke all on function of_pair from public, ${closed};
     drop table replaced; create view replaced with (security_invoker = false) as select salary from people; revoke all on replaced from ${closed};`,
  )
  assert.match(script, /create or replace view public\.payroll/)
  assert.match(script, /-- destructive\ndrop materialized view public\.counted/)
  assert.match(script, new RegExp(`grant select on table public\\.other to ${parent.ref}_svc`))
  assert.match(script, /grant usage on type public\.pair to authenticated/)
  const readable = await parent.look<{
    payroll: boolean
    other: boolean
    replaced: boolean
    secret: boolean
  }>(sql`
    select has_table_privilege('anon', 'public.payroll', 'select') as payroll, has_table_privilege('anon', 'public.other', 'select') as other,
           has_table_privilege('anon', 'public.replaced', 'select') as replaced, has_function_privilege('anon', 'public.secret()', 'execute') as secret`)
  assert.deepEqual(readable, [{ payroll: false, other: false, replaced: false, secret: false }])
})

test('branch diff: identity and generated columns change in place, and columns created again keep what uses them', async () => {
  const { parent, script } = await applied(
    `create table people (id int primary key, name text, length int generated always as (length(name)) stored);
     insert into people values (7, 'seven'), (9, 'nine');
     create table orders (id serial primary key, person int references people); insert into orders (person) values (7), (9), (9);
     create table numbered (a int generated by default as identity (start 10 increment 5), b int generated always as identity (maxvalue 50), c int generated always as identity);
     create table codes (id int, code int, note text);
     insert into codes values (1, 2, 'x');
     create unique index codes_code on codes (code); alter table codes add constraint positive check (code > 0);
     comment on column codes.code is 'a code';
     revoke all on codes from ${closed}; grant select (code) on codes to anon; grant select (id, note) on codes to authenticated;
     create policy visible on codes for select using (code > 1);
     create view shown with (security_invoker = false) as select id, code from codes; revoke all on shown from ${closed};
     create table typed (id int, kind int, note text default 'n', twice int generated always as (kind * 2) stored);
     create index typed_kind on typed (kind); create policy kinds on typed using (kind > 0);
     create view kinds with (security_invoker = true) as select kind from typed; revoke all on kinds from anon`,
    `alter table people alter column id add generated always as identity;
     alter table people alter column length set expression as (length(name) * 2);
     alter table orders alter column id drop default; drop sequence orders_id_seq;
     alter table orders alter column id add generated by default as identity (start 100);
     alter table numbered alter column a set generated always, alter column a set start 20, alter column b drop identity, alter column c set increment 3;
     drop view shown; drop policy visible on codes; alter table codes drop column code;
     alter table codes add column code int generated always as (id + 1) stored;
     create unique index codes_code on codes (code); alter table codes add constraint positive check (code > 0);
     comment on column codes.code is 'a code';
     grant select (code) on codes to anon;
     create policy visible on codes for select using (code > 1);
     create view shown with (security_invoker = false) as select id, code from codes; revoke all on shown from ${closed};
     drop view kinds; drop policy kinds on typed; alter table typed drop column twice; alter table typed alter column kind type bigint;
     alter table typed alter column note type varchar(20) collate "C"; alter table typed add column twice bigint generated always as (kind * 2) stored;
     create policy kinds on typed using (kind > 0);
     create view kinds with (security_invoker = true) as select kind from typed; revoke all on kinds from anon`,
  )
  assert.match(script, /alter table public\.people alter column id add generated always as identity;/)
  assert.doesNotMatch(script, /(?:people|orders|numbered) (?:drop|add) column/)
  assert.match(script, /-- destructive\nalter table public\.codes drop column code;/)
  await parent.asOwner(session =>
    session.script(
      `insert into public.people (name) values ('new'); insert into public.orders (person) values (9)`,
    ),
  )
  const rows = await parent.look(sql`
    select array(select format('%s %s', id, length) from public.people order by id) as people, array(select id from public.orders order by id) as orders,
           array(select format('%s %s', id, code) from public.codes) as codes`)
  assert.deepEqual(rows, [{ people: ['7 10', '9 8', '10 6'], orders: [1, 2, 3, 100], codes: ['1 2'] }])
})

test('branch diff: has grants that were taken back, default privileges, and policies and triggers on tables of the platform', async () => {
  const { parent, script, isDestructive } = await applied(
    `create table secrets (id int, note text, open text);
     grant select (open) on secrets to anon; revoke all on secrets from anon; grant select (open), update (note) on secrets to anon;
     create table closed (id int); revoke all on closed from anon, authenticated;
     create table half (id int, note text); revoke update, delete on half from anon; grant select (id) on half to anon;
     create function f() returns int language sql as 'select 1'; revoke all on function f from public, anon;
     create schema app; grant usage on schema app to anon; grant usage on schema app to authenticated;
     create table app.things (id int); grant select on app.things to anon;
     alter default privileges in schema app grant select on tables to anon;
     alter default privileges revoke execute on functions from public;
     create function handle() returns trigger language plpgsql security definer as 'begin return new; end';
     create trigger gone after insert on auth.users for each row execute function handle();
     create trigger kept after update on auth.users for each row execute function handle();
     create policy "public avatars" on storage.objects for select using (bucket_id = 'avatars');
     create policy "mine" on storage.buckets for select using (true);`,
    `revoke all (note) on secrets from anon;
     grant select, insert, update, delete on closed to anon, authenticated;
     revoke select on half from anon; grant select (id) on half to anon;
     grant execute on function f to public, anon;
     revoke usage on schema app from anon; revoke select on app.things from anon;
     revoke usage on schema public from anon;
     alter default privileges in schema app revoke select on tables from anon;
     alter default privileges in schema public revoke select on tables from authenticated;
     alter default privileges grant execute on functions to public;
     create table later (id int); grant select, insert, update, delete on later to authenticated;
     create function later() returns int language sql as 'select 1';
     create or replace view seen as select id from later;
     drop trigger gone on auth.users; alter table auth.users disable trigger kept;
     create trigger made after delete on auth.users for each row execute function handle();
     comment on trigger made on auth.users is 'cleans up';
     drop policy "public avatars" on storage.objects;
     create policy "public avatars" on storage.objects for select using (bucket_id in ('avatars', 'faces'));
     drop policy "mine" on storage.buckets; drop policy "objects of public buckets are read by their names" on storage.objects;
     create policy "members listen" on realtime.messages for select to authenticated using (true);
     revoke delete on storage.objects from anon;
     create trigger stamp before update on storage.objects for each row execute function handle();`,
    'alter default privileges in schema public revoke insert on tables from anon',
  )
  assert.equal(isDestructive, false, script)
  assert.match(script, /revoke update \(note\) on public\.secrets from anon/)
  assert.match(script, /create policy "members listen" on realtime\.messages/)
  const triggers = await parent.look(
    sql`select tgname || tgenabled::text as name from pg_trigger where tgrelid = 'auth.users'::regclass and tgfoid = 'public.handle'::regproc order by 1`,
  )
  assert.deepEqual(triggers, [{ name: 'keptD' }, { name: 'madeO' }])
  // A dump has those of the project, and not those that every project begins with.
  const { body } = await parent.manage('GET', '/db/schema')
  assert.match(body.sql, /create policy "public avatars" on storage\.objects/)
  assert.match(body.sql, /CREATE TRIGGER made AFTER DELETE ON auth\.users/)
  assert.doesNotMatch(body.sql, /user- buckets/)
})

test('branch diff: new labels of an enum can be used by the same migration', async () => {
  const { parent, script } = await applied(
    `create type mood as enum ('a'); create type size as enum ('s');
     create table things (id int, mood mood default 'a', size size)`,
    `-- no-transaction
     alter type mood add value 'x' before 'a'; alter type mood add value 'y' before 'a'; alter type size add value 'it''s';
     alter table things alter column mood set default 'y';
     create policy small on things using (size <> 'it''s');`,
  )
  assert.match(script, /^-- no-transaction\n/)
  const labels = sql`select enumlabel from pg_enum e where enumtypid = 'public.mood'::regtype order by enumsortorder`
  assert.deepEqual(await parent.look(labels), [{ enumlabel: 'x' }, { enumlabel: 'y' }, { enumlabel: 'a' }])

  const unused = await applied(
    `create type mood as enum ('a')`,
    `alter type mood add value 'b'; create table others (id int)`,
  )
  assert.doesNotMatch(unused.script, /no-transaction/)
})

test('branch diff: drops what was used, keeps what is used, and lists what is left to do', async () => {
  const { script } = await applied(
    `create type mood as enum ('a', 'b'); create sequence numbers; create sequence changed;
     create function code() returns text language sql as $$ select 'c' $$;
     create function check_it(t text) returns boolean language sql immutable as 'select true';
     create table things (id serial, mood mood default 'a', number int default nextval('numbers'), code text default code(), note text check (check_it(note)));
     create table parents (id int primary key, code text unique); create table children (id int references parents, code text references parents (code));
     create view all_things with (security_invoker = true) as select * from things;
     create view some_things with (security_invoker = true) as select id, note from all_things;
     create policy noted on things using (check_it(note));`,
    `drop view some_things; drop view all_things;
     alter table things alter column mood drop default; alter table things alter column mood type text; drop type mood;
     alter table things alter column number drop default; drop sequence numbers;
     alter table things drop column id; alter table things alter column code set default 'd'; drop function code;
     alter table things alter column note set default 'x', alter column note set not null;
     alter sequence changed increment by 5 cycle;
     drop policy noted on things; alter table things drop constraint things_note_check; drop function check_it;
     create function check_it(what text) returns boolean language sql immutable as 'select true';
     alter table things add constraint things_note_check check (check_it(note)); create policy noted on things using (check_it(note));
     alter table children drop constraint children_code_fkey; alter table parents alter column code type int using code::int;
     alter table children alter column code type int using code::int; alter table children add foreign key (code) references parents (code);
     create view all_things with (security_invoker = true) as select mood, note from things;
     create view some_things with (security_invoker = true) as select note from all_things;`,
  )
  assert.doesNotMatch(script, /by hand/)

  const parent = await Project.create(platform)
  await parent.push({
    version: '1',
    sql: `create type mood as enum ('a', 'b'); create table things (a int, mood mood, b int);
          create operator === (leftarg = int, rightarg = int, function = int4eq)`,
  })
  const branches = branchesOf(platform, parent.id)
  const { id } = await branches.create({ name: 'change' })
  const branch = new Project(platform, id, await platform.refOf(id))
  await branch.push({
    version: '2',
    sql: `drop operator === (int, int); alter table things alter column mood type text; drop type mood; create type mood as enum ('b');
          alter table things alter column mood type mood using mood::mood; alter table things drop column a; alter table things add column a int`,
  })
  const difference = await branches.api.diff({ params: { id: parent.id, slug: 'change' } })
  assert.equal(difference.is_destructive, false)
  assert.deepEqual(
    [...difference.sql.matchAll(/by hand: (.*)$/gm)].map(([, what]) => what),
    [
      'public.mood, which differs',
      'public.things, whose columns have another order',
      'operator public.===(integer,integer), which is to be dropped',
    ],
  )
})
