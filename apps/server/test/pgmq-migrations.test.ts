// Queues with reset, pull and migrations: schema pgmq belongs to the platform, and migrations can use its functions.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from './harness.ts'
import { lastRows } from './last-rows.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const ask = async (project: Project, statement: string) =>
  (await project.asOwner(session => lastRows(session, statement))).map(([value]) => value)

const migration = {
  version: '1',
  name: 'queues',
  sql: `
    select pgmq.create('jobs');
    create table orders (id int primary key);
    create function enqueue() returns trigger language plpgsql as $$
      begin perform pgmq.send('jobs', to_jsonb(new)); return new; end $$;
    create trigger enqueue after insert on orders for each row execute function enqueue();`,
}

test('pgmq: a reset keeps queues and messages, and migrations apply to them again', async () => {
  const project = await Project.create(platform)
  assert.equal((await project.push(migration)).status, 200)
  await ask(project, 'insert into orders values (1), (2); select 1')
  await ask(project, `select pgmq.archive('jobs', 1)`)
  const reset = await project.reset({ migrations: [migration], reapply: true })
  assert.equal(reset.status, 200, JSON.stringify(reset.body))
  assert.ok(!JSON.stringify(reset.body).includes('pgmq'), JSON.stringify(reset.body))
  assert.deepEqual(await project.applied(), ['1'])
  await ask(project, 'insert into orders values (3); select 1')
  assert.deepEqual(await ask(project, `select message->>'id' from pgmq.read('jobs', 0, 9)`), ['2', '3'])
  assert.deepEqual(await ask(project, 'select msg_id from pgmq.a_jobs'), ['1'])
  // service_role keeps its privileges on existing queues and gets them on new ones.
  await ask(project, `select pgmq.create('after_reset')`)
  const granted = `select has_table_privilege('service_role', t, 'insert, update, delete, truncate')
    from unnest(array['pgmq.q_jobs', 'pgmq.q_after_reset']) t`
  assert.deepEqual(await ask(project, granted), ['t', 't'])
  await ask(project, 'create table pgmq.q_by_hand (msg_id int)')
  assert.deepEqual(
    await ask(project, `select has_table_privilege('service_role', 'pgmq.q_by_hand', 'insert')`),
    ['t'],
  )
})

test('pgmq: a reset removes triggers and other objects of the project on a queue', async () => {
  const project = await Project.create(platform)
  await ask(project, `select pgmq.create('jobs')`)
  await ask(
    project,
    `create view backlog as select count(*) from pgmq.q_jobs;
     create function stamp() returns trigger language plpgsql as 'begin new.headers := to_jsonb(1); return new; end';
     create trigger stamp before insert on pgmq.q_jobs for each row execute function stamp();
     select 1`,
  )
  assert.equal((await project.reset()).status, 200)
  assert.deepEqual(await ask(project, `select pgmq.send('jobs', '1')`), ['1'])
  assert.deepEqual(await ask(project, 'select headers from pgmq.q_jobs'), [null])
})

test('pgmq: a pull contains neither the schema nor the rows of queues', async () => {
  const project = await Project.create(platform)
  assert.equal((await project.push(migration)).status, 200)
  await ask(project, `select pgmq.create('by_hand')`)
  await ask(project, 'insert into orders values (1); select 1')
  for (const path of ['/db/schema', '/db/data']) {
    const { status, body } = await project.manage('GET', path)
    assert.equal(status, 200)
    assert.doesNotMatch(body.sql, /q_jobs|a_jobs|q_by_hand|pgmq\.meta/, path)
    assert.match(body.sql, /orders/, path)
  }
  // The comparison runs the migrations in a scratch database, which has the pgmq functions.
  const beyond = await project.manage('GET', '/db/schema?beyond_migrations=true')
  assert.deepEqual([beyond.status, beyond.body.sql], [200, ''])
})

test('pgmq: a pulled schema creates the same project elsewhere, including functions and triggers', async () => {
  const [source, target] = [await Project.create(platform), await Project.create(platform)]
  assert.equal((await source.push(migration)).status, 200)
  const { body } = await source.manage('GET', '/db/schema')
  assert.equal((await target.push({ version: '1', name: 'pulled', sql: body.sql })).status, 200)
  await ask(target, `select pgmq.create('jobs')`)
  await ask(target, 'insert into orders values (7); select 1')
  assert.deepEqual(await ask(target, `select message->>'id' from pgmq.pop('jobs')`), ['7'])
})

test('pgmq: a failed migration leaves no queue', async () => {
  const project = await Project.create(platform)
  const failed = await project.push({ version: '1', sql: `select pgmq.create('half'); select 1 / 0;` })
  assert.equal(failed.status, 400)
  assert.deepEqual(await ask(project, 'select queue_name from pgmq.list_queues()'), [])
  assert.deepEqual(await ask(project, `select to_regclass('pgmq.q_half')`), [null])
})

test('pgmq: the row API and the schema routes do not expose schema pgmq', async () => {
  const project = await Project.create(platform)
  await ask(project, `select pgmq.create('jobs')`)
  const exposed = await project.manage('PATCH', '', { settings: { exposed_schemas: ['public', 'pgmq'] } })
  assert.equal(exposed.status, 400)
  const dropped = await project.manage('DELETE', '/schema/tables/q_jobs?confirm=q_jobs&schema=pgmq')
  assert.deepEqual([dropped.status, dropped.body.error.code], [403, 'schema_reserved'])
})

test('pgmq: a project with queues is deleted completely', async () => {
  const project = await Project.create(platform)
  await ask(project, `select pgmq.create('jobs'), pgmq.create_unlogged('fast')`)
  assert.equal((await project.manage('DELETE', '')).status, 204)
  const left = await platform.asSuperuser('postgres', session =>
    lastRows(session, `select 1 from pg_roles where rolname like '${project.ref}%'`),
  )
  assert.deepEqual(left, [])
})
