import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { packagedBinaries } from '#src/kernel/postgres/engine/binaries.ts'
import { engineFiles, locate } from '#src/kernel/postgres/engine/place.ts'
import { launchPostmaster } from '#src/kernel/postgres/engine/postmaster.ts'
import { engineSettings } from '#src/kernel/postgres/engine/settings.ts'
import {
  children,
  connect,
  eventually,
  isAlive,
  isRoot,
  postmasterPid,
  query,
  said,
  start,
  startInOtherNode,
  unused,
  used,
} from './engine-harness.ts'
import { makeZombie, statOf } from './zombie.ts'

test('the first start makes a cluster that answers on its unix socket', async () => {
  const dataDir = unused('first, with "odd" name/data')
  const engine = await start(dataDir)
  assert.deepEqual((await query(engine, 'select 1 as one')).rows, [{ one: 1 }])
  assert.equal(engine.clusterDir, join(dataDir, 'postgres'))
  assert.equal(engine.socketDir, join(dataDir, 'run'))
  assert.equal(fs.statSync(engine.socketDir).mode & 0o777, 0o700)
  assert.equal(fs.statSync(dataDir).mode & 0o777, isRoot ? 0o711 : 0o700)
  const made = await query(
    engine,
    'select datlocprovider, datlocale, pg_encoding_to_char(encoding) from pg_database',
  )
  for (const row of made.rows) assert.deepEqual(Object.values(row), ['b', 'C.UTF-8', 'UTF8'])
  assert.deepEqual(
    fs.readdirSync(dataDir).sort(),
    ['postgres', 'postgres.log', 'postgres.port', 'run'],
    'nothing temporary, such as the password file, is left',
  )
})

test('a password is required, over TCP and on the socket', async () => {
  const engine = await start(used('password'))
  for (const host of [engine.host, engine.socketDir]) {
    await assert.rejects(query(engine, 'select 1', { host, password: 'wrong' }), { code: '28P01' })
    assert.equal((await query(engine, 'select 1', { host })).rowCount, 1)
  }
})

test('given settings win over ours', async () => {
  const engine = await start(used('settings'), { max_connections: '20' })
  assert.equal((await query(engine, 'show max_connections')).rows[0].max_connections, '20')
  assert.equal(
    (await query(engine, 'show max_locks_per_transaction')).rows[0].max_locks_per_transaction,
    '1024',
  )
})

test('a second start finds the data and the port of the first', async () => {
  const dataDir = used('second')
  const first = await start(dataDir)
  await query(first, "insert into kept values ('one')")
  await first.stop()
  await first.stop()
  const second = await start(dataDir)
  assert.deepEqual((await query(second, 'select note from kept')).rows, [{ note: 'one' }])
  assert.equal(second.port, first.port)
})

test('a killed postmaster is started again with every committed row', async () => {
  const engine = await start(used('killed'))
  await query(engine, "insert into kept values ('committed')")
  const pid = postmasterPid(engine.clusterDir)
  process.kill(pid, 'SIGKILL')
  await eventually(() => said.includes('the database runs again'), 'a restart')
  assert.notEqual(postmasterPid(engine.clusterDir), pid)
  assert.deepEqual((await query(engine, 'select note from kept')).rows, [{ note: 'committed' }])
})

test('a busy query does not hold up the restart after its postmaster was killed', async () => {
  const engine = await start(used('busy'))
  const client = await connect(engine)
  const busy = client.query('do $$ begin loop end loop; end $$').catch(() => 'ended')
  await sleep(100)
  process.kill(postmasterPid(engine.clusterDir), 'SIGKILL')
  await eventually(() => said.includes('the database runs again'), 'a restart')
  assert.equal(await busy, 'ended')
})

test('a statement that cannot be interrupted does not hold up a stop, and no committed row is lost', async () => {
  const dataDir = used('stuck')
  const engine = await start(dataDir)
  await query(engine, `insert into kept values ('before')`)
  const stuck = await connect(engine)
  const running = stuck.query(`do $$ begin execute repeat('/*', 400000); end $$`).catch(() => 'ended')
  await eventually(
    async () =>
      (
        await query(
          engine,
          `select from pg_stat_activity where state = 'active' and query like '%repeat%' and pid <> pg_backend_pid()`,
        )
      ).rowCount === 1,
    'it runs',
  )
  const since = performance.now()
  await engine.stop()
  // Without a way to end it, the stop would first wait ten seconds for the sessions.
  assert.ok(performance.now() - since < 9000, `${Math.round(performance.now() - since)} ms`)
  assert.equal(await running, 'ended')
  const again = await start(dataDir)
  assert.deepEqual((await query(again, 'select note from kept')).rows, [{ note: 'before' }])
})

test('it can be stopped while it is being started again', async () => {
  const dataDir = used('stopped')
  // In the pause before the restart, and in the middle of it.
  for (const delayMs of [0, 225]) {
    const engine = await start(dataDir)
    process.kill(postmasterPid(engine.clusterDir), 'SIGKILL')
    await eventually(() => said.some(message => message.includes('ended by itself')), 'notice')
    await sleep(delayMs)
    await engine.stop()
    await sleep(50)
    const pidFile = join(engine.clusterDir, 'postmaster.pid')
    assert.ok(
      !fs.existsSync(pidFile) || !isAlive(postmasterPid(engine.clusterDir)),
      `none after ${delayMs} ms`,
    )
    said.length = 0
  }
})

test('the orphan of a killed Node is taken over', async () => {
  const dataDir = used('orphan')
  const child = startInOtherNode(dataDir)
  await once(child.stdout!, 'data')
  const orphan = postmasterPid(engineFiles(dataDir).clusterDir)
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.ok(isAlive(orphan), 'it survives Node')
  const engine = await start(dataDir)
  assert.ok(said.some(message => message.includes('killed process left running')))
  assert.notEqual(postmasterPid(engine.clusterDir), orphan)
  assert.ok(!isAlive(orphan))
  assert.equal((await query(engine, 'select 1')).rowCount, 1)
})

test('lock files naming an unrelated live process do not block the start', async () => {
  const dataDir = used('stale')
  const { clusterDir } = engineFiles(dataDir)
  const { uid, gid } = fs.statSync(clusterDir)
  // Of the database's own user: for anybody else's process Postgres itself sees that the file is stale.
  const unrelated = spawn('sleep', ['60'], isRoot ? { uid, gid } : {})
  children.push(unrelated)
  const port = Number(fs.readFileSync(join(dataDir, 'postgres.port'), 'utf8'))
  const stale = `${unrelated.pid}\n${clusterDir}\n1700000000\n${port}\n${join(dataDir, 'run')}\n127.0.0.1\n1 1\nready\n`
  const locks = [join(clusterDir, 'postmaster.pid'), join(dataDir, 'run', `.s.PGSQL.${port}.lock`)]
  for (const lock of locks) fs.writeFileSync(lock, stale)
  const engine = await start(dataDir)
  assert.equal((await query(engine, 'select 1')).rowCount, 1)
  assert.ok(isAlive(unrelated.pid!), 'and the process is left alone')
})

test('lock files naming a zombie do not block the start', async () => {
  const dataDir = used('zombie')
  const { clusterDir } = engineFiles(dataDir)
  const { uid, gid } = fs.statSync(clusterDir)
  // Of the database's own user, as a killed postmaster that nobody reaps would be.
  const { parent, pid } = await makeZombie(isRoot ? { uid, gid } : {})
  children.push(parent)
  const port = Number(fs.readFileSync(join(dataDir, 'postgres.port'), 'utf8'))
  const stale = `${pid}\n${clusterDir}\n1700000000\n${port}\n${join(dataDir, 'run')}\n127.0.0.1\n1 1\nready\n`
  const locks = [join(clusterDir, 'postmaster.pid'), join(dataDir, 'run', `.s.PGSQL.${port}.lock`)]
  for (const lock of locks) fs.writeFileSync(lock, stale)
  const engine = await start(dataDir)
  assert.equal((await query(engine, 'select 1')).rowCount, 1)
  assert.equal(statOf(pid).state, 'Z')
})

test('a remembered port that is taken gives way to another, remembered in turn', async () => {
  const dataDir = used('taken')
  const port = Number(fs.readFileSync(join(dataDir, 'postgres.port'), 'utf8'))
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  try {
    const engine = await start(dataDir)
    assert.notEqual(engine.port, port)
    assert.equal((await query(engine, 'select 1', { host: engine.host })).rowCount, 1)
    assert.equal(Number(fs.readFileSync(join(dataDir, 'postgres.port'), 'utf8')), engine.port)
    // Taken only after we had looked: Postgres itself finds out.
    await engine.stop()
    const { native } = packagedBinaries()
    const stopping = new AbortController().signal
    const launch = { place: locate(dataDir), native, port, settings: engineSettings, stopping }
    assert.equal(await launchPostmaster(launch), undefined)
  } finally {
    server.close()
  }
})

test('two engines run side by side', async () => {
  const both = await Promise.all([start(used('left')), start(used('right'))])
  await query(both[0], "insert into kept values ('left')")
  assert.equal((await query(both[0], 'select * from kept')).rowCount, 1)
  assert.equal((await query(both[1], 'select * from kept')).rowCount, 0)
  assert.notEqual(both[0].port, both[1].port)
})

test('a kill during initdb leaves nothing that the next start minds', async () => {
  const dataDir = unused('halfway')
  const child = startInOtherNode(dataDir)
  const temporary = () => fs.readdirSync(dataDir).filter(name => name.startsWith('postgres.init-'))
  await eventually(() => fs.existsSync(dataDir) && temporary().length === 1, 'initdb')
  await eventually(
    () => fs.existsSync(join(dataDir, temporary()[0]!, 'cluster', 'base')),
    'a half-made cluster',
  )
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.equal(temporary().length, 1)
  assert.ok(!fs.existsSync(join(dataDir, 'postgres')))
  const engine = await start(dataDir)
  assert.deepEqual(temporary(), [])
  assert.equal((await query(engine, 'select 1')).rowCount, 1)
})

test('the log holds the server and never what a session says', async () => {
  const dataDir = used('log')
  const engine = await start(dataDir)
  const attempts = [
    "select 'hunter2'::int",
    "do $$ begin raise exception 'hunter2' using detail = 'hunter2'; end $$",
    "do $$ begin raise log 'hunter2'; end $$",
    "set debug_print_parse = on; set debug_print_plan = on; select 'hunter2' as hunter2",
  ]
  for (const attempt of attempts) await query(engine, attempt).catch(() => {})
  await engine.stop()
  const text = fs.readFileSync(join(dataDir, 'postgres.log'), 'utf8')
  assert.match(text, /ready to accept connections/)
  assert.doesNotMatch(text, /hunter2|STATEMENT|68756e74|\[ 104 117/)
})

test('a log over 10 MB is set aside at the start', async () => {
  const dataDir = used('big-log')
  fs.writeFileSync(join(dataDir, 'postgres.log'), 'x'.repeat(10 * 1024 * 1024 + 1))
  await start(dataDir)
  assert.ok(fs.statSync(join(dataDir, 'postgres.log')).size < 10_000)
  assert.equal(fs.statSync(join(dataDir, 'postgres.log.1')).size, 10 * 1024 * 1024 + 1)
})

test('a server that cannot start is a rejection with the end of its log', async () => {
  await assert.rejects(
    start(used('broken'), { shared_buffers: 'plenty' }),
    /invalid value for parameter "shared_buffers"/,
  )
})
