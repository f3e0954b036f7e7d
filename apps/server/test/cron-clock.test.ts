// Missed ticks and clock jumps. The tests set the clock by replacing the time functions of the control database.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { CronProject } from './cron-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: CronProject
before(async () => {
  platform = await startPlatform()
  await platform.asSuperuser(platform.control, session => session.script(movableClock))
})
/** Nodes to close after each test, even if it fails. */
const nodes: TestPlatform[] = []
after(async () => {
  for (const node of nodes) await node.app.close()
  await setClock('0')
  await platform?.stop()
})
beforeEach(async () => {
  await setClock('0')
  project = await CronProject.create(platform)
  await project.sql('create table ran (a int)')
})

/** The time functions that the platform uses. The test can shift what they return. */
const clocks = { now: 'stable', statement_timestamp: 'stable', clock_timestamp: 'volatile' }
const movableClock = `
  set allow_system_table_mods = on;
  create table public.clock_shift as select interval '0' as shift;
  ${Object.entries(clocks)
    .map(
      ([name, kind]) => `
        alter function pg_catalog.${name}() rename to real_${name};
        create function pg_catalog.${name}() returns timestamptz language plpgsql ${kind} as
          $$ begin return pg_catalog.real_${name}() + (select shift from public.clock_shift); end $$;`,
    )
    .join('')}`
const setClock = (by: string) =>
  platform.asSuperuser(platform.control, session =>
    session.script(`update public.clock_shift set shift = '${by}'`),
  )

const insert = 'insert into ran values (1)'
const ran = async () => (await project.sql('select * from ran')).length
/** Milliseconds from now, by the clock of the control database. */
async function aheadBy(name: string): Promise<number> {
  const [job] = await project.inControl<{ ms: number }>(
    `select extract(epoch from next_run_at - clock_timestamp()) * 1000 as ms from jobs
      where project_id = '${project.id}' and name = '${name}'`,
  )
  return Number(job!.ms)
}
/** Makes the node poll, and waits until it has. */
async function poll(node = platform): Promise<void> {
  const seen = new CronProject(node, project.id, project.ref, project.key)
  await seen.schedule('witness', 'select 1')
  assert.equal((await seen.run('witness')).status, 'succeeded')
}
const minutes = 60_000
const hours = 60 * minutes
/** Once an hour, half an hour from now, so that no tick is due during a test, also with the clock set by whole hours. */
const distant = () => `${(new Date().getUTCMinutes() + 30) % 60} * * * *`

test('cron: the clock of this test can be set', async () => {
  const read = async () =>
    (await project.inControl<{ now: string }>('select clock_timestamp() as now'))[0]!.now
  const before = Date.parse(await read())
  await setClock('10 years')
  assert.ok(Date.parse(await read()) - before > 3650 * 24 * hours)
})

test('cron: ticks missed while no node was running are dropped', async () => {
  const down = await startPlatform()
  const first = await CronProject.create(down)
  await first.schedule('missed', 'select 1', distant())
  await first.schedule('beat', 'select 1', '20 seconds')
  await first.schedule('once', 'select 1')
  await down.app.close()
  await down.asSuperuser(down.control, session =>
    session.script(`
      update public.projects set updated_at = now() - interval '1 day';
      update public.jobs set next_run_at = now() - interval '1 hour'`),
  )
  const next = await startPlatform({ beside: down })
  nodes.push(next)
  project = new CronProject(next, first.id, first.ref, first.key)
  await poll(next)
  for (const name of ['missed', 'beat', 'once']) {
    assert.deepEqual(await project.statuses(name), [], name)
    assert.ok((await aheadBy(name)) > 0, name)
  }
  assert.ok((await aheadBy('missed')) <= hours)
  assert.ok((await aheadBy('beat')) <= 20_000)
  assert.equal((await project.run('missed')).status, 'succeeded')
})

test('cron: ticks missed while the project was suspended are dropped', async () => {
  await project.schedule('missed', insert, distant())
  await platform.projects.suspend({ params: { id: project.id } })
  // All missed ticks are after the start of the node.
  await project.tick('missed', `now() + interval '30 minutes'`)
  await setClock('1 hour')
  await platform.projects.resume({ params: { id: project.id } })
  await poll()
  assert.deepEqual(await project.statuses('missed'), [])
  const ahead = await aheadBy('missed')
  assert.ok(ahead > 0 && ahead <= hours, `the next tick is in ${ahead} ms`)
  assert.equal((await project.run('missed')).status, 'succeeded')
})

test('cron: a very recent tick still runs', async () => {
  await project.schedule('late', insert)
  await project.inControl(`update projects set updated_at = now() where id = '${project.id}'`)
  await project.tick('late', `now() - interval '2 seconds'`)
  assert.equal((await project.over('late')).status, 'succeeded')
})

test('cron: a tick that waited for a minute is recorded as skipped, and the next one is in the future', async () => {
  await project.schedule('crowded', insert, distant())
  // The tick is an hour from now, so after the start of the node, and waits for more than a minute.
  await project.tick('crowded', `now() + interval '1 hour'`)
  await setClock('1 hour 61 seconds')
  await poll()
  const [run] = await project.runs('crowded')
  assert.deepEqual(
    [run!.status, run!.return_message],
    ['skipped', 'it found no turn within 60 seconds of its time'],
  )
  assert.ok((await aheadBy('crowded')) > 0)
  assert.equal(await ran(), 0)
})

test('cron: a clock set forward causes one skipped tick per job', async () => {
  for (const by of ['1 hour', '5 years']) {
    await setClock('0')
    await project.schedule('often', insert, distant())
    await project.schedule('beat', insert, '10 seconds')
    await setClock(by)
    await poll()
    for (const [name, most] of Object.entries({ often: hours, beat: 10_000 })) {
      const statuses = await project.statuses(name)
      assert.deepEqual(statuses.slice(0, 1), ['skipped'], `${name} after ${by}`)
      const ahead = await aheadBy(name)
      assert.ok(ahead > 0 && ahead <= most, `the next tick of ${name} is in ${ahead} ms`)
      await project.call('DELETE', `/${name}`)
    }
  }
  assert.equal(await ran(), 0)
})

test('cron: with a clock set back by an hour no tick runs twice', async () => {
  await project.schedule('hourly', insert, distant())
  await project.schedule('beat', insert, '10 seconds')
  const before = [await aheadBy('hourly'), await aheadBy('beat')]
  await setClock('-1 hour')
  await poll()
  const after = [await aheadBy('hourly'), await aheadBy('beat')]
  for (const [index, ahead] of after.entries())
    assert.ok(ahead > 50 * minutes, `the next tick moved from ${before[index]} to ${ahead}`)
  assert.equal(await ran(), 0)
  await setClock('0')
  await poll()
  assert.ok((await aheadBy('beat')) <= 10_000)
  assert.equal((await project.run('beat')).status, 'succeeded')
})

test('cron: with a clock set back by years jobs are rescheduled and leases of crashed nodes expire', async () => {
  const schedules = { often: '*/5 * * * *', beat: '30 seconds', seldom: '0 0 29 2 *' }
  for (const [name, schedule] of Object.entries(schedules)) await project.schedule(name, insert, schedule)
  await setClock('5 years')
  await poll()
  const seldom = (await project.job('seldom')).next_run_at!
  const { jobid } = await project.job('often')
  await project.inControl(
    `insert into job_runs (job_id, status, command, leased_until) values (${jobid}, 'running', '', now() + interval '30 seconds')`,
  )
  await setClock('0')
  await poll()
  await eventually(async () => (await aheadBy('often')) <= 5 * minutes, 'a tick within five minutes')
  assert.ok((await aheadBy('beat')) <= 30_000)
  assert.ok((await project.job('seldom')).next_run_at! < seldom)
  const [lease] = await project.inControl<{ seconds: string }>(
    `select extract(epoch from leased_until - now()) as seconds from job_runs where job_id = ${jobid} and status = 'running'`,
  )
  assert.ok(Number(lease!.seconds) <= 30, `the lease ends in ${lease!.seconds} s`)
})

test('cron: a starting node reschedules ticks that are years ahead and keeps those within hours', async () => {
  await project.schedule('far', insert, '*/5 * * * *')
  await project.schedule('beat', insert, '30 seconds')
  await project.schedule('near', insert, '*/5 * * * *')
  await project.tick(['far', 'beat'], `now() + interval '7 years'`)
  await project.tick('near', `now() + interval '1 hour'`)
  nodes.push(await startPlatform({ beside: platform }))
  assert.ok((await aheadBy('far')) <= 5 * minutes)
  assert.ok((await aheadBy('beat')) <= 30_000)
  assert.ok((await aheadBy('near')) > 50 * minutes)
})
