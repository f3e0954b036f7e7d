// Jobs that try to outlive their timeout.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CronProject, runningNow, stubborn } from './cron-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

/** Long enough to observe an active run on a slow machine. */
const timeoutMs = 2500
const timedOut = `it took longer than the ${timeoutMs} ms of PLATFORM_CRON_TIMEOUT_MS and was ended`
let platform: TestPlatform
/** Three projects, because a project runs three jobs at once. */
let projects: CronProject[]
let project: CronProject
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_CRON_TIMEOUT_MS: String(timeoutMs) } })
  projects = await Promise.all([1, 2, 3].map(() => CronProject.create(platform)))
  project = projects[0]!
})
after(async () => {
  // A run that the platform failed to end would block its shutdown.
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

test('cron: a job ends with its timeout, regardless of what it sets or catches', async () => {
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

test('cron: a job unscheduled during its run ends with its timeout', async () => {
  await project.schedule('unscheduled', stubborn)
  await project.tick('unscheduled')
  const { pid } = await project.underWay('unscheduled')
  assert.equal((await project.call('DELETE', '/unscheduled')).status, 204)
  await eventually(async () => !(await project.hasSession(pid)), 'the end of its session')
})

test('cron: a run ends with its timeout even if the control database fails at first', async () => {
  await project.schedule('insisting', stubborn)
  await project.tick('insisting')
  const { pid } = await project.underWay('insisting')
  // Sessions cannot be terminated for a while, because the view that lists them is missing.
  await platform.asSuperuser(platform.control, session =>
    session.script(
      'set allow_system_table_mods = on; alter view pg_catalog.pg_stat_activity rename to hidden_activity',
    ),
  )
  await sleep(timeoutMs + 1500)
  assert.equal(await project.hasSession(pid), true)
  await platform.asSuperuser(platform.control, session =>
    session.script(
      'set allow_system_table_mods = on; alter view pg_catalog.hidden_activity rename to pg_stat_activity',
    ),
  )
  await eventually(async () => !(await project.hasSession(pid)), 'the end of its session')
  assert.equal((await project.over('insisting')).return_message, timedOut)
})
