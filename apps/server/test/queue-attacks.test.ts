// Hostile project owners use queues for privilege escalation, to block a start and to use CPU time.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Client } from 'pg'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform, untilUpgraded } from './harness.ts'
import { type QueueProject, queueProject } from './queue-database.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const call = (project: QueueProject, method: string, path: string, body?: unknown, at = platform) =>
  at.call(method, `/v1/queue/${project.id}/queues${path}`, { token: project.serviceRoleKey, body })

async function done(project: QueueProject, method: string, path: string, body?: unknown, at = platform) {
  const reply = await call(project, method, path, body, at)
  assert.ok(reply.status < 300, `${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`)
  return reply.body
}

/** Sets an older schema version, so that the next start upgrades the project. */
const older = (id: string) =>
  platform.asSuperuser(platform.control, session =>
    session.run(sql`update public.projects set schema_version = 'older' where id = ${id}`),
  )
const isOlder = async (id: string) =>
  (await platform.app.control.row(
    sql`select from projects where id = ${id} and schema_version = 'older'`,
  )) !== undefined

/** Every function records the user that runs it in public.runners. */
const traps = `
  create table public.runners (who text, session text, super text, at text);
  grant all on public.runners to service_role;
  create function public.trip(at text) returns boolean language plpgsql as $$
    begin
      insert into public.runners values (current_user, session_user, current_setting('is_superuser'), at);
      return true;
    end $$;
  create function public.on_row() returns trigger language plpgsql as $$
    begin
      perform public.trip(tg_op || ' ' || tg_table_name);
      return case tg_op when 'DELETE' then old else new end;
    end $$;
  create function public.headers() returns jsonb language plpgsql as $$
    begin perform public.trip('default'); return null; end $$;
  create function public.indexed(jsonb) returns text language plpgsql immutable as $$
    begin perform public.trip('index'); return null; end $$;
  create function public.same(varchar, text) returns boolean language plpgsql as $$ begin return public.trip('='); end $$;

  select pgmq.create('trap');
  create trigger trap before insert or update or delete on pgmq.q_trap for each row execute function public.on_row();
  create trigger trap before insert or update or delete on pgmq.a_trap for each row execute function public.on_row();
  alter table pgmq.q_trap alter headers set default public.headers();
  create index on pgmq.q_trap ((public.indexed(message)));
  alter table pgmq.q_trap enable row level security;
  alter table pgmq.q_trap force row level security;
  create policy everything on pgmq.q_trap using (public.trip('policy'));
  create view pgmq.q_seen as select msg_id, read_ct, enqueued_at, vt, message, headers from pgmq.q_trap where public.trip('view');
  create view pgmq.q_seen_msg_id_seq as select 1::bigint as last_value, public.trip('sequence') as is_called;

  create function pgmq.create(varchar) returns void language plpgsql as $$ begin perform public.trip('create'); end $$;
  create function pgmq.drop_queue(varchar) returns boolean language plpgsql as $$ begin return public.trip('drop'); end $$;
  create function pgmq.clock_timestamp() returns timestamptz language plpgsql as $$
    begin perform public.trip('clock'); return now(); end $$;
  create operator public.= (leftarg = varchar, rightarg = text, function = public.same);
  create operator pgmq.= (leftarg = varchar, rightarg = text, function = public.same)`

test('queues: triggers of an owner on a queue run only with the logins of the project', async () => {
  const project = await queueProject(platform)
  await project.rows(traps)

  await done(project, 'POST', '/trap/send', { message: 1 })
  await done(project, 'POST', '/trap/send_batch', { messages: [2, 3] })
  await done(project, 'POST', '/trap/read', { vt: 0, qty: 3 })
  await done(project, 'POST', '/trap/archive', { msg_id: 1 })
  await done(project, 'POST', '/trap/replay', { msg_id: 1 })
  await done(project, 'POST', '/trap/ack', { msg_id: 2 })
  await done(project, 'POST', '/trap/pop')
  for (const queue of ['trap', 'seen']) await done(project, 'GET', `/${queue}/metrics`)
  await done(project, 'GET', '/trap/archived')
  for (const [method, path, body] of [
    ['POST', '/seen/read', { vt: 0 }],
    ['POST', '/seen/pop', undefined],
  ] as const)
    assert.ok((await call(project, method, path, body)).status < 500, `${method} ${path}`)
  await done(project, 'POST', '', { name: 'another' })
  await done(project, 'DELETE', '/another')
  await done(project, 'GET', '')

  await older(project.id)
  const next = await startPlatform({ beside: platform })
  await untilUpgraded(next)
  try {
    assert.ok(!(await isOlder(project.id)), 'the project is upgraded')
    await done(project, 'POST', '/trap/send', { message: 4 }, next)
  } finally {
    await next.stop()
  }

  const runners = await project.rows('select who, session, super, at from public.runners')
  const values = (column: string) => [...new Set(runners.map(row => row[column]))].sort()
  assert.deepEqual(values('super'), ['off'])
  for (const who of values('who')) assert.ok(['service_role', `${project.ref}_owner`].includes(who), who)
  for (const login of values('session'))
    assert.ok([`${project.ref}_svc`, `${project.ref}_owner`].includes(login), login)
  for (const at of ['INSERT q_trap', 'UPDATE q_trap', 'DELETE q_trap', 'INSERT a_trap', 'view', 'index'])
    assert.ok(values('at').includes(at), `${at} was run`)
  await project.close()
  await platform.projects.remove({ params: { id: project.id } })
})

// Locks held in an open transaction of the owner, which conflict with the grants and functions of an upgrade.
const obstacles: Record<string, string[]> = {
  'the list of queues': ['begin', 'lock table pgmq.meta in access exclusive mode'],
  'its own function in schema pgmq': [
    'create function pgmq.mine() returns int language sql return 1',
    'begin',
    'alter function pgmq.mine() cost 7',
  ],
  'default privileges': ['begin', 'alter default privileges in schema pgmq grant select on tables to anon'],
  'the advisory lock of schema changes': ['select pg_advisory_lock(7203412907742)'],
}
for (const [what, statements] of Object.entries(obstacles))
  test(`queues: an owner who locks ${what} does not block the start of a node`, async () => {
    const project = await queueProject(platform)
    const holder: Client = await project.connect()
    for (const statement of statements) await holder.query(statement)
    // An active session is not ended by idle_in_transaction_session_timeout.
    const holding = holder
      .query('select pg_sleep(60)')
      .then(
        () => 'let go',
        () => 'ended',
      )
      .finally(() => holder.end())
    await older(project.id)
    const next = await startPlatform({ beside: platform })
    await untilUpgraded(next)
    try {
      assert.ok(!(await isOlder(project.id)), 'the project is upgraded')
      assert.equal(await holding, 'ended')
      await done(project, 'POST', '', { name: 'after' }, next)
    } finally {
      await next.stop()
      await project.close()
    }
  })

test('queues: a queue list with many manual rows is truncated', async () => {
  const project = await queueProject(platform)
  await project.rows(
    `insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) select 'q' || n, false, false from generate_series(1, 20000) n`,
  )
  assert.equal((await done(project, 'GET', '')).length, 10_000)
  await project.close()
})

test('queues: a body with millions of values is rejected, however it is nested', async () => {
  const project = await queueProject(platform)
  await done(project, 'POST', '', { name: 'bodies' })
  const nested = '['.repeat(90) + ']'.repeat(90)
  for (const [what, message] of Object.entries({
    'side by side': `[${Array(2_000_000).fill('[]').join()}]`,
    'in each other': `[${Array(50_000).fill(nested).join()}]`,
    'objects in each other': `[${Array(10_000)
      .fill(`${'{"a":'.repeat(90)}1${'}'.repeat(90)}`)
      .join()}]`,
  }))
    assert.equal((await call(project, 'POST', '/bodies/send', `{"message":${message}}`)).status, 413, what)
  assert.equal((await done(project, 'GET', '/bodies/metrics')).total_messages, 0)
  await project.close()
})

test('queues: a message put back by another node is read, even below the cached head', async () => {
  const project = await queueProject(platform)
  await done(project, 'POST', '', { name: 'shared' })
  await done(project, 'POST', '/shared/send', { message: 'first' })
  await done(project, 'POST', '/shared/archive', { msg_id: 1 })
  await project.rows(
    `select pgmq.send_batch('shared', array(select to_jsonb(n) from generate_series(1, 100000) n), 86400)`,
  )
  for (let count = 0; count < 10; count++)
    assert.deepEqual(await done(project, 'POST', '/shared/read', { vt: 0 }), [])
  const next = await startPlatform({ beside: platform })
  await untilUpgraded(next)
  try {
    await done(project, 'POST', '/shared/replay', { msg_id: 1 }, next)
    const found = await eventually(async () => {
      const [message] = await done(project, 'POST', '/shared/read', { vt: 3600 })
      return message
    }, 'the message')
    assert.deepEqual([found.msg_id, found.message], [1, 'first'])
  } finally {
    await next.stop()
    await project.close()
  }
})
