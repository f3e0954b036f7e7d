// Code of a tenant runs while its backup is verified and restored, but never with the rights of the superuser.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { restoredOf, verifyOf } from '#src/tenancy/provision.ts'
import { backedUpProject } from './backup-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type Trapped, trappedProject } from './trapped-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

/** Verifies and restores a backup, and checks that nothing was caught. */
async function assertSafe({ project, caught }: Trapped): Promise<void> {
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  const verified = await project.verify(backup.id)
  assert.deepEqual(await caught(), [], 'during the verification')
  assert.equal(verified.verify_error, null)
  const restored = await project.restore(backup.id)
  assert.deepEqual(await caught(), [], 'during the restore')
  assert.deepEqual([restored.status, restored.error], ['done', null])
}

test('backups: functions in objects of the tenant run with its own rights', async () => {
  const trapped = await trappedProject(platform)
  await trapped.project.sql(`
    create domain checked as int check (trap('domain'));
    create type pair as (first checked, second text);
    create function zero() returns int language plpgsql as $$ begin perform trap('default'); return 0; end $$;
    create table things (
      id int primary key, made boolean generated always as (calm_trap('generated')) stored, size checked default zero(),
      sizes checked[], pair pair, check (trap('check')), constraint pairs check (pair is distinct from '(99,x)'::pair));
    create index on things ((calm_trap('index')));
    create index on things (id) where calm_trap('partial index');
    create statistics on (calm_trap('statistics')), id from things;
    insert into things (id, size, sizes, pair) select n, n, array[n], row(n, 'x')::pair from generate_series(1, 50) n;
    create view seen as select id, trap('view') from things;
    create materialized view counted as select id, trap('materialized view') from things;
    create function on_change() returns trigger language plpgsql as $$ begin perform trap('trigger'); return new; end $$;
    create trigger on_change before insert or update on things for each row when (trap('when')) execute function on_change();
    create rule seen as on update to things where trap('rule') do also select 1;
    alter table things enable row level security; alter table things force row level security;
    create policy seen on things using (trap('policy'));
    create policy seen on storage.objects using (trap('storage policy'));
    create type mood as enum ('good', 'bad');
    create function to_mood(text) returns mood language plpgsql as $$ begin perform trap('cast'); return 'good'; end $$;
    create cast (text as mood) with function to_mood(text) as implicit;
    create function same(mood, mood) returns boolean language plpgsql as $$ begin return trap('operator'); end $$;
    create operator = (leftarg = mood, rightarg = mood, function = same);
    create table parts (id int, check (trap('partition'))) partition by range (id);
    create table parts_one partition of parts for values from (0) to (10);
    insert into parts values (1);
    create table followers (id int references things, primary key (id));
    insert into followers values (1), (2)`)
  await assertSafe(trapped)
})

test('backups: a constant in a trigger on users is read with the rights of the tenant', async () => {
  const trapped = await trappedProject(platform)
  // An array of a domain runs the check of the domain when the statement with the constant is parsed.
  await trapped.project.sql(`
    create domain checked as int check (trap('constant'));
    create function on_user() returns trigger language plpgsql as $$ begin return new; end $$;
    create trigger "a first" after insert on auth.users for each row
      when (new.email is distinct from ('{1}'::checked[])::text) execute function on_user();
    create trigger disabled after insert on auth.users for each row execute function on_user();
    alter table auth.users disable trigger disabled`)
  await assertSafe(trapped)
})

test('backups: an object whose name looks like one of the platform is created by the tenant', async () => {
  const trapped = await trappedProject(platform)
  const constant = `when (('{1}'::checked[]) is not null)`
  await trapped.project.sql(`
    create domain checked as int check (trap('constant'));
    create table things (id int);
    create function noted() returns trigger language plpgsql as $$ begin return new; end $$;
    create trigger "EXECUTE FUNCTION platform.note_change()" after insert on things for each row
      ${constant} execute function noted();
    create trigger second after insert on things for each row
      ${constant} execute function noted('EXECUTE FUNCTION platform.note_change()', '', 'EXECUTE FUNCTION platform.note_change(''');
    create function "EXECUTE FUNCTION platform.note_change()"() returns trigger language plpgsql as $$ begin return new; end $$;
    create trigger third after insert on things for each row ${constant} execute function "EXECUTE FUNCTION platform.note_change()"()`)
  await assertSafe(trapped)
})

test('backups: names with quotes, semicolons and lines are only names', async () => {
  const trapped = await trappedProject(platform)
  const odd = [
    `a"b`,
    `a'b`,
    `a;b`,
    `"; create role trapped superuser; --`,
    `a\nb`,
    `a\\b`,
    `a b`,
    `$$`,
    `{a,b}`,
    `ä`,
  ]
  for (const [place, name] of odd.entries()) {
    const quoted = `"${name.replaceAll('"', '""')}"`
    await trapped.project.sql(`
      create schema ${quoted};
      create table ${quoted}.${quoted} (${quoted} serial primary key, "more\n;${place}" text);
      insert into ${quoted}.${quoted} select from generate_series(1, 3);
      create materialized view ${quoted}."view ${place}" as select * from ${quoted}.${quoted};
      create index ${quoted.replace(/"$/, ' index"')} on ${quoted}.${quoted} ("more\n;${place}");
      comment on table ${quoted}.${quoted} is 'x; "y" '' z';
      grant select on ${quoted}.${quoted} to anon;
      create function ${quoted}.${quoted}() returns trigger language plpgsql as 'begin return new; end';
      create trigger ${quoted} before insert on ${quoted}.${quoted} for each row execute function ${quoted}.${quoted}();
      create trigger ${quoted} after insert on auth.users for each row execute function ${quoted}.${quoted}()`)
  }
  await assertSafe(trapped)
})

test('backups: what other roles of the project own is created and filled without the superuser', async () => {
  const trapped = await trappedProject(platform)
  const { project } = trapped
  await project.sql(`
    grant create on schema public to service_role, authenticated;
    create function make() returns void language plpgsql as $make$ begin
      create domain their_domain as int check (public.trap('their domain'));
      create table their_table (id int generated always as identity primary key, size public.their_domain,
        made boolean generated always as (public.calm_trap('their table')) stored);
      insert into their_table (size) values (1), (2);
      create index their_index on their_table ((public.calm_trap('their index')));
      create materialized view their_view as select id, public.trap('their view') from public.their_table;
      create function their_function() returns trigger language plpgsql as $$ begin return new; end $$;
      create trigger their_trigger after insert on their_table for each row
        when (('{1}'::public.their_domain[]) is not null) execute function their_function();
      grant select on their_table to anon;
    end $make$`)
  const made = await platform.call('POST', `/v1/rest/${project.id}/rpc/make`, {
    token: project.service_role_key,
    body: {},
  })
  assert.ok(made.status < 300, JSON.stringify(made.body))
  const owners = () =>
    project.rows<{ name: string; owner: string; rights: string }>(`
      select relname as name, relowner::regrole::text as owner,
             coalesce(relacl, acldefault('r', relowner))::text as rights
        from pg_class where relname like 'their%' order by 1`)
  const before = await owners()
  assert.ok(before.some(({ name, owner }) => name === 'their_table' && owner === 'service_role'))
  await assertSafe(trapped)
  assert.deepEqual(await owners(), before)
})

test('backups: a trigger of the tenant does not use a function of the platform while it is created', async () => {
  const trapped = await trappedProject(platform)
  // The function compares the column with a transaction number, which calls the cast of the tenant.
  await trapped.project.sql(`
    create type m as enum ('a');
    create function evil(m) returns xid8 language plpgsql as $$ begin
      perform public.trap('count_catalog_change');
      return '1'::pg_catalog.xid8;
    end $$;
    create cast (m as xid8) with function evil(m) as implicit;
    create table bait (xid m);
    create function attack() returns boolean language plpgsql as $$ begin
      begin
        create trigger attack after insert on public.bait for each row execute function platform.count_catalog_change();
        perform platform.note_catalog_change();
        insert into public.bait values ('a');
      exception when others then
      end;
      return true;
    end $$;
    create table attacks (id int check (attack()));
    insert into attacks values (1)`)
  await assertSafe(trapped)
})

test('backups: the tenant cannot overload a function of the platform that runs with more rights', async () => {
  const trapped = await trappedProject(platform)
  // Indexes that platform.first_time needs are there when the view is refreshed. It calls platform.is_reserved, for
  // which a function that takes a name was the better match.
  await trapped.project.sql(`
    create function attack() returns boolean language plpgsql as $attack$ begin
      begin
        create function platform.is_reserved(name) returns boolean language plpgsql as $$ begin
          return public.trap('overload');
        end $$;
        perform platform.first_time('public.attacks'::regclass);
        drop function platform.is_reserved(name);
      exception when insufficient_privilege then
      end;
      return true;
    end $attack$;
    create table attacks (id int);
    create materialized view counted as select attack()`)
  await assertSafe(trapped)
})

test('backups: the function that counts changes of the catalogue runs for no other table', async () => {
  const project = await backedUpProject(platform)
  await project.sql('create table bait (xid int)')
  const ref = await platform.refOf(project.id)
  const inserting = platform.asSuperuser(ref, session =>
    session.script(`
      create trigger attack after insert on public.bait for each row execute function platform.count_catalog_change();
      insert into public.bait values (1)`),
  )
  await assert.rejects(inserting, /only for platform.catalog_change/)
})

test('backups: code of the tenant finds the rights and guards of the live database in a copy, wherever it runs', async () => {
  const trapped = await trappedProject(platform)
  const { project } = trapped
  const owner = `${await platform.refOf(project.id)}_owner`
  const closed = await project.rows<{ name: string }>(`
    select p.oid::regprocedure::text as name from pg_proc p
     where p.pronamespace::regnamespace::text in ('platform', 'auth', 'pgmq', 'pgmq_public', 'realtime', 'storage')
       and not has_function_privilege('${owner}', p.oid, 'execute') order by 1`)
  const names = closed.map(({ name }) => name)
  for (const name of [
    'platform.count_catalog_change()',
    'platform.note_change()',
    'platform.capture_insert()',
  ])
    assert.ok(names.includes(name), name)
  // The functions exist before the constants of domains are read. The copy has all of them by then.
  await project.sql(`
    create function check_rights() returns boolean language plpgsql as $$
    declare
      open text;
    begin
      select string_agg(name, ', ') into open
        from unnest(array['${names.join("', '")}']) as name
       where coalesce(has_function_privilege(current_user, to_regprocedure(name), 'execute'), true);
      if open is not null then
        raise exception 'open: %', open;
      elsif not exists (select from pg_event_trigger where evtname = 'platform_auth_owner' and evtenabled = 'A') then
        raise exception 'nothing guards the tables of users';
      elsif has_table_privilege(current_user, 'pg_catalog.pg_stat_activity', 'select') then
        raise exception 'activity of other tenants is shown';
      elsif has_schema_privilege(current_user, 'platform', 'create') or has_schema_privilege(current_user, 'auth', 'create') then
        raise exception 'functions of the platform can be overloaded';
      end if;
      return true;
    end $$;
    create domain careful as int check (check_rights());
    create function with_constant(given careful[] default '{1}'::careful[]) returns int language sql as 'select 1';
    create table carefully (id careful, check (check_rights()));
    alter default privileges in schema platform grant select on tables to anon;
    alter default privileges in schema auth grant select on tables to anon;
    insert into carefully values (1)`)
  await project.auth('POST', '/signup', { email: 'someone@example.test', password: 'correct horse' })
  await assertSafe(trapped)
})

test('backups: a cast of the tenant to json changes no right of the owner of the change capture', async () => {
  const { project } = await trappedProject(platform)
  await project.sql('create table things (id int)')
  const { id: webhook } = await project.create('https://example.com/hook')
  await project.attach(webhook, 'things', ['INSERT'])
  // A copy has no event trigger yet that would keep row_to_json from the cast when its views are filled.
  await project.sql(`
    create type m as enum ('a');
    create function evil(m) returns json language plpgsql as $evil$ begin
      if current_user not like '%owner' then
        grant execute on function platform.note_change() to public;
        raise exception 'a right was changed as %', current_user;
      end if;
      return '{}';
    end $evil$;
    create function attack() returns boolean language plpgsql as $attack$ begin
      if exists (select from pg_catalog.pg_event_trigger where evtname = 'platform_webhooks') then
        return true;
      end if;
      create cast (public.m as json) with function public.evil(public.m) as implicit;
      alter table public.things add column x public.m;
      begin
        insert into public.things values (1, 'a');
        raise exception 'nothing ran' using errcode = 'assert_failure';
      exception when insufficient_privilege then
      end;
      alter table public.things drop column x;
      drop cast (public.m as json);
      return true;
    end $attack$;
    create materialized view counted as select attack()`)
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  const { verify_error: error } = await project.verify(backup.id)
  // The cast has run, but what it changes was refused.
  assert.equal(error, 'the sequence platform.webhook_changes_id_seq differs')
})

test('backups: the tenant cannot connect to a copy before the platform has made its part', async () => {
  const trapped = await trappedProject(platform)
  const { project } = trapped
  const ref = await platform.refOf(project.id)
  const login = createLogins(platform.address, keyring(platform.controlPlaneSecret)).address(ref, 'owner')
  let isOver = false
  const opened: string[] = []
  const connecting = (async () => {
    while (!isOver)
      await withClient(login, verifyOf(ref), guardedSettings, async session => {
        const [found] = await session.rows<{ open: boolean }>(
          raw(`select coalesce(bool_or(has_function_privilege(p.oid, 'execute')), true) as open
                 from pg_catalog.pg_proc p where p.proname in ('count_catalog_change', 'note_change')`),
        )
        if (found!.open) opened.push('platform')
      }).catch(error => {
        // There is no such database now, it is closed, or it is dropped during the statement.
        assert.doesNotMatch(String(error.code), /^(28|42[^5])/, String(error))
      })
  })()
  const backup = await project.backUp()
  const verified = await project.verify(backup.id).finally(() => {
    isOver = true
  })
  await connecting
  assert.equal(verified.verify_error, null)
  assert.deepEqual(opened, [])
})

test('backups: a transaction of the tenant in a copy ends before the tenant loses the rights that were lent', async () => {
  const { project } = await trappedProject(platform)
  const ref = await platform.refOf(project.id)
  // The restore waits here until the tenant has its transaction.
  await project.sql(`
    create function wait_for_other() returns boolean language plpgsql as $$ begin
      while current_database() like '%_restored' and pg_try_advisory_lock(1) loop
        perform pg_advisory_unlock(1);
        perform pg_sleep(0.01);
      end loop;
      return true;
    end $$;
    create materialized view waits as select wait_for_other()`)
  const backup = await project.backUp()
  const login = createLogins(platform.address, keyring(platform.controlPlaneSecret)).address(ref, 'owner')
  let isOver = false
  let created = 0
  const survived: string[] = []
  const planting = (async () => {
    while (!isOver)
      await withClient(login, restoredOf(ref), guardedSettings, async session => {
        await session.script(
          `begin; create function storage.planted() returns int language sql as 'select 1'; select pg_advisory_lock(1)`,
        )
        created++
        const may = raw(`select has_schema_privilege('storage', 'create') as may`)
        while ((await session.row<{ may: boolean }>(may))!.may);
        survived.push('the transaction')
        await session.script('commit')
      }).catch(() => {
        // There is no such database now, the schema is not lent yet, or the session was ended.
      })
  })()
  const restored = await project.restore(backup.id).finally(() => {
    isOver = true
  })
  await planting
  assert.deepEqual([restored.status, restored.error], ['done', null])
  assert.ok(created > 0)
  assert.deepEqual(survived, [])
  assert.deepEqual(await project.rows(`select to_regproc('storage.planted')::text as name`), [{ name: null }])
})
