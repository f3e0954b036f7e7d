// Jobs of hostile and careless owners do not affect jobs of other projects, the CPU time of the platform, the history, or
// connections.
import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { sql } from '#src/kernel/postgres/sql.ts'
import { CronProject, seldom } from './cron-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform, testServer } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

/** Inserts into the control database, because a thousand requests take too long. */
const schedule = (project: CronProject, count: number, command: string, every = '1 seconds') =>
  platform.app.control.run(sql`
    insert into jobs (project_id, name, schedule, command, next_run_at)
    select ${project.id}, 'job ' || n, ${every}, ${command}, clock_timestamp()
      from generate_series(1, ${count}::int) n`)
const unscheduleAll = (project: CronProject) =>
  platform.app.control.run(sql`delete from jobs where project_id = ${project.id}`)

test('cron: a due job does not wait for thousands of overdue jobs of another project', async () => {
  const victim = await CronProject.create(platform)
  await victim.schedule('mine', 'select 1')
  const others: CronProject[] = []
  for (let count = 0; count < 4; count++) others.push(await CronProject.create(platform))
  for (const other of others) await schedule(other, 500, 'select 1')
  const [{ tick }] = (await victim.inControl(`select clock_timestamp()::text as tick`)) as [{ tick: string }]
  await victim.tick('mine', `'${tick}'`)
  const { status } = await victim.over('mine')
  const older = await victim.inControl(`
    select from jobs where project_id <> '${victim.id}' and next_run_at < '${tick}'::timestamptz`)
  for (const other of others) await unscheduleAll(other)
  assert.equal(status, 'succeeded')
  assert.ok(older.length > 1000, `${older.length} of 2000 older ticks were still waiting`)
})

/** The share of a CPU core that this process uses without requests. */
async function shareOfCore(): Promise<number> {
  const [since, before] = [performance.now(), process.cpuUsage()]
  await new Promise(resolve => setTimeout(resolve, 3000))
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000 / (performance.now() - since)
}

const floods = {
  rows: 'select 1, 2, 3, 4, 5, 6, 7, 8 from generate_series(1, 3000) a, generate_series(1, 3000) b',
  notices: `do $$ begin loop raise warning ''; end loop; end $$`,
}
for (const [what, command] of Object.entries(floods))
  test(`cron: jobs with endless ${what} use less than half of a CPU core`, async () => {
    const noisy = await CronProject.create(platform)
    const names = ['a', 'b', 'c']
    for (const name of names) await noisy.schedule(name, command)
    await noisy.tick(names)
    for (const name of names)
      await eventually(async () => (await noisy.statuses(name)).includes('running'), `${name} running`)
    const share = await shareOfCore()
    await platform.projects.remove({ params: { id: noisy.id } })
    assert.ok(share < 0.5, `${Math.round(share * 100)} % of a core`)
  })

test('cron: the history of a job does not repeat its command', async () => {
  const project = await CronProject.create(platform)
  const noise = Array.from({ length: 90_000 }, () =>
    String.fromCharCode(0x4e00 + Math.floor(Math.random() * 20_000)),
  ).join('')
  await project.schedule('long', `select 1 -- ${noise}`)
  for (let count = 0; count < 5; count++) assert.equal((await project.run('long')).status, 'succeeded')
  await project.schedule('long', 'select 2')
  const [{ bytes }] = (await project.inControl(`
    select sum(pg_column_size(r.*))::int as bytes from job_runs r join jobs j on j.id = r.job_id
     where j.project_id = '${project.id}'`)) as [{ bytes: number }]
  assert.ok(bytes < 50_000, `${bytes} bytes for five runs`)
  assert.match((await project.runs('long'))[0]!.command, /^select 1 -- /)
})

test('cron: slow job requests of one project do not block the control database', async () => {
  const noisy = await CronProject.create(platform)
  const { host, port, user, password } = platform.address
  const holder = new pg.Client({ host, port, user, password, database: platform.control })
  await holder.connect()
  await holder.query('begin')
  await holder.query('select from projects where id = $1 for update', [noisy.id])
  const replies = Array.from({ length: 40 }, (_, number) =>
    noisy.call('POST', '', { name: `job ${number}`, schedule: seldom, command: 'select 1' }),
  )
  const waiting = () =>
    platform.asSuperuser('postgres', session =>
      session.rows(
        sql`select from pg_stat_activity where datname = ${platform.control} and wait_event_type = 'Lock'`,
      ),
    )
  await eventually(async () => (await waiting()).length > 0, 'one that waits')
  try {
    const signal = AbortSignal.timeout(90_000)
    const headers = { authorization: `Bearer ${platform.adminToken}` }
    assert.equal((await fetch(`${platform.url}/api/v1/projects?limit=1`, { headers, signal })).status, 200)
  } finally {
    await holder.query('rollback')
    await holder.end()
  }
  const statuses = (await Promise.all(replies)).map(({ status }) => status)
  assert.ok(statuses.includes(201))
  assert.deepEqual(
    statuses.filter(status => status !== 201 && status !== 429),
    [],
  )
})

test('cron: a job that leaves a transaction open fails, even with custom operators', async () => {
  const project = await CronProject.create(platform)
  await project.sql(`
    create table kept (a int);
    create function public.no(timestamptz, timestamptz) returns boolean language sql return false;
    create operator public.<> (leftarg = timestamptz, rightarg = timestamptz, function = public.no)`)
  await project.schedule('open', `set search_path = public, pg_catalog; begin; insert into kept values (1)`)
  const { status, return_message } = await project.run('open')
  assert.deepEqual([status, await project.sql('select a from kept')], ['failed', []])
  assert.match(return_message!, /transaction open/)
})

test('cron: the error of a job is recorded unchanged and is not logged', async () => {
  const project = await CronProject.create(platform)
  for (const code of ['08006', '53300', '57P01', '57014', '28P01', '40001', 'XX000', 'P0001', 'PT429']) {
    const secret = `secret-${crypto.randomUUID()}`
    await project.schedule(
      'raise',
      `do $$ begin raise exception '${secret}' using errcode = '${code}', detail = '${secret}'; end $$`,
    )
    const { status, return_message } = await project.run('raise')
    assert.equal(status, 'failed', code)
    assert.ok(return_message!.includes(secret), `${code}: ${return_message}`)
    assert.ok(!platform.logged.some(line => line.includes(secret)), code)
  }
})

test('cron: a run on a dead connection ends with its timeout, and the platform can stop', async t => {
  const proxy = await openProxy()
  const { address } = proxy
  const behind = await startPlatform({ settings: { PLATFORM_CRON_TIMEOUT_MS: '2000' }, address })
  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= behind.stop()
    return stopping
  }
  t.after(async () => {
    proxy.letGo()
    await stop()
    proxy.close()
  })
  const project = await CronProject.create(behind)
  await project.schedule('silent', 'select pg_sleep(3600)')
  await project.tick('silent')
  await project.underWay('silent')
  proxy.silence()
  const { status, return_message } = await project.over('silent')
  assert.equal(status, 'failed')
  assert.match(return_message!, /PLATFORM_CRON_TIMEOUT_MS/)
  await project.schedule('silent', 'select 1')
  assert.equal((await project.run('silent')).status, 'succeeded')
  // The silent connection is still silent.
  await stop()
})

/** Matches the startup message of an owner's login. */
const asOwner = /user\0p_[a-z2-7]+_owner\0/

/** A proxy to Postgres. After `silence` it drops all data of the owners' connections in both directions. */
async function openProxy() {
  const real = testServer()
  const owners: { isSilent: boolean; sockets: Socket[] }[] = []
  const proxy = createServer(client => {
    const server = real.host.startsWith('/')
      ? connect(`${real.host}/.s.PGSQL.${real.port}`)
      : connect(real.port, real.host)
    const pair = { isSilent: false, sockets: [client, server] }
    client.on('data', bytes => {
      if (asOwner.test(bytes.toString('latin1'))) owners.push(pair)
      if (!pair.isSilent) server.write(bytes)
    })
    server.on('data', bytes => pair.isSilent || client.write(bytes))
    client.on('close', () => pair.isSilent || server.destroy())
    server.on('close', () => pair.isSilent || client.destroy())
    for (const socket of pair.sockets) socket.on('error', () => {})
  })
  await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
  const { port } = proxy.address() as AddressInfo
  return {
    address: { ...real, host: '127.0.0.1', port },
    silence() {
      for (const owner of owners) owner.isSilent = true
    },
    letGo() {
      for (const { sockets } of owners) for (const socket of sockets) socket.destroy()
    },
    close: () => proxy.close(),
  }
}
