// A tenant can neither forge captured changes nor run code with the rights of the capture functions.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, untilUpgraded } from './harness.ts'
import { shown, webhookStage } from './webhooks-capture-project.ts'

const { stage, projectWith } = webhookStage()
const notes = 'create table notes (id int primary key, text text)'
const denied = { code: '42501' }
/** Records who runs it. */
const trap = `
  create table ran (who text);
  alter table ran disable row level security;
  grant insert on ran to public;
  create function trap() returns int language plpgsql as $$
    begin insert into public.ran values (current_user); return 1; end $$`
const captureFunctions = [
  'capture_insert',
  'capture_update',
  'capture_delete',
  'capture_insert_with_settings',
  'capture_update_with_settings',
  'capture_delete_with_settings',
  'capture_built',
  'note_change',
]

for (const name of captureFunctions)
  test(`webhook security: a tenant cannot create a trigger with ${name}`, async () => {
    const { run, asSuperuser, project } = await projectWith(`
      ${notes}; ${trap};
      create view evil as select 1 as id, 'x' as text, trap() as trapped`)
    for (const trigger of [
      `create trigger own after insert on notes for each statement execute function platform.${name}('one')`,
      `create trigger own after insert on notes for each row execute function platform.${name}('one')`,
      `create trigger own after insert on notes referencing new table as new_rows for each statement execute function platform.${name}('one')`,
      `create or replace trigger plinth_insert after insert on notes for each statement execute function platform.${name}('one')`,
      `create constraint trigger own after insert on notes for each row execute function platform.${name}('one')`,
      `alter function platform.${name}() security invoker`,
      `grant execute on function platform.${name}() to public`,
    ])
      await assert.rejects(run(trigger), denied, trigger)
    // As if the tenant had created it with an earlier release: an upgrade removes it.
    if (name !== 'note_change') return
    await asSuperuser(
      `create trigger own after insert on public.notes for each statement execute function platform.note_change()`,
    )
    await stage.platform.asSuperuser(project.ref, session =>
      session.script(`delete from platform.migrations where name = 'realtime_capture'`),
    )
    await stage.platform.app.control.run(
      sql`update projects set schema_version = '' where id = ${project.id}`,
    )
    const second = await startPlatform({ beside: stage.platform })
    await untilUpgraded(second)
    await second.stop()
    const left = await asSuperuser<{ name: string }>(
      `select tgname as name from pg_trigger where tgrelid = 'public.notes'::regclass and not tgisinternal order by 1`,
    )
    assert.deepEqual(
      left.map(each => each.name),
      ['plinth_delete', 'plinth_insert', 'plinth_update'],
    )
  })

test('webhook security: tenants cannot write changes or attachments, nor attach', async () => {
  const { attach, run, project, take } = await projectWith(notes)
  await attach('notes')
  const forgeries = [
    `insert into platform.webhook_changes (webhooks, schema_name, table_name, kind) values ('other', 'public', 'notes', 'INSERT')`,
    `update platform.webhook_changes set webhooks = 'other'`,
    `insert into platform.webhook_attachments values ('public.notes'::regclass, 'other', '{INSERT}')`,
    `delete from platform.webhook_attachments`,
    `begin; lock table platform.webhook_attachments in share row exclusive mode`,
    `select platform.attach_webhook('public', 'notes', 'other', '{INSERT}')`,
    `select platform.detach_webhook('public', 'notes', 'one')`,
    `select platform.detach_webhook_everywhere('one')`,
    `select platform.apply_webhook_triggers()`,
  ]
  for (const forgery of forgeries) {
    await assert.rejects(run(forgery), denied, forgery)
    for (const role of ['anon', 'authenticated', 'service_role'])
      await assert.rejects(
        stage.platform.asSuperuser(project.ref, session => session.script(`set role ${role}; ${forgery}`)),
        denied,
        `${role}: ${forgery}`,
      )
  }
  await run('select platform.refresh_webhook_triggers(); insert into notes values (1)')
  assert.deepEqual(
    (await take()).map(each => `${each.webhookIds} ${shown(each)}`),
    ['one INSERT notes {"id":1,"text":null}'],
  )
})

test('webhook security: no object of a tenant replaces what the capture uses', async () => {
  const { attach, run, take, asSuperuser } = await projectWith(`
    ${notes}; create table measures (id int, value float8); ${trap};
    create schema evil; grant usage on schema evil to public;
    create domain evil.text as pg_catalog.text check (public.trap() = 1);
    create function evil.row_to_json(record) returns json language plpgsql as $$ begin perform public.trap(); return '{}'::json; end $$;
    create function evil.pg_column_size(record) returns int language plpgsql as $$ begin return public.trap(); end $$;
    create function evil.pg_stat_force_next_flush() returns void language plpgsql as $$ begin perform public.trap(); end $$;
    create function evil.le(int, int) returns boolean language sql as $$ select public.trap() = 1 $$;
    create operator evil.<= (leftarg = int, rightarg = int, function = evil.le);
    create function evil.same(text, text) returns boolean language sql as $$ select public.trap() = 1 $$;
    create operator evil.= (leftarg = text, rightarg = text, function = evil.same);
    create function evil.same(bigint, bigint) returns boolean language sql as $$ select public.trap() = 1 $$;
    create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.same);
    create function evil.current_setting(text) returns text language plpgsql as $$ begin return public.trap()::text; end $$;
    create table evil.webhook_changes (id int)`)
  await attach('notes')
  await attach('measures')
  await run(`
    create temporary view new_rows as select public.trap() as id; create temporary view old_rows as select public.trap() as id;
    create temporary table pg_class (oid oid);
    set search_path = pg_temp, evil, public, pg_catalog;
    insert into public.notes values (1, 'a'), (2, 'b'); update public.notes set id = id operator(pg_catalog.+) 10;
    update public.notes set text = 'x' where id operator(pg_catalog.=) 11; delete from public.notes;
    insert into public.notes values (3, pg_catalog.repeat('x', 300000));
    insert into public.measures values (1, 0.1), (2, 0.2); update public.measures set value = 0.3; delete from public.measures`)
  assert.equal((await take()).length, 14)
  assert.deepEqual(await asSuperuser('select * from public.ran'), [])
})

const cast = `
  create function mood_json(mood) returns json language plpgsql as $$
    begin insert into public.ran values (current_user); return '"trapped"'::json; end $$;
  create cast (mood as json) with function mood_json(mood)`
const moods = `${trap}; create type mood as enum ('good', 'bad'); create table days (id int primary key, mood mood, moods mood[])`
const day = `insert into days values (1, 'good', '{bad}'); update days set id = 2; delete from days`
const captured = [
  'INSERT days {"id":1,"mood":"good","moods":"{bad}"}',
  'UPDATE days {"id":2,"mood":"good","moods":"{bad}"} was {"id":1,"mood":"good","moods":"{bad}"}',
  'DELETE days {"id":2,"mood":"good","moods":"{bad}"}',
]

test('webhook security: a cast to json does not run, whether it is created before or after attaching', async () => {
  for (const order of ['before', 'after']) {
    const { attach, run, take, asSuperuser } = await projectWith(moods)
    if (order === 'before') await run(cast)
    await attach('days')
    if (order === 'after') {
      await run(day)
      assert.match(shown((await take())[0]!), /"moods":\["bad"\]/)
      await run(cast)
    }
    await run(day)
    assert.deepEqual((await take()).map(shown), captured)
    assert.deepEqual(await asSuperuser('select * from public.ran'), [])
  }
})

test('webhook security: a cast to json does not run in a transaction that is older than the cast', async () => {
  const { attach, run, take, asSuperuser, project } = await projectWith(moods)
  await attach('days')
  await project.asOwner(async session => {
    await session.script('begin isolation level repeatable read; select * from days')
    await run(cast)
    await session.script(`${day}; commit`)
  })
  assert.deepEqual((await take()).map(shown), captured)
  assert.deepEqual(await asSuperuser('select * from public.ran'), [])
})

test('webhook security: a cast to json waits for writers of attached tables and must see all attachments', async () => {
  const { attach, run } = await projectWith(moods)
  await attach('days')
  for (const level of ['repeatable read', 'serializable'])
    await assert.rejects(run(`begin isolation level ${level}; ${cast}; commit`), { code: '0A000' })
  await run(cast)
})

test('realtime: a cast to json does not run in a transaction that is older than the cast', async () => {
  const { run, asSuperuser, project } = await projectWith(moods)
  await asSuperuser(`alter table public.days enable trigger plinth_insert`)
  await asSuperuser(
    `insert into platform.listening values ('public.days'::regclass, gen_random_uuid(), now() + interval '1 hour')`,
  )
  await project.asOwner(async session => {
    await session.script('begin isolation level repeatable read; select * from days')
    await run(cast)
    await session.script(`insert into days values (1, 'good', '{bad}'); commit`)
  })
  assert.deepEqual(await project.look(raw('select new from platform.changes')), [
    { new: '{"id":1,"mood":"good","moods":"{bad}"}' },
  ])
  assert.deepEqual(await asSuperuser('select * from public.ran'), [])
})
