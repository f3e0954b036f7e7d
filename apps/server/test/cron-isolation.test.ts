// Case 2: SQL of a job cannot reach anything outside its project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { literal } from '#src/kernel/postgres/sql.ts'
import { CronProject } from './cron-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: CronProject
let other: CronProject
before(async () => {
  platform = await startPlatform()
  ;[project, other] = await Promise.all([CronProject.create(platform), CronProject.create(platform)])
})
after(() => platform?.stop())

test('cron: a job runs in the project database as its owner', async () => {
  await project.sql('create table who (a text, b text, c text)')
  await project.schedule('who', 'insert into who select session_user, current_user, current_database()')
  assert.equal((await project.run('who')).status, 'succeeded')
  assert.deepEqual(await project.sql('select * from who'), [
    { a: `${project.ref}_owner`, b: `${project.ref}_owner`, c: project.ref },
  ])
})

test('cron: a job cannot reach anything outside its project', async () => {
  const { ref } = other
  const { control, address } = platform
  const attempts = [
    `copy (select 1) to program 'id'`,
    `create table stolen (a text); copy stolen from program 'id'`,
    `copy (select 1) to '/tmp/plinth-escaped'`,
    `select pg_read_file('/etc/passwd')`,
    `select pg_read_binary_file('PG_VERSION')`,
    `select pg_ls_dir('.')`,
    `select lo_import('/etc/passwd')`,
    `load 'auto_explain'`,
    'create extension dblink',
    'create extension postgres_fdw',
    'create extension file_fdw',
    `select dblink_connect('dbname=${ref}')`,
    `create server there foreign data wrapper postgres_fdw options (dbname '${ref}')`,
    `select * from ${ref}.public.who`,
    `select * from ${control}.public.jobs`,
    `set role ${ref}_owner`,
    `set role ${address.user}`,
    'set role pg_read_all_data',
    'set role service_role',
    `set session authorization ${ref}_owner`,
    `set session authorization ${address.user}`,
    `grant connect on database ${ref} to ${project.ref}_owner`,
    `grant ${ref}_owner to ${project.ref}_owner`,
    `alter role ${ref}_owner password 'mine'`,
    `alter role ${project.ref}_owner superuser`,
    `alter database ${ref} rename to mine`,
    `create function evil() returns int language c as 'evil', 'evil'`,
    `create role mine`,
    `select setting from pg_settings where name in ('data_directory', 'hba_file') and setting is not null`,
    `select passwd from pg_shadow`,
    `select rolpassword from pg_authid`,
    `select pg_terminate_backend(pid) from pg_stat_activity where datname in ('${ref}', '${control}')`,
  ]
  await project.sql('create table tried (at int, outcome text)')
  // Each statement runs separately. A query that succeeds must return no rows.
  await project.schedule(
    'tries',
    `do $job$
     declare
       attempts text[] := array[${attempts.map(literal).join(',')}];
       answered bigint;
     begin
       for at in 1 .. cardinality(attempts) loop
         begin
           execute attempts[at];
           get diagnostics answered = row_count;
           insert into tried values (at, 'answered ' || answered);
         exception when others then
           insert into tried values (at, sqlstate);
         end;
       end loop;
     end $job$`,
  )
  const run = await project.run('tries')
  assert.equal(run.status, 'succeeded', run.return_message!)
  const outcomes = await project.sql('select outcome from tried order by at')
  assert.equal(outcomes.length, attempts.length)
  // No privilege, no such function, wrapper or role, no cross-database reference, or no rows.
  const refused = /^(42501|42883|42704|0A000|42P01|answered 0)$/
  for (const [index, { outcome }] of outcomes.entries()) assert.match(outcome, refused, attempts[index])
})

test('cron: statements that cannot run in a transaction are rejected as well', async () => {
  for (const command of [
    `create database mine`,
    `drop database ${other.ref}`,
    `alter system set work_mem = '1GB'`,
    `create tablespace mine location '/tmp'`,
    `create subscription mine connection 'dbname=${other.ref}' publication mine`,
  ]) {
    await project.schedule('alone', command)
    const { status, return_message } = await project.run('alone')
    assert.equal(status, 'failed', command)
    assert.match(return_message!, /permission denied|must be/, command)
  }
})
