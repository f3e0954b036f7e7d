import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { packagedBinaries } from '#src/kernel/postgres/engine/binaries.ts'
import { engineFiles, locate } from '#src/kernel/postgres/engine/place.ts'
import { launchPostmaster, sessionBytes } from '#src/kernel/postgres/engine/postmaster.ts'
import { engineSettings } from '#src/kernel/postgres/engine/settings.ts'
import { isLockTableFull } from '#src/kernel/postgres/full-lock-table.ts'
import {
  children,
  connect,
  isAlive,
  isRoot,
  logged,
  postmasterPid,
  query,
  start,
  startInOtherNode,
  unused,
  used,
  useEngines,
} from './engine-harness.ts'
import { eventually } from './eventually.ts'
import { makeZombie, statOf } from './zombie.ts'

useEngines()

test('engine: the first start creates a cluster that accepts connections on its Unix socket', async () => {
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

test('engine: a password is required over TCP and on the socket', async () => {
  const engine = await start(used('password'))
  for (const host of [engine.host, engine.socketDir]) {
    await assert.rejects(query(engine, 'select 1', { host, password: 'wrong' }), { code: '28P01' })
    assert.equal((await query(engine, 'select 1', { host })).rowCount, 1)
  }
})

test('engine: a statement that takes too much memory fails, and all other sessions go on', {
  skip: process.platform !== 'linux' && 'needs prlimit',
}, async () => {
  const engine = await start(used('memory'))
  const pid = postmasterPid(engine.clusterDir)
  const other = await connect(engine)
  assert.match(
    fs.readFileSync(`/proc/${pid}/limits`, 'utf8'),
    new RegExp(`^Max data size +${Math.floor(sessionBytes / 1024) * 1024} `, 'm'),
  )
  const { uid, gid } = fs.statSync(engine.clusterDir)
  execFileSync('prlimit', ['--pid', String(pid), `--data=${256 * 1024 * 1024}`], { uid, gid })
  const large = `select array_agg(repeat(n::text, 100000)) is null from generate_series(1, 10000) n`
  await assert.rejects(query(engine, large), ({ code, message, routine }: pg.DatabaseError) => {
    assert.equal(code, '53200')
    // It would be sent again for some seconds.
    assert.equal(isLockTableFull(new DatabaseError({ code: code!, message, routine })), false)
    return true
  })
  assert.deepEqual((await other.query('select 1 as one')).rows, [{ one: 1 }])
  await other.end()
  assert.equal(postmasterPid(engine.clusterDir), pid)
})

test('engine: given settings override the defaults', async () => {
  const engine = await start(used('settings'), { max_connections: '20' })
  assert.equal((await query(engine, 'show max_connections')).rows[0].max_connections, '20')
  assert.equal(
    (await query(engine, 'show max_locks_per_transaction')).rows[0].max_locks_per_transaction,
    '1024',
  )
})

test('engine: a second start uses the data and the port of the first', async () => {
  const dataDir = used('second')
  const first = await start(dataDir)
  await query(first, "insert into kept values ('one')")
  await first.stop()
  await first.stop()
  const second = await start(dataDir)
  assert.deepEqual((await query(second, 'select note from kept')).rows, [{ note: 'one' }])
  assert.equal(second.port, first.port)
})

test('engine: a killed postmaster is restarted and keeps every committed row', async () => {
  const engine = await start(used('killed'))
  await query(engine, "insert into kept values ('committed')")
  const pid = postmasterPid(engine.clusterDir)
  process.kill(pid, 'SIGKILL')
  await eventually(() => logged.includes('the database runs again'), 'the database has restarted')
  assert.notEqual(postmasterPid(engine.clusterDir), pid)
  assert.deepEqual((await query(engine, 'select note from kept')).rows, [{ note: 'committed' }])
})

test('engine: a running query does not delay the restart of a killed postmaster', async () => {
  const engine = await start(used('busy'))
  const client = await connect(engine)
  const busy = client.query('do $$ begin loop end loop; end $$').catch(() => 'ended')
  await sleep(100)
  process.kill(postmasterPid(engine.clusterDir), 'SIGKILL')
  await eventually(() => logged.includes('the database runs again'), 'the database has restarted')
  assert.equal(await busy, 'ended')
})

test('engine: a statement that cannot be interrupted does not prevent the stop, and no committed row is lost', async () => {
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
  await engine.stop()
  assert.equal(await running, 'ended')
  const again = await start(dataDir)
  assert.deepEqual((await query(again, 'select note from kept')).rows, [{ note: 'before' }])
})

test('engine: it can be stopped during a restart', async () => {
  const dataDir = used('stopped')
  // Stops in the pause before the restart and during the restart.
  for (const delayMs of [0, 225]) {
    const engine = await start(dataDir)
    process.kill(postmasterPid(engine.clusterDir), 'SIGKILL')
    await eventually(() => logged.some(message => message.includes('ended by itself')), 'notice')
    await sleep(delayMs)
    await engine.stop()
    await sleep(50)
    const pidFile = join(engine.clusterDir, 'postmaster.pid')
    assert.ok(
      !fs.existsSync(pidFile) || !isAlive(postmasterPid(engine.clusterDir)),
      `none after ${delayMs} ms`,
    )
    logged.length = 0
  }
})

test('engine: the Postgres of a killed Node process is replaced', async () => {
  const dataDir = used('orphan')
  const child = startInOtherNode(dataDir)
  await once(child.stdout!, 'data')
  const orphan = postmasterPid(engineFiles(dataDir).clusterDir)
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.ok(isAlive(orphan), 'Postgres outlives the Node process')
  const engine = await start(dataDir)
  assert.ok(logged.some(message => message.includes('killed process left running')))
  assert.notEqual(postmasterPid(engine.clusterDir), orphan)
  assert.ok(!isAlive(orphan))
  assert.equal((await query(engine, 'select 1')).rowCount, 1)
})

test('engine: lock files with the pid of an unrelated process do not block the start', async () => {
  const dataDir = used('stale')
  const { clusterDir } = engineFiles(dataDir)
  const { uid, gid } = fs.statSync(clusterDir)
  // It runs as the database user. For a process of another user Postgres itself detects the stale file.
  const unrelated = spawn('sleep', ['60'], isRoot ? { uid, gid } : {})
  children.push(unrelated)
  const port = Number(fs.readFileSync(join(dataDir, 'postgres.port'), 'utf8'))
  const stale = `${unrelated.pid}\n${clusterDir}\n1700000000\n${port}\n${join(dataDir, 'run')}\n127.0.0.1\n1 1\nready\n`
  const locks = [join(clusterDir, 'postmaster.pid'), join(dataDir, 'run', `.s.PGSQL.${port}.lock`)]
  for (const lock of locks) fs.writeFileSync(lock, stale)
  const engine = await start(dataDir)
  assert.equal((await query(engine, 'select 1')).rowCount, 1)
  assert.ok(isAlive(unrelated.pid!), 'the unrelated process is not killed')
})

test('engine: lock files with the pid of a zombie do not block the start', async () => {
  const dataDir = used('zombie')
  const { clusterDir } = engineFiles(dataDir)
  const { uid, gid } = fs.statSync(clusterDir)
  // It runs as the database user, like a killed postmaster that was not reaped.
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

test('engine: if the saved port is in use, another one is chosen and saved', async () => {
  const dataDir = used('taken')
  const port = Number(fs.readFileSync(join(dataDir, 'postgres.port'), 'utf8'))
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  try {
    const engine = await start(dataDir)
    assert.notEqual(engine.port, port)
    assert.equal((await query(engine, 'select 1', { host: engine.host })).rowCount, 1)
    assert.equal(Number(fs.readFileSync(join(dataDir, 'postgres.port'), 'utf8')), engine.port)
    // The port is taken after the check, so that Postgres itself reports it.
    await engine.stop()
    const { native } = packagedBinaries()
    const stopping = new AbortController().signal
    const launch = { place: locate(dataDir), native, port, settings: engineSettings, stopping }
    assert.equal(await launchPostmaster(launch), undefined)
  } finally {
    server.close()
  }
})

test('engine: two engines run at the same time', async () => {
  const both = await Promise.all([start(used('left')), start(used('right'))])
  await query(both[0], "insert into kept values ('left')")
  assert.equal((await query(both[0], 'select * from kept')).rowCount, 1)
  assert.equal((await query(both[1], 'select * from kept')).rowCount, 0)
  assert.notEqual(both[0].port, both[1].port)
})

test('engine: a start succeeds after a kill during initdb', async () => {
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

test('engine: the log has server messages and no text of sessions', async () => {
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

test('engine: a log over 10 MB is rotated at the start', async () => {
  const dataDir = used('big-log')
  fs.writeFileSync(join(dataDir, 'postgres.log'), 'x'.repeat(10 * 1024 * 1024 + 1))
  await start(dataDir)
  assert.ok(fs.statSync(join(dataDir, 'postgres.log')).size < 10_000)
  assert.equal(fs.statSync(join(dataDir, 'postgres.log.1')).size, 10 * 1024 * 1024 + 1)
})

test('engine: a failed start rejects with the end of the server log', async () => {
  await assert.rejects(
    start(used('broken'), { shared_buffers: 'plenty' }),
    /invalid value for parameter "shared_buffers"/,
  )
})
