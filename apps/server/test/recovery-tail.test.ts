// The latest WAL in the archive, which is all that is left of it when the disk with the spool is lost.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  type ArchiveStore,
  parseTailPiece,
  type TailPiece,
  tailPiece,
  walFolder,
} from '#src/kernel/postgres/recovery/archive-layout.ts'
import { takeBaseBackup } from '#src/kernel/postgres/recovery/base-backup.ts'
import {
  planLatest,
  planRecovery,
  type RecoveryPlan,
  readCatalogue,
  UnreachableTarget,
} from '#src/kernel/postgres/recovery/catalogue.ts'
import { recoverAside } from '#src/kernel/postgres/recovery/recovery.ts'
import { distance } from '#src/kernel/postgres/recovery/wal-position.ts'
import { restoreSpool } from '#src/kernel/postgres/recovery/wal-tail.ts'
import { eventually } from './eventually.ts'
import { archivedServers, query, sigkill } from './recovery-archive.ts'

const { start, root } = archivedServers()

async function tailOf({ pieces, systemId }: ArchiveStore): Promise<TailPiece[]> {
  const found: TailPiece[] = []
  for await (const { name } of pieces.list(walFolder(systemId))) {
    const piece = parseTailPiece(name.slice(name.indexOf('/') + 1))
    if (piece) found.push(piece)
  }
  return found
}

/** What can be recovered with another, empty spool. */
async function withoutSpool(store: ArchiveStore): Promise<{ store: ArchiveStore; plan: RecoveryPlan }> {
  const left = { ...store, spoolDir: mkdtempSync(join(root, 'lost-')) }
  await restoreSpool(left)
  return { store: left, plan: planLatest(await readCatalogue(left)) }
}

/** Waits until everything before the position is among the pieces. */
const untilStored = (store: ArchiveStore, lsn: string) =>
  eventually(async () => {
    // A piece may be replaced by a larger one meanwhile.
    const left = await withoutSpool(store).catch(() => undefined)
    return left && distance(left.plan.wal.toLsn, lsn) === 0 ? left : undefined
  }, 'the latest WAL is among the pieces')

const fill = `insert into numbers select n from generate_series(1, 50000) n`

test('archive: the segment that is being received is among the pieces, in few of them, until it is packed', async () => {
  const { server, store, place, piecesDir, receive, query: run } = await start()
  const archive = receive({ storesTail: true })
  await run('create table numbers (n int)')
  await takeBaseBackup(server.address, store)
  for (let n = 1; n <= 12; n++) {
    await run(`insert into numbers values (${n})`)
    const { lsn } = await archive.catchUp()
    await untilStored(store, lsn)
  }
  assert.ok((await tailOf(store)).length <= 6, 'small pieces are replaced by larger ones')
  const { at: early } = await archive.catchUp()
  await run(fill)
  const { lsn, at: late } = await archive.catchUp()
  const left = await untilStored(store, lsn)
  const { password } = server.address
  const recovered = await recoverAside({ place, ...left, databases: ['postgres'], password })
  assert.deepEqual(await query(recovered.address, 'select count(*)::int from numbers'), [{ count: 50_012 }])
  await recovered.stop()

  // Otherwise it may replace the piece that is damaged here.
  await archive.stop()
  const largest = (await tailOf(store)).toSorted(
    (one, other) => other.to - other.from - (one.to - one.from),
  )[0]!
  const name = tailPiece(store.systemId, largest)
  const [folder, base] = name.split('/') as [string, string]
  const file = join(piecesDir, folder, base.slice(0, 2), base)
  const intact = readFileSync(file)
  writeFileSync(file, intact.with(intact.length - 1000, intact.at(-1000)! ^ 1))
  const shortened = { ...store, spoolDir: mkdtempSync(join(root, 'damaged-')) }
  assert.deepEqual((await restoreSpool(shortened)).damaged, [name])
  const catalogue = await readCatalogue(shortened)
  assert.throws(() => planRecovery(catalogue, late), UnreachableTarget)
  const plan = planRecovery(catalogue, early)
  const rest = await recoverAside({ place, store: shortened, plan, databases: ['postgres'], password })
  assert.deepEqual(await query(rest.address, 'select count(*)::int from numbers'), [{ count: 12 }])
  await rest.stop()
  writeFileSync(file, intact)

  const before = new Set((await tailOf(store)).map(({ segment }) => segment))
  const next = receive({ storesTail: true })
  await run(`select pg_logical_emit_message(true, 'test', 'x'); select pg_switch_wal()`)
  await next.catchUp()
  await eventually(
    async () => (await tailOf(store)).every(({ segment }) => !before.has(segment)),
    'the pieces of a packed segment are removed',
  )
})

test('archive: a receiver that is killed leaves no pieces of earlier segments, and goes on with the present one', async () => {
  const { server, store, inProcess, receive, query: run } = await start()
  const first = receive()
  await takeBaseBackup(server.address, store)
  await first.stop()
  const child = await inProcess({ kind: 'receive' })
  await eventually(async () => (await tailOf(store)).length > 0, 'a piece is stored')
  const left = new Set((await tailOf(store)).map(({ segment }) => segment))
  await sigkill(child)
  await run(`create table numbers (n int); ${fill}; select pg_switch_wal()`)
  const archive = receive({ storesTail: true })
  await untilStored(store, (await archive.catchUp()).lsn)
  await eventually(
    async () => (await tailOf(store)).every(({ segment }) => !left.has(segment)),
    'pieces of the killed process are removed',
  )
})

test('archive: while the latest WAL cannot be stored, that is reported, and WAL is received', async () => {
  const { server, store, piecesDir, receive, query: run } = await start()
  const archive = receive({ storesTail: true })
  await takeBaseBackup(server.address, store)
  await untilStored(store, (await archive.catchUp()).lsn)
  renameSync(piecesDir, `${piecesDir}.away`)
  writeFileSync(piecesDir, '')
  await run('create table numbers (n int)')
  const { lsn } = await archive.catchUp()
  await eventually(() => archive.state().failure, 'the failure is reported')
  assert.equal(archive.state().isReceiving, true)
  rmSync(piecesDir)
  renameSync(`${piecesDir}.away`, piecesDir)
  await untilStored(store, lsn)
  await eventually(() => archive.state().failure === undefined, 'the failure has ended')
})
