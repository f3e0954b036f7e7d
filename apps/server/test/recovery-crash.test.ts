// The receiver, the base backup, the recovery and Postgres itself are killed.
import assert from 'node:assert/strict'
import { appendFileSync, readdirSync, statSync, truncateSync } from 'node:fs'
import { test } from 'node:test'
import { baseFolder } from '#src/kernel/postgres/recovery/archive-layout.ts'
import { baseBackupIds, removeBaseBackup, takeBaseBackup } from '#src/kernel/postgres/recovery/base-backup.ts'
import {
  needsBaseBackup,
  planRecovery,
  readCatalogue,
  sweepBaseBackups,
} from '#src/kernel/postgres/recovery/catalogue.ts'
import { recoverAside, sweepRecoveries } from '#src/kernel/postgres/recovery/recovery.ts'
import { spooledSegments } from '#src/kernel/postgres/recovery/wal-spool.ts'
import { postmastersIn } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { archivedServers, query, sigkill } from './recovery-archive.ts'

const { start } = archivedServers()

const fill = (table: string, rows: number) =>
  `insert into ${table} select n, repeat(md5(n::text), 20) from generate_series(1, ${rows}) n`

test('archive: a receiver that is killed again and again continues without a gap', async () => {
  const { server, store, gaps, inProcess, receive, query: run, recover } = await start()
  await run('create database shop')
  await run('create table numbers (n int, filler text)', 'shop')
  const first = receive()
  await takeBaseBackup(server.address, store)
  await first.stop()
  for (let round = 1; round <= 3; round++) {
    const child = await inProcess({ kind: 'receive' })
    const before = await sizeOf(store.spoolDir)
    const writing = run(fill('numbers', 30_000), 'shop')
    writing.catch(() => {})
    // In the middle of a segment, while others are being packed.
    await eventually(async () => (await sizeOf(store.spoolDir)) !== before, 'WAL arrives')
    await sigkill(child)
    await writing
  }
  const archive = receive()
  const { at } = await archive.catchUp()
  const { runs } = await readCatalogue(store)
  assert.deepEqual([runs.length, gaps], [1, []], 'the WAL is one run')
  const recovered = await recover(['shop'], at)
  assert.deepEqual(await query(recovered.address, 'select count(*)::int from numbers', 'shop'), [
    { count: 90_000 },
  ])
})

/** The names and the sizes of the files that are being written. */
const sizeOf = async (spoolDir: string) => {
  const names = await spooledSegments(spoolDir)
  const size = (name: string) => statSync(`${spoolDir}/${name}.partial`, { throwIfNoEntry: false })?.size
  return names.map(name => `${name} ${size(name)}`).join()
}

test('archive: an incomplete record at the end of the spool is received again', async () => {
  const { server, store, inProcess, receive, query: run } = await start()
  const first = receive()
  await takeBaseBackup(server.address, store)
  // Two records in the last segment.
  await first.catchUp()
  await first.catchUp()
  await first.stop()
  const path = `${store.spoolDir}/${(await spooledSegments(store.spoolDir)).at(-1)}.partial`
  truncateSync(path, statSync(path).size - 7)
  appendFileSync(path, 'garbage of a write that was cut off')
  const child = await inProcess({ kind: 'receive' })
  await run('create table numbers (n int)')
  await sigkill(child)
  const archive = receive()
  const { at } = await archive.catchUp()
  const plan = planRecovery(await readCatalogue(store), at)
  assert.equal(plan.wal.toLsn, archive.state().lsn)
})

test('archive: Postgres is killed while it writes, and the archive continues without a gap', async () => {
  const { server, store, gaps, receive, query: run, recover } = await start({ fsync: 'on' })
  const archive = receive()
  await run('create database shop')
  await run('create table numbers (n int, filler text)', 'shop')
  await takeBaseBackup(server.address, store)
  for (let round = 0; round < 2; round++) {
    const writing = run(Array(5).fill(fill('numbers', 5000)).join(';'), 'shop').catch(() => {})
    await eventually(
      async () => (await run('select count(*)::int from numbers', 'shop'))[0].count > 0,
      'it writes',
    )
    const [postmaster] = postmastersIn(server.clusterDir)
    process.kill(postmaster!, 'SIGKILL')
    await writing
    await eventually(() => run('select 1').catch(() => undefined), 'Postgres runs again')
  }
  const [{ count }] = await run('select count(*)::int from numbers', 'shop')
  const { at } = await archive.catchUp()
  assert.deepEqual([(await readCatalogue(store)).runs.length, gaps], [1, []])
  const recovered = await recover(['shop'], at)
  assert.deepEqual(await query(recovered.address, 'select count(*)::int from numbers', 'shop'), [{ count }])
})

test('archive: WAL that the server no longer has is a gap, and a new base backup begins a new window', async () => {
  const {
    server,
    store,
    gaps,
    receive,
    query: run,
    recover,
  } = await start({
    max_slot_wal_keep_size: '48MB',
    max_wal_size: '32MB',
    min_wal_size: '32MB',
  })
  const first = receive()
  await run('create table numbers (n int)')
  await takeBaseBackup(server.address, store)
  const before = await first.catchUp()
  await first.stop()
  await run('insert into numbers values (1)')
  const inGap: string = (await run('select clock_timestamp()::text as at'))[0].at.replace(' ', 'T')
  for (let segment = 0; segment < 10; segment++)
    await run(
      `select pg_logical_emit_message(false, 'plinth', repeat('x', 1000)); select pg_switch_wal(); checkpoint`,
    )
  await eventually(
    async () => (await run(`select wal_status from pg_replication_slots`))[0].wal_status === 'lost',
    'the slot has lost its WAL',
  )
  const archive = receive()
  await eventually(() => gaps.length > 0, 'the gap is reported')
  assert.deepEqual(archive.state().gap, gaps[0])
  await archive.catchUp()
  const plan = async (target: string) => planRecovery(await readCatalogue(store), target)
  await assert.rejects(plan(inGap), { code: 'wal_gap' })
  assert.equal(needsBaseBackup(await readCatalogue(store), 1, before.at), true)
  await run('insert into numbers values (2)')
  const second = await takeBaseBackup(server.address, store)
  const after = await archive.catchUp()
  assert.equal(needsBaseBackup(await readCatalogue(store), 1, before.at), false)
  assert.equal(needsBaseBackup(await readCatalogue(store), 1, after.at), true, 'it is too old')
  await assert.rejects(
    plan(inGap),
    error => (error as any).code === 'wal_gap' && (error as any).windows.length === 2,
  )
  assert.equal((await plan(after.at)).baseBackup.id, second.id)
  const recovered = await recover(['postgres'], before.at)
  assert.deepEqual(await query(recovered.address, 'select n from numbers'), [])
  const later = await recover(['postgres'], after.at)
  assert.deepEqual(await query(later.address, 'select n from numbers order by n'), [{ n: 1 }, { n: 2 }])
})

test('base backup: one that is killed does not exist, and the next start sweeps it', async () => {
  const { server, store, receive, query: run, inProcess } = await start()
  const archive = receive()
  await run(`create table numbers (n int, filler text); ${fill('numbers', 60_000)}`)
  // On a slow machine, the test may notice the beginning only after the end.
  for (let isCut = false; !isCut; ) {
    const child = await inProcess({ kind: 'base backup' })
    await eventually(async () => (await baseBackupIds(store)).length === 1, 'the base backup has begun')
    await sigkill(child)
    const { baseBackups } = await readCatalogue(store)
    isCut = baseBackups.length === 0
    for (const { id } of baseBackups) await removeBaseBackup(store, id)
  }
  const [id] = await baseBackupIds(store)
  assert.deepEqual(await sweepBaseBackups(store), [id])
  assert.deepEqual(await baseBackupIds(store), [])
  const backup = await takeBaseBackup(server.address, store)
  assert.deepEqual(await sweepBaseBackups(store), [])
  // A damaged manifest is reported and not swept.
  await archive.catchUp()
  const folder = baseFolder(store.systemId, backup.id)
  const writer = await store.pieces.write(`${folder}/${backup.id}-ffffffff`, 0)
  await writer.append([Buffer.from('damaged, but long enough for nonce and tag')])
  await writer.finish()
  assert.deepEqual((await readCatalogue(store)).damaged, [backup.id])
  assert.deepEqual(await sweepBaseBackups(store), [])
})

test('recovery: the server of a killed platform is stopped and removed at the next start', async () => {
  const { server, store, place, receive, inProcess } = await start()
  const archive = receive()
  await takeBaseBackup(server.address, store)
  const { at } = await archive.catchUp()
  const child = await inProcess({ kind: 'recover', databases: [], target: at })
  let output = ''
  child.stdout!.on('data', text => {
    output += text
  })
  await eventually(() => output.includes('done'), 'it is recovered')
  await sigkill(child)
  const [left] = readdirSync(place.home).filter(name => name.startsWith('recovery-'))
  const runs = async (clusterDir: string) => postmastersIn(clusterDir).length === 1
  await eventually(() => runs(`${place.home}/${left}/postgres`), 'it outlives the platform')
  await sweepRecoveries(place)
  assert.deepEqual(postmastersIn(`${place.home}/${left}/postgres`), [])
  assert.deepEqual(
    readdirSync(place.home).filter(name => name.startsWith('recovery-')),
    [],
  )
  await eventually(() => runs(server.clusterDir), 'the cluster itself runs on')
})

test('recovery: a target without a later transaction fails, and nothing is left', async () => {
  const { server, store, place, receive } = await start()
  const archive = receive()
  await takeBaseBackup(server.address, store)
  const { at } = await archive.catchUp()
  const plan = planRecovery(await readCatalogue(store), at)
  const target = new Date(Date.now() + 3_600_000).toISOString()
  const { password } = server.address
  await assert.rejects(recoverAside({ place, store, plan: { ...plan, target }, databases: [], password }), {
    name: 'RecoveryFailed',
    message: /recovery ended before configured recovery target was reached/,
  })
  assert.deepEqual(
    readdirSync(place.home).filter(name => name.startsWith('recovery-')),
    [],
  )
})
