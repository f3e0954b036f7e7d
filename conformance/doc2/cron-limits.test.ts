// Issue 5 and case 2: a job cannot exceed its timeout, leave a transaction open, or access anything outside
// its project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CronApi, cronProject, did } from '../cron.ts'
import { unique } from '../people.ts'
import { freshTarget, type Target } from '../target.ts'
import { until } from '../until.ts'

let it: Target
let cron: CronApi
before(async () => {
  it = await freshTarget({ PLATFORM_CRON_TIMEOUT_MS: '2000' })
  cron = await cronProject(it)
})
after(() => it.stop())

/** Runs a command as a job until it has failed once, then removes the job. */
async function failure(name: string, command: string): Promise<string> {
  await cron.schedule(name, '1 seconds', command)
  const run = await cron.run(name, 'failed')
  await cron.unschedule(name)
  assert.ok(run.end_time)
  assert.equal(typeof run.return_message, 'string')
  return run.return_message!
}

/** Whether the lock is free: the session that took it has ended or was reset. */
const freed = (lock: number) =>
  until(`lock ${lock} is free`, async () => (await cron.column(`select pg_try_advisory_lock(${lock})`))[0])

const stubborn: [string, (lock: number) => string][] = [
  ['a statement that takes long', () => 'select pg_sleep(600)'],
  ['one that lifts its own timeout', () => 'set statement_timeout = 0; select pg_sleep(600)'],
  [
    'one that lifts every timeout',
    () => `set statement_timeout = 0; set transaction_timeout = 0; set idle_session_timeout = 0;
           select pg_sleep(600)`,
  ],
  ['many short statements', () => 'do $$ begin loop perform pg_sleep(0.01); end loop; end $$'],
  ['a loop that never waits', () => 'do $$ begin loop null; end loop; end $$'],
  [
    'one that catches being cancelled',
    () => `do $$ begin loop begin perform pg_sleep(0.1);
           exception when query_canceled then null; end; end loop; end $$`,
  ],
]

for (const [place, [what, command]] of stubborn.entries())
  test(`issue 5: a job cannot exceed its timeout: ${what}`, async () => {
    const lock = 100 + place
    const message = await failure(`stubborn ${place}`, `select pg_advisory_lock(${lock}); ${command(lock)}`)
    assert.match(message, /time|terminat|cancel/i)
    await freed(lock)
  })

test('issue 5: a job that times out is rolled back, and the next run works', async () => {
  await failure('late', `${did('late')}; select pg_sleep(600)`)
  assert.deepEqual(await cron.column(`select * from public.did where what = 'late'`), [])
  await cron.schedule('fine', '1 seconds', did('fine'))
  await cron.run('fine', 'succeeded')
  await cron.unschedule('fine')
})

test('issue 5: a job cannot leave a transaction open', async () => {
  await cron.rows.sql('create table public.held (a int)')
  for (const [place, command] of [
    'begin; insert into public.held values (1)',
    'begin; lock table public.held in access exclusive mode',
    'commit; begin isolation level serializable; insert into public.held values (2)',
  ].entries()) {
    const name = `open ${place}`
    await cron.schedule(name, '1 seconds', command)
    await cron.ticks(name, 1)
    await cron.unschedule(name)
    await until('the table is free', async () => {
      const sql = 'lock table public.held in access exclusive mode nowait; select 1'
      return (await cron.rows.post('rpc/exec_sql', { sql }, { as: 'service_role' })).status === 200
    })
  }
})

test('issue 5: a job leaves no setting, lock, temporary table or prepared statement for the next run', async () => {
  const leave = `set my.word = 'left'; set search_path = pg_catalog; create temp table if not exists left_over (a int);
                 select pg_advisory_lock(77); prepare left_behind as select 1; listen gossip`
  await cron.schedule('untidy', '1 seconds', leave)
  await cron.run('untidy', 'succeeded')
  await cron.unschedule('untidy')
  await freed(77)
  await cron.schedule(
    'looks',
    '1 seconds',
    `insert into public.did select concat_ws(' ', 'saw', nullif(current_setting('my.word', true), ''),
       to_regclass('pg_temp.left_over'), (select string_agg(name, ' ') from pg_prepared_statements
       where name = 'left_behind'), (select string_agg(c, ' ') from pg_listening_channels() c))`,
  )
  await cron.ticks('looks', 2)
  await cron.unschedule('looks')
  assert.deepEqual(await cron.column(`select distinct what from public.did where what like 'saw%'`), ['saw'])
})

const forbidden = [
  `copy public.did from program 'echo pwned'`,
  `copy public.did to program 'cat'`,
  `copy public.did from '/etc/passwd'`,
  `copy public.did to '/tmp/plinth-cron-was-here'`,
  `insert into public.did select pg_read_file('postgresql.conf')`,
  `insert into public.did select pg_ls_dir('.')`,
  `select lo_import('/etc/passwd')`,
  `alter system set log_statement = 'all'`,
  `load 'auto_explain'`,
  `create extension file_fdw`,
  `create extension dblink`,
  `create extension postgres_fdw`,
  `create role intruder superuser`,
  `alter role current_user superuser`,
  `set role postgres; select 1`,
  `set session authorization postgres`,
  `create database other`,
  `create language plpython3u`,
  `insert into public.did select rolpassword from pg_authid`,
  `select pg_reload_conf()`,
]

test('case 2: a job has only the permissions of the project’s owner', async () => {
  const own = await cronProject(it)
  for (const [place, command] of forbidden.entries())
    await own.schedule(`forbidden ${place}`, '1 seconds', command)
  for (const [place, command] of forbidden.entries()) {
    const runs = await until(`${command} has run`, async () => {
      const all = await own.runs(`forbidden ${place}`)
      return all.some(({ status }) => status === 'failed' || status === 'succeeded') && all
    })
    const done = runs.find(({ status }) => status === 'succeeded')
    assert.equal(done, undefined, `${command}: ${done?.return_message}`)
  }
  assert.deepEqual(await own.column('select * from public.did'), [])
})

test('case 3: a job sees no activity of other projects', async () => {
  const [own, theirs] = [await cronProject(it), await cronProject(it)]
  const secret = unique('secret')
  await theirs.schedule('busy', '1 seconds', `select pg_sleep(1), '${secret}'`)
  await theirs.run('busy', 'running')
  await own.schedule(
    'spy',
    '1 seconds',
    `insert into public.did select 'saw ' || count(*) from pg_stat_activity where query like '%${secret.slice(0, -1)}_%'
       and datname is distinct from current_database()`,
  )
  await own.ticks('spy', 3)
  const seen = await own.column('select distinct what from public.did')
  assert.ok(
    seen.every(what => what === 'saw 0'),
    String(seen),
  )
})
