import assert from 'node:assert/strict'
import { closeSync, fstatSync, openSync, readdirSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { takeBaseBackup } from '#src/kernel/postgres/recovery/base-backup.ts'
import { planRecovery, readCatalogue, recoveryWindows } from '#src/kernel/postgres/recovery/catalogue.ts'
import { eventually } from './eventually.ts'
import { archivedServers, commitTimes, query } from './recovery-archive.ts'

const { start } = archivedServers()

const leftIn = (directory: string) => readdirSync(directory).filter(name => name.startsWith('recovery-'))

test('recovery: each of several commits within milliseconds is the last one at its own time', async () => {
  const { server, store, place, receive, query: run, recover } = await start()
  const archive = receive()
  await run('create database shop')
  await run('create table numbers (n int)', 'shop')
  await takeBaseBackup(server.address, store)
  await run(`${Array.from({ length: 20 }, (_, n) => `insert into numbers values (${n})`).join(';')}`, 'shop')
  const commits: { n: number; at: string }[] = await run(commitTimes, 'shop')
  await archive.catchUp()
  for (const { n, at } of [commits[7]!, commits[12]!]) {
    const recovered = await recover(['shop'], at)
    const rows = await query(recovered.address, 'select n from numbers order by n', 'shop')
    assert.deepEqual(
      rows.map(row => row.n),
      Array.from({ length: n + 1 }, (_, each) => each),
    )
    await recovered.stop()
  }
  assert.deepEqual(leftIn(place.home), [], 'nothing is left of the recovered servers')
})

test('recovery: a neighbour is not restored, and changes to it are replayed without its files', async () => {
  const { server, store, place, receive, query: run, recover } = await start()
  const archive = receive()
  for (const name of ['shop', 'neighbour']) {
    await run(`create database ${name}`)
    await run('create table numbers (n int primary key, filler text)', name)
  }
  await run(
    `insert into numbers select n, repeat('x', 500) from generate_series(1, 4000) n;
     create table untouched as select n, repeat('x', 500) from generate_series(1, 40000) n`,
    'neighbour',
  )
  await run('insert into numbers values (1)', 'shop')
  const backup = await takeBaseBackup(server.address, store)
  await run(
    `update numbers set filler = 'y' where n % 100 = 0; vacuum full numbers; reindex table numbers; truncate numbers`,
    'neighbour',
  )
  await run('insert into numbers values (2)', 'shop')
  const { at } = await archive.catchUp()
  const recovered = await recover(['shop'], at)
  assert.deepEqual(await query(recovered.address, 'select n from numbers order by n', 'shop'), [
    { n: 1 },
    { n: 2 },
  ])
  const neighbour = backup.databases.find(({ name }) => name === 'neighbour')!.oid
  const directory = join(place.home, leftIn(place.home)[0]!, 'postgres/base', String(neighbour))
  const usedBytes = readdirSync(directory).reduce(
    (sum, name) => sum + statSync(join(directory, name)).blocks * 512,
    0,
  )
  const part = backup.parts.find(({ oid }) => oid === neighbour)!
  assert.ok(usedBytes < part.bytes / 2, `${usedBytes} of ${part.bytes} bytes are on the disk`)
})

test('recovery: the hash index of a neighbour, whose pages are read at replay without a copy in the WAL, is no obstacle', async () => {
  const { server, store, receive, query: run, recover } = await start()
  const archive = receive()
  for (const name of ['shop', 'neighbour']) await run(`create database ${name}`)
  await run('create table numbers (n int)', 'shop')
  // All entries are in one bucket, and the later ones in its overflow pages.
  await run(
    `create table orders (n int, state text);
     create index on orders using hash (state);
     insert into orders select n, 'open' from generate_series(1, 5000) n`,
    'neighbour',
  )
  await takeBaseBackup(server.address, store)
  // The first page of the bucket is unchanged, but the records of the others refer to it.
  await run('delete from orders where n > 4500; vacuum (index_cleanup on) orders', 'neighbour')
  await run('insert into numbers values (1)', 'shop')
  const { at } = await archive.catchUp()
  const recovered = await recover(['shop'], at)
  assert.deepEqual(await query(recovered.address, 'select n from numbers', 'shop'), [{ n: 1 }])
  const whole = await recover(['shop', 'neighbour'], at)
  const counted = `select count(*)::int from orders where state = 'open'`
  assert.deepEqual(await query(whole.address, counted, 'neighbour'), [{ count: 4500 }])
})

test('recovery: an empty page of a database that is recovered fails it', async () => {
  const { server, store, receive, query: run, recover } = await start()
  const archive = receive()
  await run('create database shop')
  await run(
    `create table orders (n int, state text);
     create index orders_state on orders using hash (state);
     insert into orders select n, 'open' from generate_series(1, 5000) n;
     checkpoint`,
    'shop',
  )
  // The database has the pages in memory, but the base backup reads the disk.
  const [{ path }] = await run(`select pg_relation_filepath('orders_state') as path`, 'shop')
  const file = openSync(join(server.clusterDir, path), 'r+')
  writeSync(file, Buffer.alloc(fstatSync(file).size - 8192), 0, undefined, 8192)
  closeSync(file)
  await takeBaseBackup(server.address, store)
  await run('delete from orders where n > 4500; vacuum (index_cleanup on) orders', 'shop')
  const { at } = await archive.catchUp()
  await assert.rejects(recover(['shop'], at), {
    name: 'RecoveryFailed',
    message: /the WAL does not fit to the base backup: page \d+ of relation .* is uninitialized/,
  })
})

test('recovery: a database that was made by copying files since the base backup is recovered', async () => {
  const { server, store, receive, query: run, recover } = await start()
  const archive = receive()
  await run('create database parent')
  await run('create table numbers (n int); insert into numbers select generate_series(1, 1000)', 'parent')
  await takeBaseBackup(server.address, store)
  await run('create database branch template parent strategy file_copy')
  await run('delete from numbers where n > 10', 'branch')
  const { at } = await archive.catchUp()
  const recovered = await recover(['branch'], at)
  assert.deepEqual(await query(recovered.address, 'select count(*)::int from numbers', 'branch'), [
    { count: 10 },
  ])
})

test('recovery: an unlogged sequence that was made since the base backup can be used', async () => {
  const { server, store, receive, query: run, recover } = await start()
  const archive = receive()
  await takeBaseBackup(server.address, store)
  await run('create unlogged table numbers (id int generated always as identity, n int)')
  await run('insert into numbers (n) values (1), (2)')
  const { at } = await archive.catchUp()
  const recovered = await recover(['postgres'], at)
  const inserted = await query(recovered.address, 'insert into numbers (n) values (3) returning id')
  assert.deepEqual(inserted, [{ id: 1 }])
})

test('recovery: times that cannot be recovered are errors with the window', async () => {
  const { server, store, receive, query: run } = await start()
  const archive = receive()
  const plan = async (target: string) => planRecovery(await readCatalogue(store), target)
  const { at: beforeAll } = await archive.catchUp()
  await assert.rejects(plan(beforeAll), { code: 'target_outside_window', windows: [] })
  const backup = await takeBaseBackup(server.address, store)
  await run('create table numbers (n int)')
  const { at, lsn } = await archive.catchUp()
  const windows = recoveryWindows(await readCatalogue(store))
  assert.equal(windows.length, 1)
  assert.equal(windows[0]!.from, backup.finishedAt)
  assert.ok(windows[0]!.to > at)
  await assert.rejects(plan(beforeAll), { code: 'target_outside_window', windows })
  await assert.rejects(plan(windows[0]!.to), { code: 'target_outside_window', windows })
  await assert.rejects(plan(new Date(Date.now() + 3_600_000).toISOString()), {
    code: 'target_in_future',
    windows,
  })
  await assert.rejects(plan('yesterday'), { code: 'invalid_target' })
  const found = await plan(at)
  assert.deepEqual([found.baseBackup.id, found.window], [backup.id, windows[0]])
  assert.deepEqual([found.wal.fromLsn, found.wal.toLsn, found.wal.segments > 0], [backup.startLsn, lsn, true])
})

test('recovery: the catalogue is read without the segment that is being received', async () => {
  const { server, store, receive, query: run } = await start()
  const archive = receive()
  await takeBaseBackup(server.address, store)
  await run('create table numbers (n int)')
  const { at } = await archive.catchUp()
  const read = await readCatalogue(store)
  const received = archive.received()!
  // Nothing of it can be read.
  writeFileSync(join(store.spoolDir, `${received.name}.partial`), '')
  const known = await readCatalogue(store, received)
  assert.deepEqual(recoveryWindows(known), recoveryWindows(read))
  assert.ok(recoveryWindows(known)[0]!.to > at)
  assert.equal(planRecovery(known, at).wal.toLsn, planRecovery(read, at).wal.toLsn)
})

test('recovery: many small commits come in few messages, and none is lost', async () => {
  const { server, store, receive, query: run, recover } = await start()
  const archive = receive()
  await run('create table numbers (n int)')
  await takeBaseBackup(server.address, store)
  await archive.catchUp()
  const isResting = async () =>
    archive.state().isReceiving &&
    (await run('select from pg_replication_slots where not active')).length === 1
  assert.equal(await isResting(), false)
  let count = 0
  let isOver = false
  const writing = (async () => {
    while (!isOver)
      await run(Array.from({ length: 100 }, () => `insert into numbers values (${++count})`).join(';'))
  })()
  await eventually(isResting, 'the stream rests')
  await eventually(async () => !(await isResting()), 'it goes on')
  await eventually(isResting, 'the stream rests again')
  isOver = true
  await writing
  const { at } = await archive.catchUp()
  const recovered = await recover(['postgres'], at)
  assert.deepEqual(await query(recovered.address, 'select count(*)::int from numbers'), [{ count }])
})
