// Row changes of attached tables are captured in their transaction, however they are made.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { shown, webhookStage } from './webhooks-capture-project.ts'

const { stage, projectWith } = webhookStage()
const notes = 'create table notes (id int primary key, text text)'

test('webhook capture: inserts, updates and deletes are captured with the rows before and after', async () => {
  const { attach, run, take } = await projectWith(notes)
  assert.equal(await attach('notes', { webhook: '0b0d5f2e-6d5c-4f7e-9d43-0d6a3f0e9b11' }), 'attached')
  await run(`insert into notes values (1, 'a')`)
  await run(`update notes set id = 2, text = null`)
  await run('delete from notes')
  await run('update notes set id = 3; delete from notes; insert into notes select 1, null where false')
  const changes = await take()
  assert.deepEqual(changes.map(shown), [
    'INSERT notes {"id":1,"text":"a"}',
    'UPDATE notes {"id":2,"text":null} was {"id":1,"text":"a"}',
    'DELETE notes {"id":2,"text":null}',
  ])
  for (const { schema, webhookIds, at, isTruncated } of changes) {
    assert.deepEqual(
      [schema, webhookIds, isTruncated],
      ['public', ['0b0d5f2e-6d5c-4f7e-9d43-0d6a3f0e9b11'], false],
    )
    assert.match(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  }
  assert.deepEqual(await take(), [])
})

test('webhook capture: a rolled back change is never captured, and TRUNCATE is not', async () => {
  const { attach, run, take } = await projectWith(`${notes}; insert into notes values (1)`)
  await attach('notes')
  await run(`
    begin; insert into notes values (2); update notes set text = 'x'; rollback;
    begin; insert into notes values (3); savepoint s; insert into notes values (4); rollback to s; commit;
    truncate notes`)
  assert.deepEqual((await take()).map(shown), ['INSERT notes {"id":3,"text":null}'])
})

test('webhook capture: statements over 10,000 rows are captured in order, with pairs of old and new keys', async () => {
  const { attach, run, take } = await projectWith(notes)
  await attach('notes')
  // The plan for few rows is cached before the statement over many.
  await run(`
    insert into notes select i, i::text from generate_series(1, 3) i;
    ${'update notes set id = id;'.repeat(7)}
    insert into notes select i, i::text from generate_series(4, 10000) i;
    update notes set id = -id;
    delete from notes`)
  const captured = await take()
  assert.equal(captured.length, 3 + 21 + 9997 + 10_000 + 10_000)
  const changes = captured.slice(24)
  assert.ok(
    changes.slice(0, 9997).every((each, index) => each.new === `{"id":${index + 4},"text":"${index + 4}"}`),
  )
  const updates = changes.slice(9997, 19_997)
  assert.ok(
    updates.every(({ new: after, old }) => {
      const row = JSON.parse(old!)
      return JSON.parse(after!).id === -row.id && row.text === String(row.id)
    }),
  )
  assert.equal(new Set(updates.map(({ old }) => old)).size, 10_000)
})

test('webhook capture: COPY, ON CONFLICT, MERGE, CTE writes, cascades and triggers are captured', async () => {
  const { attach, run, take, asSuperuser } = await projectWith(`
    ${notes};
    create table parts (id int primary key, note int references notes on delete cascade on update cascade);
    create table copies (id int primary key);
    create function copy_note() returns trigger language plpgsql as $$
      begin insert into public.copies values (new.id); return new; end $$;
    create trigger copy_note after insert on notes for each row execute function copy_note()`)
  for (const table of ['notes', 'parts', 'copies']) await attach(table)
  const capturedBy = async (script: string) => {
    await run(script)
    return (await take()).map(shown).sort()
  }
  await asSuperuser(`copy public.notes (id) from program 'echo 1'`)
  assert.deepEqual((await take()).map(shown), ['INSERT copies {"id":1}', 'INSERT notes {"id":1,"text":null}'])
  assert.deepEqual(
    await capturedBy(`insert into notes values (1), (2) on conflict (id) do update set text = 'again'`),
    [
      'INSERT copies {"id":2}',
      'INSERT notes {"id":2,"text":null}',
      'UPDATE notes {"id":1,"text":"again"} was {"id":1,"text":null}',
    ],
  )
  assert.deepEqual(await capturedBy('insert into notes values (1) on conflict do nothing'), [])
  assert.deepEqual(
    await capturedBy(`
        merge into notes n using (values (1, 'm'), (2, 'd')) v (id, text) on n.id = v.id
         when matched and v.text = 'd' then delete when matched then update set text = v.text`),
    ['DELETE notes {"id":2,"text":null}', 'UPDATE notes {"id":1,"text":"m"} was {"id":1,"text":"again"}'],
  )
  assert.deepEqual(
    await capturedBy(`
        with made as (insert into parts values (7, 1) returning id), changed as (update notes set text = 'c' returning id)
        select * from made, changed`),
    ['INSERT parts {"id":7,"note":1}', 'UPDATE notes {"id":1,"text":"c"} was {"id":1,"text":"m"}'],
  )
  assert.deepEqual(await capturedBy('update notes set id = 5'), [
    'UPDATE notes {"id":5,"text":"c"} was {"id":1,"text":"c"}',
    'UPDATE parts {"id":7,"note":5} was {"id":7,"note":1}',
  ])
  assert.deepEqual(await capturedBy('delete from notes'), [
    'DELETE notes {"id":5,"text":"c"}',
    'DELETE parts {"id":7,"note":5}',
  ])
})

test('webhook capture: writes through the row API are captured', async () => {
  const { attach, take, created } = await projectWith(notes)
  await attach('notes')
  const { status } = await stage.platform.call('POST', `/v1/rest/${created.id}/notes`, {
    apikey: created.service_role_key,
    body: [
      { id: 1, text: null },
      { id: 2, text: 'b' },
    ],
    headers: { prefer: 'timezone=Asia/Tokyo' },
  })
  assert.equal(status, 201)
  assert.deepEqual((await take()).map(shown), [
    'INSERT notes {"id":1,"text":null}',
    'INSERT notes {"id":2,"text":"b"}',
  ])
})

test('webhook capture: each webhook receives the operations it is attached for', async () => {
  const { attach, detach, list, run, take, project } = await projectWith(
    `${notes}; create table others (id int)`,
  )
  await attach('notes', { webhook: 'one', events: ['INSERT'] })
  await attach('notes', { webhook: 'two', events: ['INSERT', 'DELETE'] })
  await attach('others', { webhook: 'two', events: ['UPDATE'] })
  const receivers = async () => {
    await run(
      `insert into notes values (1); update notes set text = 'x'; delete from notes; insert into others values (1)`,
    )
    return (await take()).map(({ event, table, webhookIds }) => `${event} ${table} ${webhookIds}`)
  }
  assert.deepEqual(await receivers(), ['INSERT notes one,two', 'DELETE notes two'])
  assert.deepEqual(await list('two'), [
    { schema: 'public', table: 'notes', events: ['INSERT', 'DELETE'] },
    { schema: 'public', table: 'others', events: ['UPDATE'] },
  ])
  // Attaching again replaces the events.
  await attach('notes', { webhook: 'two', events: ['UPDATE'] })
  assert.deepEqual(await receivers(), ['INSERT notes one', 'UPDATE notes two'])
  assert.equal(await detach('notes', 'one'), 'detached')
  assert.equal(await detach('notes', 'one'), 'not_attached')
  assert.equal(await detach('unknown', 'one'), 'not_attached')
  assert.deepEqual(await receivers(), ['UPDATE notes two'])
  assert.equal(await stage.attachments.detachAll(project.ref, 'two'), 'detached')
  assert.equal(await stage.attachments.detachAll(project.ref, 'two'), 'detached')
  assert.deepEqual([await receivers(), await list('two')], [[], []])
})

test('webhook capture: attaching waits for a transaction that writes to the table', async () => {
  const { attach, run, take, project } = await projectWith(notes)
  await stage.platform.asSuperuser(project.ref, async session => {
    await session.script('begin; insert into public.notes values (1)')
    const attaching = attach('notes')
    await eventually(
      () =>
        stage.platform.asSuperuser(project.ref, other =>
          other.row(sql`
            select from pg_locks where not granted and relation = 'public.notes'::regclass
               and database = (select oid from pg_database where datname = current_database())`),
        ),
      'the attachment waits',
    )
    await session.script('commit')
    assert.equal(await attaching, 'attached')
  })
  await run('insert into notes values (2)')
  assert.deepEqual((await take()).map(shown), ['INSERT notes {"id":2,"text":null}'])
})

test('webhook capture: a commit is visible in the statistics of the database at once', async () => {
  const { attach, project } = await projectWith(notes)
  await attach('notes')
  const inserted = async () =>
    (await stage.platform.app.control.row<{ rows: string }>(
      sql`select pg_stat_get_db_tuples_inserted(oid) as rows from pg_database where datname = ${project.ref}`,
    ))!.rows
  await stage.platform.asSuperuser(project.ref, holder =>
    project.asOwner(async session => {
      await holder.script('select pg_advisory_lock(1)')
      await session.script('insert into notes values (1)')
      const before = await inserted()
      // A session reports at most once per second, and then only when it has been idle for a while. This one is not.
      await session.script('insert into notes values (2)')
      const waiting = session.script('select pg_advisory_lock(1)')
      await eventually(async () => (await inserted()) !== before, 'the insert is counted').finally(() =>
        holder.script('select pg_advisory_unlock(1)'),
      )
      await waiting
    }),
  )
})

test('webhook capture: values do not depend on the settings of the session', async () => {
  const { attach, run, take } = await projectWith(`
    create table shapes (at timestamptz, span interval, number float8, bytes bytea, range tstzrange, rel regclass);
    create table times (at timestamptz, days date[])`)
  await attach('shapes')
  await attach('times')
  await run(`
    set timezone = 'America/New_York'; set datestyle = 'SQL, DMY'; set intervalstyle = 'iso_8601'; set extra_float_digits = -10;
    set bytea_output = 'escape'; set search_path = public; set standard_conforming_strings = off;
    insert into shapes values ('2024-02-03 04:05:06Z', '1 day 2 hours', 0.1234567890123456, 'ab', '[2024-02-03 04:05:06Z,]', 'shapes');
    insert into public.shapes select * from public.shapes union all select * from public.shapes;
    insert into public.times values ('2024-02-03 04:05:06Z', '{2024-02-03}');
    set timezone = 'UTC'; alter table public.times add number float8; update public.times set number = 0.1234567890123456`)
  const row =
    '{"at":"2024-02-03T04:05:06+00:00","span":"1 day 02:00:00","number":0.1234567890123456,"bytes":"\\\\x6162","range":"[\\"2024-02-03 04:05:06+00\\",)","rel":"public.shapes"}'
  const times = '{"at":"2024-02-03T04:05:06+00:00","days":["2024-02-03"]'
  assert.deepEqual(
    (await take()).map(each => each.new),
    [row, row, row, `${times}}`, `${times},"number":0.1234567890123456}`],
  )
})

test('webhook capture: of rows over 256 KiB only the primary key is captured', async () => {
  const { attach, run, take } = await projectWith(`
    create table files (place int, body text, name text, more int, primary key (name, place));
    create table bare (body text)`)
  await attach('files')
  await attach('bare')
  const taken = async (script: string) => {
    await run(script)
    return (await take()).map(each => `${each.isTruncated ? 'truncated ' : ''}${shown(each)}`)
  }
  const random = `(select string_agg(md5(i::text), '') from generate_series(1, %) i)`
  const [below] = await taken(`insert into files values (1, ${random.replace('%', '8000')}, 'below')`)
  assert.equal(
    below?.length,
    'INSERT files {"place":1,"body":"","name":"below","more":null}'.length + 256_000,
  )
  assert.deepEqual(await taken(`insert into files values (2, ${random.replace('%', '9000')}, 'above')`), [
    'truncated INSERT files {"place":2,"name":"above"}',
  ])
  // Stored compressed: the old row is small until its value is read.
  assert.deepEqual(await taken(`insert into files values (3, repeat('x', 3000000), 'packed')`), [
    'truncated INSERT files {"place":3,"name":"packed"}',
  ])
  assert.deepEqual(await taken(`update files set place = 4 where name = 'packed'`), [
    'truncated UPDATE files {"place":4,"name":"packed"} was {"place":3,"name":"packed"}',
  ])
  assert.deepEqual(await taken(`update files set body = 'short' where name = 'packed'`), [
    'truncated UPDATE files {"place":4,"body":"short","name":"packed","more":null} was {"place":4,"name":"packed"}',
  ])
  assert.deepEqual(await taken(`insert into bare values (repeat('x', 300000)); delete from bare`), [
    'truncated INSERT bare {}',
    'truncated DELETE bare {}',
  ])
  assert.deepEqual(await taken(`insert into bare values (repeat('x', 20000000))`), [
    'truncated INSERT bare {}',
  ])
})
