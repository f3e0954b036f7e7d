// SQL of a job that would outlive its timeout.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CronProject, eventually, runningNow, stubborn } from './cron-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

/** Long enough for a run to be seen on the way, on a slow machine. */
const timeoutMs = 2500
const timedOut = `it took longer than the ${timeoutMs} ms of PLATFORM_CRON_TIMEOUT_MS and was ended`
let platform: TestPlatform
/** Three, because three jobs of one run at once. */
let projects: CronProject[]
let project: CronProject
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_CRON_TIMEOUT_MS: String(timeoutMs) } })
  projects = await Promise.all([1, 2, 3].map(() => CronProject.create(platform)))
  project = projects[0]!
})
after(async () => {
  // What the platform has failed to end would keep it from stopping.
  for (const { ref, look } of projects ?? [])
    await look(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${ref}_owner'`)
  await platform?.stop()
})

const ownersSessions = ({ ref, look }: CronProject) =>
  look(`select from pg_stat_activity where usename = '${ref}_owner' and datname = '${ref}'`)

const endless: Record<string, string> = {
  sleeps: 'select pg_sleep(100)',
  lifts: 'set statement_timeout = 0; select pg_sleep(100)',
  dribbles: Array(50).fill('select pg_sleep(0.2)').join(';'),
  resists: stubborn,
  commits: `do $$ begin perform set_config('statement_timeout', '0', false); loop perform pg_sleep(0.05); commit; end loop; end $$`,
  turns: `set statement_timeout = 0; do $$ begin loop null; end loop; end $$`,
  defers: `set statement_timeout = 0;
    create table if not exists deferred (a int);
    create or replace function wait() returns trigger language plpgsql as $$ begin perform pg_sleep(100); return null; end $$;
    drop trigger if exists wait on deferred;
    create constraint trigger wait after insert on deferred deferrable initially deferred for each row execute function wait();
    insert into deferred values (1)`,
  waits: `begin; select pg_advisory_lock(7); do $$ begin loop begin perform pg_sleep(100); exception when query_canceled then null; end; end loop; end $$`,
}

test('no job outlives its timeout, whatever it sets or catches', async () => {
  const jobs = Object.entries(endless).map(([name, command], at) => ({
    name,
    command,
    of: projects[at % 3]!,
  }))
  for (const { name, command, of } of jobs) await of.schedule(name, command)
  for (const of of projects) await of.tick(undefined)
  for (const { name, of } of jobs) {
    const run = await of.over(name)
    assert.deepEqual([name, run.status, run.return_message], [name, 'failed', timedOut])
  }
  for (const of of projects)
    await eventually(async () => (await ownersSessions(of)).length === 0, 'no session of theirs')
  assert.deepEqual(await runningNow(platform), [])
})

test('nor does one that is unscheduled while it runs', async () => {
  await project.schedule('unscheduled', stubborn)
  await project.tick('unscheduled')
  const { pid } = await project.underWay('unscheduled')
  assert.equal((await project.call('DELETE', '/unscheduled')).status, 204)
  await eventually(async () => !(await project.hasSession(pid)), 'the end of its session')
})

test('nor one whose end the control database has to be asked for more than once', async () => {
  await project.schedule('insisting', stubborn)
  await project.tick('insisting')
  const { pid } = await project.underWay('insisting')
  // Nobody can be ended for a while; the view through which sessions are found is not there.
  await platform.asSuperuser(platform.control, session =>
    session.script(
      'set allow_system_table_mods = on; alter view pg_catalog.pg_stat_activity rename to hidden_activity',
    ),
  )
  const until = performance.now() + timeoutMs + 1500
  await eventually(() => performance.now() > until, 'attempts that failed')
  assert.equal(await project.hasSession(pid), true)
  await platform.asSuperuser(platform.control, session =>
    session.script(
      'set allow_system_table_mods = on; alter view pg_catalog.hidden_activity rename to pg_stat_activity',
    ),
  )
  await eventually(async () => !(await project.hasSession(pid)), 'the end of its session')
  assert.equal((await project.over('insisting')).return_message, timedOut)
})
