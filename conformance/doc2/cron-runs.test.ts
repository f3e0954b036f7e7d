// 2 §4.4, §8 and issue 5: runs of jobs and their history. Tests measure time by another job, which runs every
// second.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CronApi, cronProject, did, type Run } from '../cron.ts'
import { bodyOf } from '../service.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let cron: CronApi
before(async () => {
  it = await target()
  cron = await cronProject(it)
  // The last test, about long histories, needs a hundred runs of this job.
  await cron.schedule('history', '1 seconds', 'select 1')
})
after(() => it.stop())

const count = async (where: CronApi, what: string) =>
  Number((await where.column(`select count(*) from public.did where what = '${what}'`))[0])
const mirror = async (where: CronApi, name: string, query = '') =>
  bodyOf(await it.manage('GET', `/projects/${where.project.id}/cron/jobs/${name}/runs${query}`))
const isNewestFirst = (runs: Run[]) =>
  runs.every(
    (run, place) =>
      place === 0 ||
      (run.runid < runs[place - 1]!.runid &&
        Date.parse(run.start_time) <= Date.parse(runs[place - 1]!.start_time)),
  )

test('2 §4.4 a job with a schedule of one second runs repeatedly, in the project database, as its owner', async () => {
  const command = `insert into public.did select current_user || ' ' || current_database()`
  const { jobid } = await cron.schedule('busy', '1 seconds', command)
  await cron.ticks('busy', 3)
  const run = await cron.run('busy', 'succeeded')
  const { runid, start_time, end_time, ...rest } = run
  assert.deepEqual(rest, { jobid, name: 'busy', status: 'succeeded', return_message: 'INSERT 0 1', command })
  assert.ok(Number.isInteger(runid))
  assert.ok(Date.parse(end_time!) >= Date.parse(start_time), `${start_time} ${end_time}`)
  assert.ok(Math.abs(Date.parse(start_time) - Date.now()) < 600_000, start_time)
  assert.ok(isNewestFirst(await cron.runs('busy')))
  await cron.unschedule('busy')
  const [owner] = await cron.column(`select current_user || ' ' || current_database()`)
  assert.ok((await count(cron, owner)) >= 3)
  assert.equal(await count(cron, owner), Number((await cron.column('select count(*) from public.did'))[0]))
})

test('2 §4.4 each tick runs once: there are no more runs than seconds', async () => {
  await cron.schedule('once', '1 seconds', did('once'))
  await cron.ticks('once', 8)
  const runs = await cron.runs('once')
  const times = runs.map(({ start_time }) => Date.parse(start_time))
  const seconds = (Math.max(...times) - Math.min(...times)) / 1000
  assert.ok(runs.length <= seconds + 3, `${runs.length} runs in ${seconds} seconds`)
  await cron.unschedule('once')
})

test('2 §4.4 a failed run is recorded with the Postgres error, and the job keeps running', async () => {
  await cron.schedule('zero', '1 seconds', 'select 1 / 0')
  await cron.schedule('typo', '1 seconds', 'selec 1')
  await cron.schedule('raise', '1 seconds', `do $$ begin raise exception 'Grüße %', 7; end $$`)
  for (const [name, words] of [
    ['zero', /division by zero/],
    ['typo', /syntax error/],
    ['raise', /Grüße 7/],
  ] as const) {
    const run = await cron.run(name, 'failed')
    assert.match(run.return_message!, words)
    assert.ok(run.end_time)
    await cron.ticks(name, 1)
    assert.ok((await cron.runs(name)).every(({ status }) => status !== 'succeeded'))
    await cron.unschedule(name)
  }
})

test('2 §4.4 a failed command is rolled back', async () => {
  await cron.schedule('half', '1 seconds', `${did('half')}; select 1 / 0`)
  await cron.run('half', 'failed')
  assert.equal(await count(cron, 'half'), 0)
  await cron.unschedule('half')
})

test('Queues contract §6: the message of a run is its command tag', async () => {
  for (const [name, command, tag] of [
    ['select', 'select 1', 'SELECT 1'],
    ['update', `update public.did set what = what where false`, 'UPDATE 0'],
    ['script', `${did('script')}; ${did('script')}; select generate_series(1, 3)`, 'SELECT 3'],
    ['ddl', 'create table if not exists public.made (a int)', 'CREATE TABLE'],
    ['vacuum', 'vacuum public.did', 'VACUUM'],
  ] as const) {
    await cron.schedule(name, '1 seconds', command)
    await cron.ticks(name, 1)
    const [run] = (await cron.runs(name)).filter(({ status }) => status !== 'running')
    assert.deepEqual([run!.status, run!.return_message], ['succeeded', tag], `${name} ${run!.return_message}`)
    await cron.unschedule(name)
  }
})

test('issue 5: replacing a job changes its next run', async () => {
  await cron.schedule('swap', '1 seconds', did('old'))
  await cron.ticks('swap', 1)
  await cron.schedule('swap', '1 seconds', did('new'))
  await until('the new command runs', async () => (await count(cron, 'new')) > 0)
  const before = await count(cron, 'old')
  await cron.ticks('swap', 2)
  assert.equal(await count(cron, 'old'), before)
  assert.equal((await cron.runs('swap', '?limit=1'))[0]!.command, did('new'))
  await cron.unschedule('swap')
})

test('2 §4.4 a removed job does not run again, and its history is deleted', async () => {
  await cron.schedule('brief', '1 seconds', did('brief'))
  await cron.ticks('brief', 1)
  await cron.unschedule('brief')
  assertDataError(await cron.get('jobs/brief/runs'), 'job_not_found')
  // A current run may still finish.
  await cron.ticks('history', 2)
  const before = await count(cron, 'brief')
  await cron.ticks('history', 3)
  assert.equal(await count(cron, 'brief'), before)
  await cron.schedule('brief', '0 0 1 1 *', did('brief'))
  assert.deepEqual(await cron.runs('brief'), [])
  await cron.unschedule('brief')
})

test('issue 5: a job still running when its next tick comes is skipped, and that is recorded', async () => {
  const own = await cronProject(it)
  await own.schedule('long', '1 seconds', `select pg_sleep(3); ${did('long')}`)
  const running = await own.run('long', 'running')
  assert.equal(running.end_time, null)
  const skipped = await own.run('long', 'skipped')
  assert.equal(typeof skipped.return_message, 'string')
  assert.notEqual(skipped.return_message, '')
  assert.ok(skipped.end_time)
  await until('two runs have ended', async () => (await count(own, 'long')) >= 2)
  await own.unschedule('long')
  const rest = await until('no run is left over', async () => {
    const done = await count(own, 'long')
    await cron.ticks('history', 4)
    return done === (await count(own, 'long')) && done
  })
  assert.ok(rest >= 2)
})

test('issue 5: runs of one job never overlap', async () => {
  const own = await cronProject(it)
  await own.schedule('alone', '1 seconds', 'select pg_sleep(1.5)')
  await own.run('alone', 'skipped')
  await until('three runs have worked', async () => {
    const runs = await own.runs('alone')
    return runs.filter(({ status }) => status === 'succeeded').length >= 3
  })
  const worked = (await own.runs('alone')).filter(({ status, end_time }) => status !== 'skipped' && end_time)
  for (const [place, run] of worked.entries())
    if (place > 0)
      assert.ok(
        Date.parse(run.end_time!) <= Date.parse(worked[place - 1]!.start_time),
        JSON.stringify([run, worked[place - 1]]),
      )
  await own.unschedule('alone')
})

test('issue 5: a long job does not delay other jobs', async () => {
  const own = await cronProject(it)
  await own.schedule('sleeps', '1 seconds', 'select pg_sleep(30)')
  await own.run('sleeps', 'running')
  await own.schedule('awake', '1 seconds', did('awake'))
  await own.ticks('awake', 2)
  await cron.ticks('history', 2)
  for (const name of ['sleeps', 'awake']) await own.unschedule(name)
})

test('issue 5: jobs of a suspended project do not run, and missed ticks are dropped', async () => {
  const own = await cronProject(it)
  await own.schedule('stopped', '1 seconds', did('stopped'))
  await own.ticks('stopped', 1)
  const manage = (action: string) => it.manage('POST', `/projects/${own.project.id}/${action}`)
  assert.equal((await manage('suspend')).status, 200)
  await cron.ticks('history', 3)
  const { total } = await mirror(own, 'stopped')
  await cron.ticks('history', 6)
  assert.equal((await mirror(own, 'stopped')).total, total)

  const resumed = await manage('resume')
  const since = Date.parse(resumed.headers.get('date')!)
  await until('it runs again', async () => (await mirror(own, 'stopped')).total >= total + 2)
  const { runs } = await mirror(own, 'stopped', '?limit=100')
  const fresh: Run[] = runs.slice(0, -total)
  const seconds = (Date.parse(fresh[0]!.start_time) - since) / 1000
  assert.ok(fresh.length <= seconds + 3, `${fresh.length} runs in ${seconds} seconds`)
  await own.unschedule('stopped')
})

test('2 §1 jobs with the same name in different projects are separate', async () => {
  const [a, b] = [await cronProject(it), await cronProject(it)]
  await a.schedule('same', '1 seconds', did('a'))
  await b.schedule('same', '1 seconds', did('b'))
  await Promise.all([a.ticks('same', 1), b.ticks('same', 1)])
  assert.deepEqual(await a.column('select distinct what from public.did'), ['a'])
  assert.deepEqual(await b.column('select distinct what from public.did'), ['b'])
  for (const [own, what] of [
    [a, 'a'],
    [b, 'b'],
  ] as const)
    assert.ok((await own.runs('same')).every(({ command }) => command === did(what)))
  await Promise.all([a.unschedule('same'), b.unschedule('same')])
})

test('2 §8 the history is newest first and limited to 100; the management mirror returns 20 by default', async () => {
  // More than the default of the mirror. A hundred runs would take as many seconds.
  await until('25 runs', async () => (await mirror(cron, 'history')).total >= 25, {
    seconds: 200,
    everyMs: 500,
  })
  await cron.schedule('history', '0 0 1 1 *', 'select 1')
  await until('the last run ends', async () => (await cron.runs('history', '?limit=1'))[0]!.end_time)
  const all = await cron.runs('history', '?limit=100')
  assert.ok(all.length >= 25 && all.length <= 100)
  assert.ok(isNewestFirst(all))
  assert.deepEqual(await cron.runs('history', '?limit=1000'), all)
  assert.deepEqual(await cron.runs('history', '?limit=5'), all.slice(0, 5))
  for (const query of ['limit=-1', 'limit=x', 'limit=1.5'])
    assert.equal((await cron.get(`jobs/history/runs?${query}`)).status, 400, query)

  for (const [query, limit] of [
    ['', 20],
    ['?limit=7', 7],
    ['?limit=100', 100],
    ['?limit=101', 100],
    ['?limit=1000', 100],
  ] as const) {
    const page = await mirror(cron, 'history', query)
    assert.deepEqual([page.limit, page.offset, page.runs], [limit, 0, all.slice(0, limit)], query)
    assert.equal(page.total, all.length)
  }
  assert.deepEqual((await mirror(cron, 'history', '?limit=10&offset=5')).runs, all.slice(5, 15))
})
