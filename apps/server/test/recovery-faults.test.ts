// Storage that fails or is damaged.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { baseFolder, partVersion, walFolder } from '#src/kernel/postgres/recovery/archive-layout.ts'
import { baseBackupIds, takeBaseBackup } from '#src/kernel/postgres/recovery/base-backup.ts'
import {
  planRecovery,
  pruneArchive,
  readCatalogue,
  recoveryWindows,
} from '#src/kernel/postgres/recovery/catalogue.ts'
import { recoverAside } from '#src/kernel/postgres/recovery/recovery.ts'
import { dropArchiveSlot } from '#src/kernel/postgres/recovery/replication-slot.ts'
import { parseLsn } from '#src/kernel/postgres/recovery/wal-position.ts'
import { spooledSegments } from '#src/kernel/postgres/recovery/wal-spool.ts'
import { eventually } from './eventually.ts'
import { archivedServers, query } from './recovery-archive.ts'

const { start } = archivedServers()

const switchSegment = `select pg_logical_emit_message(true, 'plinth', 'x'); select pg_switch_wal()`

test('archive: while segments cannot be stored, a bounded number waits, and none is lost', async () => {
  const { server, store, piecesDir, receive, query: run, recover } = await start()
  const archive = receive()
  await run('create table numbers (n int)')
  await takeBaseBackup(server.address, store)
  await archive.catchUp()
  // The storage is away: a file in the place of its directory.
  await eventually(
    async () => (await spooledSegments(store.spoolDir)).length === 1,
    'earlier segments are packed',
  )
  renameSync(piecesDir, `${piecesDir}.away`)
  writeFileSync(piecesDir, '')
  for (let n = 1; n <= 6; n++) await run(`insert into numbers values (${n}); ${switchSegment}`)
  await eventually(async () => (await spooledSegments(store.spoolDir)).length === 3, 'three have arrived')
  // Attempts are repeated, so that further segments have time to arrive.
  for (let attempt = 0; attempt < 3; attempt++) {
    const { failure } = archive.state()
    await eventually(() => ![undefined, failure].includes(archive.state().failure), 'another attempt fails')
  }
  assert.equal((await spooledSegments(store.spoolDir)).length, 3, 'two are being packed, one waits')
  rmSync(piecesDir)
  renameSync(`${piecesDir}.away`, piecesDir)
  const { at } = await archive.catchUp()
  await eventually(() => archive.state().failure === undefined, 'the failure has ended')
  assert.equal((await readCatalogue(store)).runs.length, 1)
  const recovered = await recover(['postgres'], at)
  assert.deepEqual(await query(recovered.address, 'select count(*)::int from numbers'), [{ count: 6 }])
})

test('archive: while the spool cannot be written, the server keeps the WAL', async () => {
  const { store, gaps, receive, query: run } = await start()
  writeFileSync(store.spoolDir, '')
  const archive = receive()
  await run('create table numbers (n int)')
  await eventually(() => archive.state().failure, 'the failure is reported')
  rmSync(store.spoolDir)
  await archive.catchUp()
  assert.deepEqual([archive.state().failure, gaps], [undefined, []])
})

test('recovery: a changed byte in a segment or in a base backup is reported, and nothing is left', async () => {
  const { server, store, place, piecesDir, receive, query: run, recover } = await start()
  const archive = receive()
  const backup = await takeBaseBackup(server.address, store)
  await run(`${switchSegment}; ${switchSegment}`)
  const { at } = await archive.catchUp()
  await eventually(async () => (await spooledSegments(store.spoolDir)).length === 1, 'segments are packed')
  const { segments } = (await readCatalogue(store)).runs[0]!
  const version = segments.map(segment => ('version' in segment ? segment.version : '')).at(-2)!
  const files = [
    join(walFolder(store.systemId), version.slice(0, 2), `${version}.0`),
    join(baseFolder(store.systemId, backup.id), backup.id.slice(0, 2), `${partVersion(backup.id, 5)}.0`),
  ]
  for (const file of files.map(each => join(piecesDir, each))) {
    const bytes = readFileSync(file)
    bytes[100]! ^= 1
    writeFileSync(file, bytes)
    await assert.rejects(recover([], at), DamagedFile)
    bytes[100]! ^= 1
    writeFileSync(file, bytes)
  }
  assert.deepEqual(
    readdirSync(place.home).filter(name => name.startsWith('recovery-')),
    [],
  )
  await recover([], at)
})

test('archive: pruning keeps every time since the given one', async () => {
  const { server, store, receive, query: run, recover } = await start()
  const archive = receive()
  await run('create table numbers (n int)')
  const backups = []
  const times: string[] = []
  for (let n = 1; n <= 3; n++) {
    backups.push(await takeBaseBackup(server.address, store))
    await run(`insert into numbers values (${n}); ${switchSegment}`)
    times.push((await archive.catchUp()).at)
  }
  await eventually(async () => (await spooledSegments(store.spoolDir)).length === 1, 'segments are packed')
  const before = (await readCatalogue(store)).runs[0]!.segments.length
  await pruneArchive(store, times[1]!)
  assert.deepEqual(
    await baseBackupIds(store),
    backups.slice(1).map(({ id }) => id),
  )
  const catalogue = await readCatalogue(store)
  assert.ok(catalogue.runs[0]!.segments.length < before)
  assert.equal(recoveryWindows(catalogue)[0]!.from, backups[1]!.finishedAt)
  const recovered = await recover(['postgres'], times[1]!)
  assert.deepEqual(await query(recovered.address, 'select n from numbers order by n'), [{ n: 1 }, { n: 2 }])
  const damage = async (id: string) => {
    const writer = await store.pieces.write(`${baseFolder(store.systemId, id)}/${id}-ffffffff`, 0)
    await writer.append([Buffer.from('damaged, but long enough for nonce and tag')])
    await writer.finish()
  }
  await damage(backups[1]!.id)
  await pruneArchive(store, new Date(Date.now() + 3_600_000).toISOString())
  assert.deepEqual(
    await baseBackupIds(store),
    [backups[2]!.id],
    'the newest stays, and no damaged one before it',
  )
})

test('archive: a segment that ends exactly where the WAL ends is confirmed', async () => {
  const { receive, query: run } = await start()
  const archive = receive()
  await archive.catchUp()
  await run(`select pg_logical_emit_message(true, 'plinth', 'x')`)
  await run('select pg_switch_wal()')
  const [{ lsn }] = await run('select pg_current_wal_flush_lsn()::text as lsn')
  await archive.reach(lsn)
  // The server writes more WAL by itself.
  assert.ok(parseLsn(archive.state().lsn!) >= parseLsn(lsn))
})

test('archive: without an archive the slot is dropped', async () => {
  const { server, receive, query: run } = await start()
  const archive = receive()
  await archive.catchUp()
  await archive.stop()
  await dropArchiveSlot(server.address)
  await dropArchiveSlot(server.address)
  assert.deepEqual(await run('select slot_name from pg_replication_slots'), [])
})

test('recovery: a segment that is packed after the plan was made is read from the archive', async () => {
  const { server, store, place, receive, query: run } = await start()
  const archive = receive()
  await takeBaseBackup(server.address, store)
  const { at } = await archive.catchUp()
  const plan = planRecovery(await readCatalogue(store), at)
  assert.ok(
    plan.segments.some(segment => 'name' in segment),
    'a segment is in the spool',
  )
  const planned = await spooledSegments(store.spoolDir)
  await run(switchSegment)
  await archive.catchUp()
  await eventually(
    async () => !(await spooledSegments(store.spoolDir)).some(name => planned.includes(name)),
    'the segment is packed',
  )
  const { password } = server.address
  const recovered = await recoverAside({ place, store, plan, databases: ['postgres'], password })
  assert.deepEqual(await query(recovered.address, 'select 1 as one'), [{ one: 1 }])
  await recovered.stop()
})
