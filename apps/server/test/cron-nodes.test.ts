// Jobs on several nodes, and runs whose node, session or platform ends.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { raw } from '#src/kernel/postgres/sql.ts'
import { CronProject, runningNow, stubborn, waitAtGate } from './cron-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
/** The nodes that have joined it. */
const nodes: TestPlatform[] = []
const undo: (() => unknown)[] = []
before(async () => {
  platform = await startPlatform()
})
after(async () => {
  for (const node of nodes) await node.stop()
  for (const step of undo.reverse()) await step()
  await platform?.stop()
})

/** A separate platform with a project. */
async function ofItsOwn(): Promise<CronProject> {
  const first = await startPlatform()
  return CronProject.create(first)
}
/** The same project, seen from another node. */
const at = (node: TestPlatform, { id, ref, key }: CronProject) => new CronProject(node, id, ref, key)

/** A node in its own process, started like in production. */
async function startMain({
  address,
  control,
  adminToken,
  controlPlaneSecret,
}: TestPlatform): Promise<ChildProcess> {
  const cwd = fs.mkdtempSync(join(tmpdir(), 'plinth-cron-'))
  const child = spawn(process.execPath, [fileURLToPath(new URL('../src/main.ts', import.meta.url))], {
    cwd,
    env: {
      PATH: process.env['PATH'],
      PLATFORM_PORT: '0',
      PLATFORM_DISK_RESERVE_MB: '0',
      PLATFORM_ADMIN_TOKEN: adminToken,
      CONTROL_PLANE_SECRET: controlPlaneSecret,
      DATABASE_URL: `postgres://${address.user}:${address.password}@${encodeURIComponent(address.host)}:${address.port}/${control}`,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  undo.push(() => {
    child.kill('SIGKILL')
    fs.rmSync(cwd, { recursive: true, force: true })
  })
  let output = ''
  child.stderr!.setEncoding('utf8').on('data', text => (output += text))
  await eventually(() => output.includes('running at') || child.exitCode !== null, 'the node starts')
  assert.equal(child.exitCode, null, output)
  return child
}

for (const count of [2, 3])
  test(`cron: each tick runs once on ${count} nodes that poll at the same time`, async () => {
    while (nodes.length < count - 1) nodes.push(await startPlatform({ beside: platform }))
    const projects = await Promise.all([1, 2, 3, 4].map(() => CronProject.create(platform)))
    const ofThem = `project_id = any('{${projects.map(({ id }) => id).join(',')}}')`
    const names = ['a', 'b', 'c']
    for (const project of projects) {
      await project.sql('create table ran (name text)')
      for (const name of names) await project.schedule(name, `insert into ran values ('${name}')`)
    }
    const rounds = 8
    for (let round = 1; round <= rounds; round++) {
      await platform.app.control.run(raw(`update jobs set next_run_at = now() where ${ofThem}`))
      for (const { app } of [platform, ...nodes]) app.directory.forget(projects[0]!.id)
      const due = projects.length * names.length * round
      await eventually(async () => {
        const found = await platform.app.control.row<{ over: number }>(
          raw(`
          select count(*)::int as over from job_runs r join jobs j on j.id = r.job_id
           where ${ofThem} and r.status <> 'running'`),
        )
        return found!.over >= due
      }, `${due} runs`)
    }
    for (const project of projects) {
      const ran = await project.sql('select name, count(*) from ran group by name order by name')
      assert.deepEqual(
        ran,
        names.map(name => ({ name, count: rounds })),
      )
      for (const name of names)
        assert.deepEqual(await project.statuses(name), Array(rounds).fill('succeeded'))
    }
  })

test('cron: a job with an interval of one second runs at most once per second on three nodes', async () => {
  const project = await CronProject.create(platform)
  await project.sql('create table ran (at timestamptz)')
  const { next_run_at } = await project.schedule(
    'beat',
    'insert into ran select clock_timestamp()',
    '1 seconds',
  )
  await eventually(async () => (await project.runs('beat')).length >= 4, 'four runs')
  await project.schedule('beat', 'select 1')
  await eventually(async () => !(await project.statuses('beat')).includes('running'), 'the end')
  for (const node of nodes.splice(0)) await node.stop()
  const runs = (await project.runs('beat')).reverse()
  const succeeded = runs.filter(({ status }) => status === 'succeeded')
  assert.equal((await project.sql('select * from ran')).length, succeeded.length)
  for (const [index, { start_time }] of runs.entries())
    assert.ok(
      Date.parse(start_time) >= Date.parse(next_run_at!) + index * 1000,
      `run ${index} is not before its tick`,
    )
})

test('cron: after kill -9 another node records the run as failed when its lease expires, and ends its session', async () => {
  const project = await ofItsOwn()
  await project.schedule('cut', stubborn)
  await project.platform.app.close()
  const child = await startMain(project.platform)
  const behind = <T>(text: string) =>
    project.platform.asSuperuser(project.platform.control, session => session.rows<T>(raw(text)))
  await behind(`update public.jobs set next_run_at = now()`)
  await behind(`select pg_notify('project_changed', '${project.id}')`)
  const run = await eventually(async () => {
    // The session is recorded before it gets the statement. Without the statement it would end with its node.
    const running = `select r.backend_pid as pid from public.job_runs r
      join pg_stat_activity a on a.pid = r.backend_pid and a.wait_event = 'PgSleep' where r.status = 'running'`
    return (await behind<{ pid: number }>(running))[0]
  }, 'a run')
  child.kill('SIGKILL')
  await once(child, 'exit')
  // The lease must outlast a slow start of the next node, which shortens it to 30 seconds, and slow steps after it.
  const lengthenLease = `update public.job_runs set leased_until = now() + interval '1 hour' where status = 'running'`
  await behind(lengthenLease)

  const next = await startPlatform({ beside: project.platform })
  await behind(lengthenLease)
  undo.push(() => next.app.close())
  const later = at(next, project)
  await later.schedule('other', 'select 1')
  assert.equal((await later.run('other')).status, 'succeeded', 'the node has polled')
  assert.deepEqual(
    await later.statuses('cut'),
    ['running'],
    'the lease of the killed node has not expired yet',
  )
  assert.ok(await later.hasSession(run.pid))
  await later.tick('cut')
  await eventually(async () => (await later.statuses('cut')).length === 2, 'a tick beside it')
  assert.deepEqual(await later.statuses('cut'), ['skipped', 'running'])

  await later.inControl(`update job_runs set leased_until = now() where status = 'running'`)
  next.app.directory.forget(later.id)
  await eventually(async () => (await later.statuses('cut'))[1] === 'failed', 'a record')
  const [, cut] = await later.runs('cut')
  assert.equal(cut!.return_message, 'the platform stopped while it ran')
  assert.ok(cut!.end_time)
  await eventually(async () => !(await later.hasSession(run.pid)), 'the end of its session')
  await later.schedule('cut', 'select 1')
  assert.equal((await later.run('cut')).status, 'succeeded')
})

test('cron: a node that lost its lease neither starts nor records the run', async () => {
  const project = await CronProject.create(platform)
  const gate = await project.gate()
  await project.schedule('lost', waitAtGate)
  await project.tick('lost')
  const { pid } = await project.underWay('lost')
  await project.inControl(`update job_runs set leased_until = now() where status = 'running'`)
  platform.app.directory.forget(project.id)
  await eventually(async () => !(await project.hasSession(pid)), 'the end of its session')
  await gate.open()
  const run = await project.over('lost')
  assert.deepEqual([run.status, run.return_message], ['failed', 'the platform stopped while it ran'])

  // The lease is lost between the tick and the first statement, while the run waits for a slot.
  await project.sql('create table begun (a int)')
  await project.schedule('late', 'insert into begun values (1)')
  const closed = await project.gate()
  const work = Array.from({ length: 5 }, () => project.sql(waitAtGate))
  const waiting = `select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`
  await eventually(async () => (await project.look(waiting)).length === 5, 'five sessions of the owner')
  await project.tick('late')
  await eventually(async () => (await project.statuses('late'))[0] === 'running', 'a run')
  await project.inControl(`update job_runs set leased_until = now() where status = 'running'`)
  platform.app.directory.forget(project.id)
  await project.over('late')
  await closed.open()
  await Promise.all(work)
  // Three other jobs can run only after it has released its slot.
  const again = await project.gate()
  const others = ['one', 'two', 'three']
  for (const name of others) await project.schedule(name, waitAtGate)
  await project.tick(others)
  for (const name of others) await project.underWay(name)
  await again.open()
  assert.deepEqual(await project.sql('select * from begun'), [])
})

test('cron: a run whose session is terminated is recorded as failed with the reason', async () => {
  const project = await CronProject.create(platform)
  await project.gate()
  await project.schedule('ended', waitAtGate)
  await project.tick('ended')
  const { pid } = await project.underWay('ended')
  await project.look(`select pg_terminate_backend(${pid})`)
  const run = await project.over('ended')
  assert.equal(run.status, 'failed')
  assert.equal(
    run.return_message,
    'its session was ended: terminating connection due to administrator command',
  )
})

test('cron: runs continue while the control database is down and are recorded afterwards', async () => {
  const project = await CronProject.create(platform)
  const { platform: own } = project
  const gate = await project.gate()
  await project.schedule('on', waitAtGate)
  await project.schedule('next', 'select 1')
  await project.tick('on')
  await project.underWay('on')
  await own.asSuperuser('postgres', async session => {
    await session.script(`alter database ${own.control} allow_connections false`)
    await session.rows(
      raw(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${own.control}'`),
    )
  })
  await gate.open()
  const isLogged = () => own.logged.some(line => line.includes('cannot record the outcome of a job'))
  await eventually(isLogged, 'the log line')
  await own.asSuperuser('postgres', session =>
    session.script(`alter database ${own.control} allow_connections true`),
  )
  await eventually(
    async () => (await project.runs('on').catch(() => []))[0]?.status === 'succeeded',
    'a record',
  )
  await eventually(() => project.run('next').catch(() => undefined), 'the next job')
})

test('cron: a run fails if its project cannot be read, and the job runs again', async () => {
  const project = await CronProject.create(platform)
  const { platform: own } = project
  await project.schedule('unseen', 'select 1')
  // The worker can read the tick, but the directory, which reads more columns, cannot read the project.
  await project.inControl('alter table projects rename column quotas to hidden')
  await project.tick('unseen')
  const last = () =>
    project.inControl<{ status: string }>(
      `select r.status from job_runs r join jobs j on j.id = r.job_id where j.project_id = '${project.id}'`,
    )
  await eventually(async () => (await last())[0]?.status === 'failed', 'a failed run')
  await project.inControl('alter table projects rename column hidden to quotas')
  assert.deepEqual(await runningNow(own), [])
  assert.equal((await project.run('unseen')).status, 'succeeded')
})

test('cron: shutdown ends all runs and records them as failed, including resisting and waiting ones', async () => {
  const project = await ofItsOwn()
  const { platform: own } = project
  await project.gate()
  const jobs = { waits: waitAtGate, resists: stubborn }
  for (const [name, command] of Object.entries(jobs)) await project.schedule(name, command)
  await project.tick(['waits', 'resists'])
  const pids = await Promise.all(['waits', 'resists'].map(async name => (await project.underWay(name)).pid))
  const crowded = await CronProject.create(own)
  const gate = await crowded.gate()
  // Shutdown ends them unless they have ended before.
  const work = Array.from({ length: 5 }, () =>
    own.app.databases.asOwner(crowded, session => session.script(waitAtGate)).catch(() => {}),
  )
  await crowded.schedule('queued', 'select 1')
  await crowded.tick('queued')
  await eventually(async () => (await crowded.statuses('queued'))[0] === 'running', 'a run')
  // If shutdown hangs, the test hangs.
  await own.app.close()
  await gate.open()
  await Promise.all(work)
  const next = await startPlatform({ beside: own })
  undo.push(() => next.app.close())
  const [seen, seenCrowded] = [at(next, project), at(next, crowded)]
  for (const [run] of [
    await seen.runs('waits'),
    await seen.runs('resists'),
    await seenCrowded.runs('queued'),
  ])
    assert.deepEqual([run!.status, run!.return_message], ['failed', 'the platform was stopped'])
  for (const pid of pids) assert.ok(!(await seen.hasSession(pid)))
})
