// Jobs and their runs: order, history, suspended and deleted projects, and session state after a run.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CronProject, runningNow, seldom, waitAtGate } from './cron-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { heldMemory } from './held-memory.ts'

let platform: TestPlatform
/** For tests that need no separate project. */
let shared: CronProject
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0' } })
  shared = await CronProject.create(platform)
})
after(() => platform?.stop())

test('cron: a run is recorded with its command, command tag and times', async () => {
  const { jobid } = await shared.schedule(
    'tagged',
    'create table tagged (a int); insert into tagged values (1), (2)',
  )
  const first = await shared.run('tagged')
  assert.deepEqual(
    [first.jobid, first.name, first.status, first.return_message],
    [jobid, 'tagged', 'succeeded', 'INSERT 0 2'],
  )
  assert.equal(first.command, 'create table tagged (a int); insert into tagged values (1), (2)')
  assert.ok(first.start_time <= first.end_time!)
  const second = await shared.run('tagged')
  assert.deepEqual([second.status, second.return_message], ['failed', 'relation "tagged" already exists'])
  assert.deepEqual(await shared.sql('select count(*) from tagged'), [{ count: 2 }])
})

test('cron: the statements of a job are one transaction by default', async () => {
  await shared.sql('create table whole (a int)')
  await shared.schedule('whole', 'insert into whole values (1); select 1 / 0')
  const { status, return_message } = await shared.run('whole')
  assert.deepEqual([status, return_message], ['failed', 'division by zero'])
  assert.deepEqual(await shared.sql('select * from whole'), [])
  await shared.schedule('whole', 'begin; insert into whole values (2); commit; select 1 / 0')
  assert.equal((await shared.run('whole')).status, 'failed')
  assert.deepEqual(await shared.sql('select * from whole'), [{ a: 2 }])
})

test('cron: an error keeps its detail and hint, and a long one is truncated', async () => {
  await shared.schedule(
    'told',
    `do $$ begin raise exception 'bad' using detail = 'the detail', hint = 'the hint'; end $$`,
  )
  assert.equal((await shared.run('told')).return_message, 'bad\nDETAIL: the detail\nHINT: the hint')
  await shared.schedule('told', `do $$ begin raise exception '%', repeat('ü', 5000000); end $$`)
  const { status, return_message } = await shared.run('told')
  assert.equal(status, 'failed')
  assert.equal(return_message, 'ü'.repeat(1000))
})

test('cron: a statement_timeout of the job itself is reported as such', async () => {
  await shared.schedule('modest', `set statement_timeout = 50; select pg_sleep(100)`)
  assert.equal((await shared.run('modest')).return_message, 'canceling statement due to statement timeout')
})

test('cron: an open or prepared transaction is rolled back and the run fails', async () => {
  await shared.sql('create table opened (a int)')
  for (const command of [
    'begin; insert into opened values (1)',
    'insert into opened values (1); begin',
    'begin; insert into opened values (1); commit and chain; insert into opened values (2)',
    'begin; select 1 / 0',
    `begin; insert into opened values (1); prepare transaction 'kept'`,
  ]) {
    await shared.schedule('opened', command)
    assert.equal((await shared.run('opened')).status, 'failed', command)
  }
  assert.match((await shared.runs('opened'))[4]!.return_message!, /left a transaction open/)
  assert.deepEqual(await shared.look(`select from pg_prepared_xacts`), [])
  // Its committed row is kept.
  assert.deepEqual(await shared.sql('select a from opened'), [{ a: 1 }])
})

test('cron: session state of a run does not reach the next run', async () => {
  const { ref } = shared
  await shared.schedule(
    'tidy',
    `create temp table left_over (a int); prepare left_over as select 1; listen left_over; notify left_over, 'x';
     set work_mem = '77MB'; select set_config('my.word', 'left', false), pg_advisory_lock(4711);
     declare left_over cursor with hold for select 1`,
  )
  assert.equal((await shared.run('tidy')).status, 'succeeded')
  await shared.schedule(
    'tidy',
    `do $$ begin
       assert to_regclass('pg_temp.left_over') is null, 'temporary table';
       assert not exists (select from pg_prepared_statements where name = 'left_over'), 'prepared statement';
       assert not exists (select from pg_cursors where name = 'left_over'), 'cursor';
       assert not exists (select from pg_listening_channels()), 'channel';
       assert current_setting('work_mem') <> '77MB', 'setting';
       assert current_setting('my.word', true) is null, 'word';
       assert pg_try_advisory_xact_lock(4711), 'advisory lock';
     end $$`,
  )
  assert.equal((await shared.run('tidy')).return_message, 'DO')
  const sessions = `select from pg_stat_activity where datname = '${ref}' and usename = '${ref}_owner'`
  await eventually(async () => (await shared.look(sessions)).length === 0, 'no session of the owner')
})

test('cron: result rows are discarded, and above 64 MB the run fails', async t => {
  const held = () => {
    const { heapUsed, external } = heldMemory()
    return (heapUsed + external) / 1024 / 1024
  }
  const rows = (count: number) => `select repeat('x', 1000) from generate_series(1, ${count})`
  const gate = await shared.gate()
  t.after(gate.open)
  await shared.schedule('wide', `${rows(50_000)}; ${waitAtGate}; ${rows(3)}`)
  await shared.tick('wide')
  const blocked = `select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`
  const before = held()
  await eventually(
    async () => (await shared.look(blocked)).length === 1,
    'a job that has its 50 MB behind it',
  )
  // Others in this process may have taken memory, but not for long.
  await eventually(() => held() - before < 20, 'the 50 MB are not held')
  await gate.open()
  assert.equal((await shared.over('wide')).return_message, 'SELECT 3')
  await shared.schedule('wide', rows(100_000))
  assert.match((await shared.run('wide')).return_message!, /more than 64 MB/)
})

test('cron: COPY, endless notices and empty commands end normally', async () => {
  await shared.sql('create table copied (a int)')
  const ends: Record<string, [status: string, message: RegExp]> = {
    'copy copied from stdin': ['failed', /COPY from stdin failed/],
    'copy (select 1) to stdout': ['succeeded', /^COPY 1$/],
    "do $$ begin for i in 1..20000 loop raise notice 'again and again'; end loop; end $$": [
      'succeeded',
      /^DO$/,
    ],
    ';': ['succeeded', /^$/],
    'create table if not exists copied (a int)': ['succeeded', /^CREATE TABLE$/],
    'create table if not exists copied (a int); -- over': ['succeeded', /^CREATE TABLE$/],
    '-- nothing': ['succeeded', /^$/],
  }
  for (const [command, [status, message]] of Object.entries(ends)) {
    await shared.schedule('odd', command)
    const run = await shared.run('odd')
    assert.equal(run.status, status, `${command}: ${run.return_message}`)
    assert.match(run.return_message!, message)
  }
})

test('cron: the next tick is recorded as skipped while a run is active', async () => {
  const gate = await shared.gate()
  await shared.schedule('slow', waitAtGate)
  await shared.tick('slow')
  await shared.underWay('slow')
  await shared.tick('slow')
  await eventually(async () => (await shared.statuses('slow')).length === 2, 'a second tick')
  const [skipped, running] = await shared.runs('slow')
  assert.deepEqual(
    [skipped!.status, skipped!.return_message, running!.status, running!.end_time],
    ['skipped', 'the run before was still going', 'running', null],
  )
  assert.ok(skipped!.end_time)
  await gate.open()
  await eventually(async () => (await shared.statuses('slow'))[1] === 'succeeded', 'the end of the first')
  assert.equal((await shared.run('slow')).status, 'succeeded')
})

test('cron: a job replaced during its run finishes the old command and then runs the new one', async () => {
  const gate = await shared.gate()
  const { jobid, created_at } = await shared.schedule('changed', waitAtGate)
  await shared.tick('changed')
  await shared.underWay('changed')
  const replaced = await shared.schedule('changed', 'select 2', '*/5 * * * *')
  assert.deepEqual([replaced.jobid, replaced.created_at], [jobid, created_at])
  await gate.open()
  const first = await shared.over('changed')
  assert.deepEqual([first.status, first.command], ['succeeded', waitAtGate])
  const second = await shared.run('changed')
  assert.deepEqual(
    [second.status, second.command, second.return_message],
    ['succeeded', 'select 2', 'SELECT 1'],
  )
})

test('cron: a job unscheduled during its run finishes, leaves no history, and frees its name', async () => {
  await shared.sql('create table farewell (a int)')
  const gate = await shared.gate()
  const { jobid } = await shared.schedule('gone', `${waitAtGate}; insert into farewell values (1)`)
  await shared.tick('gone')
  const { pid } = await shared.underWay('gone')
  assert.equal((await shared.call('DELETE', '/gone')).status, 204)
  assert.equal((await shared.call('GET', '/gone/runs')).body.code, 'job_not_found')
  const again = await shared.schedule('gone', 'select 1')
  assert.notEqual(again.jobid, jobid)
  assert.equal((await shared.run('gone')).status, 'succeeded', 'the earlier run does not block the new job')
  await gate.open()
  await eventually(async () => !(await shared.hasSession(pid)), 'the end of the first')
  assert.deepEqual(await shared.sql('select a from farewell'), [{ a: 1 }])
  assert.deepEqual(await shared.statuses('gone'), ['succeeded'])
})

test('cron: the history keeps the newest 100 runs', async () => {
  const { jobid } = await shared.schedule('often', 'select 1')
  const fill = `insert into job_runs (job_id, status, return_message, command, end_time)
                select ${jobid}, 'succeeded', 'old ' || n, '', now() from generate_series(1, 150) n`
  const kept = async () => (await shared.inControl(`select from job_runs where job_id = ${jobid}`)).length
  await shared.inControl(fill)
  const last = await shared.run('often')
  await eventually(async () => (await kept()) === 100, 'a hundred runs')
  const runs = await shared.runs('often')
  assert.deepEqual(
    [runs[0]!.runid, runs[1]!.return_message, runs[99]!.return_message],
    [last.runid, 'old 150', 'old 52'],
  )

  // Skipped ticks count. An active run is kept regardless of its age.
  const gate = await shared.gate()
  await shared.schedule('often', waitAtGate)
  await shared.tick('often')
  await shared.underWay('often')
  await shared.inControl(fill)
  await shared.tick('often')
  await eventually(async () => (await shared.statuses('often'))[0] === 'skipped', 'a skipped tick')
  assert.equal(await kept(), 101)
  await gate.open()
  await eventually(async () => (await kept()) === 100, 'a hundred runs')
})

test('cron: a project has at most 1000 jobs, even with concurrent requests', async () => {
  const project = await CronProject.create(platform)
  await project.inControl(
    `insert into jobs (project_id, name, schedule, command, next_run_at)
     select '${project.id}', 'job ' || n, '${seldom}', 'select 1', '2100-01-01' from generate_series(1, 997) n`,
  )
  const replies = await Promise.all(
    Array.from({ length: 8 }, (_, at) =>
      project.call('POST', '', { name: `more ${at}`, schedule: seldom, command: 'select 1' }),
    ),
  )
  assert.deepEqual(replies.map(({ status }) => status).sort(), [201, 201, 201, 409, 409, 409, 409, 409])
  assert.equal(replies.find(({ status }) => status === 409)!.body.code, 'too_many_jobs')
  assert.equal((await project.call('GET', '')).body.length, 1000)
  await project.schedule('job 1', 'select 2')
  assert.equal((await project.call('DELETE', '/job%202')).status, 204)
  await project.schedule('one more', 'select 1')
})

test('cron: the total SQL of all jobs of a project is limited', async () => {
  const project = await CronProject.create(platform)
  const long = (length: number) => `--${'x'.repeat(length - 2)}`
  await project.inControl(
    `insert into jobs (project_id, name, schedule, command, next_run_at)
     select '${project.id}', 'job ' || n, '${seldom}', repeat('x', 99500), '2100-01-01' from generate_series(1, 40) n`,
  )
  const ask = (name: string, command: string) => project.call('POST', '', { name, schedule: seldom, command })
  assert.equal((await ask('more', long(20_001))).body.code, 'too_many_jobs')
  assert.equal((await ask('more', long(20_000))).status, 201)
  assert.equal((await ask('more', long(19_000))).status, 201, 'a replaced job counts once')
  assert.equal((await ask('job 1', long(100_000))).status, 201)
  assert.equal((await ask('job 2', long(100_000))).status, 201)
  assert.equal((await ask('job 3', long(100_000))).status, 409)
})

test('cron: a suspended project runs no jobs, and missed ticks do not run after resume', async () => {
  const project = await CronProject.create(platform)
  await project.sql('create table ran (a int)')
  await project.schedule('sleeper', 'insert into ran values (1)', '*/10 * * * *')
  await shared.schedule('other', 'select 1')
  await platform.projects.suspend({ params: { id: project.id } })
  await project.tick('sleeper')
  assert.equal((await shared.run('other')).status, 'succeeded', 'the node has polled')
  const ranUntilNow = () =>
    project.inControl(
      `select from job_runs r join jobs j on j.id = r.job_id where j.project_id = '${project.id}'`,
    )
  assert.deepEqual(await ranUntilNow(), [])

  // A minute has passed.
  await project.tick('sleeper', `now() - interval '1 minute'`)
  await platform.projects.resume({ params: { id: project.id } })
  const isAhead = async () =>
    (await project.inControl(`select from jobs where project_id = '${project.id}' and next_run_at > now()`))
      .length === 1
  await eventually(isAhead, 'a tick in the future')
  assert.deepEqual(await ranUntilNow(), [])
  assert.deepEqual(await project.sql('select * from ran'), [])
  assert.equal((await project.run('sleeper')).status, 'succeeded')
})

test('cron: suspending a project ends its active runs', async () => {
  const project = await CronProject.create(platform)
  await project.gate()
  await project.schedule('waiting', waitAtGate)
  await project.tick('waiting')
  const { pid } = await project.underWay('waiting')
  await platform.projects.suspend({ params: { id: project.id } })
  await eventually(async () => !(await project.hasSession(pid)), 'the end of its session')
  await platform.projects.resume({ params: { id: project.id } })
  const { status, return_message } = await project.over('waiting')
  assert.deepEqual([status, return_message], ['failed', 'the project was suspended'])
})

test('cron: deleting a project removes jobs and history and ends active runs', async () => {
  const project = await CronProject.create(platform)
  await project.gate()
  await project.schedule('idle', 'select 1')
  await project.schedule('waiting', waitAtGate)
  await project.run('idle')
  await project.tick('waiting')
  const { pid } = await project.underWay('waiting')
  await platform.projects.remove({ params: { id: project.id } })
  assert.deepEqual(await shared.inControl(`select from jobs where project_id = '${project.id}'`), [])
  assert.deepEqual(
    await shared.inControl('select from job_runs where job_id not in (select id from jobs)'),
    [],
  )
  await eventually(async () => !(await shared.hasSession(pid)), 'the end of its session')
  const isForgotten = async () =>
    (await runningNow(platform)).every(({ project_id }) => project_id !== project.id)
  await eventually(isForgotten, 'nothing that runs')
})

test('cron: slow jobs of a project use at most three slots', async () => {
  const [busy, quick] = await Promise.all([CronProject.create(platform), CronProject.create(platform)])
  const gate = await busy.gate()
  const names = Array.from({ length: 8 }, (_, at) => `slow${at}`)
  for (const name of names) await busy.schedule(name, waitAtGate)
  await quick.schedule('quick', 'select 1')
  await busy.tick(names, `now() - interval '1 second'`)
  const isFull = async () =>
    (await runningNow(platform)).filter(({ backend_pid }) => backend_pid !== null).length === 3
  await eventually(isFull, 'three that run')
  for (let round = 0; round < 3; round++) assert.equal((await quick.run('quick')).status, 'succeeded')
  assert.equal((await runningNow(platform)).length, 3)
  await gate.open()
  for (const name of names) assert.equal((await busy.over(name)).status, 'succeeded')
})

test('cron: a node runs at most forty jobs at once', async () => {
  const projects = await Promise.all(Array.from({ length: 14 }, () => CronProject.create(platform)))
  const gates = await Promise.all(projects.map(project => project.gate()))
  const names = ['one', 'two', 'three']
  await Promise.all(projects.flatMap(project => names.map(name => project.schedule(name, waitAtGate))))
  for (const project of projects) await project.tick(names)
  const places = async () =>
    (await runningNow(platform)).filter(({ backend_pid }) => backend_pid !== null).length
  await eventually(async () => (await places()) === 40, 'forty that run')
  platform.app.directory.forget(shared.id)
  assert.equal((await runningNow(platform)).length, 40)
  await Promise.all(gates.map(gate => gate.open()))
  for (const project of projects)
    for (const name of names) assert.equal((await project.over(name)).status, 'succeeded')
})

test('cron: a job waits while all owner connections are busy', async () => {
  const project = await CronProject.create(platform)
  const gate = await project.gate()
  const work = Array.from({ length: 5 }, () => project.sql(waitAtGate))
  const waiting = `select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`
  await eventually(async () => (await project.look(waiting)).length === 5, 'five sessions of the owner')
  await project.schedule('patient', 'select 1')
  await project.tick('patient')
  await eventually(async () => (await project.statuses('patient'))[0] === 'running', 'a run')
  const rejected = await platform.call('POST', `/v1/rest/${project.id}/rpc/exec_sql`, {
    token: project.key,
    apikey: project.key,
    body: { sql: 'select 1' },
  })
  assert.equal(rejected.body.code, 'pool_exhausted')
  const [run] = await runningNow(platform)
  assert.equal(run!.backend_pid, null)
  await gate.open()
  await Promise.all(work)
  assert.equal((await project.over('patient')).status, 'succeeded')
})

test('cron: an invalid stored schedule does not block other jobs or the start of a node', async () => {
  const project = await CronProject.create(platform)
  await project.schedule('strange', 'select 1')
  await project.schedule('sound', 'select 1')
  await project.inControl(
    `update jobs set schedule = 'at dawn' where project_id = '${project.id}' and name = 'strange'`,
  )
  await project.tick(['strange', 'sound'])
  assert.equal((await project.over('sound')).status, 'succeeded')
  assert.equal((await project.over('strange')).status, 'succeeded')
  assert.equal((await project.job('strange')).next_run_at, '9999-12-31T00:00:00.000Z')
  const next = await startPlatform({ beside: platform })
  await next.stop()
})
