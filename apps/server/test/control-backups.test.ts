// The store of backups of the control database: damaged indexes, failures while one is made, and what a crash leaves.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type ControlBackups, controlBackups } from '#src/archive/control-backup.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import type { Pieces, PieceWriter } from '#src/kernel/objects/pieces.ts'
import { lowestUuidAt } from '#src/kernel/ordered-uuid.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
const stores = mkdtempSync(join(tmpdir(), 'plinth-control-backups-'))
before(async () => {
  platform = await startPlatform()
})
after(async () => {
  rmSync(stores, { recursive: true })
  await platform?.stop()
})

const hourMs = 3_600_000
const watching = { signal: new AbortController().signal, progress() {} }
const source = () => ({
  address: platform.address,
  database: platform.control,
  dataDir: platform.config.dataDir,
})

/** Backups in a store of their own. `failing` replaces operations of the store. */
async function openStore(root = mkdtempSync(join(stores, 'store-'))) {
  const pieces = await openDirectoryPieces(root, { isDurable: false })
  const logged: string[] = []
  const log = createLog('warn', { write: line => void logged.push(line) })
  const backupsWith = (failing: Partial<Pieces>) =>
    controlBackups({ ...pieces, ...failing }, keyring(platform.controlPlaneSecret), log)
  const backups = backupsWith({})
  const make = (needed: readonly string[] = []) => backups.make(source(), needed, watching)
  async function folder(): Promise<string> {
    for await (const found of pieces.folders()) if (found.startsWith('c-')) return found
    throw new Error('there is no backup of the control database')
  }
  async function names(): Promise<string[]> {
    const found: string[] = []
    for await (const each of pieces.folders())
      for await (const { name } of pieces.list(each)) found.push(name.slice(name.indexOf('/') + 1))
    return found.sort()
  }
  async function write(name: string, text: string): Promise<string> {
    const path = `${await folder()}/${name}`
    const writer = await pieces.write(path, 0)
    await writer.append([Buffer.from(text)])
    await writer.finish()
    return path
  }
  const pathOf = async (name: string) => join(root, await folder(), name.slice(0, 2), name)
  async function age(name: string, hours: number): Promise<void> {
    const at = new Date(Date.now() - hours * hourMs)
    utimesSync(await pathOf(name), at, at)
  }
  return { backups, backupsWith, pieces, make, names, write, pathOf, age, logged }
}

/** Into a database that is dropped again. */
async function restore(backups: ControlBackups, id: string): Promise<void> {
  const target = { ...source(), database: `t_${randomBytes(6).toString('hex')}` }
  try {
    await backups.restore(id, target, watching)
  } finally {
    await platform.asSuperuser('postgres', session =>
      session.script(`drop database if exists ${target.database} with (force)`),
    )
  }
}

/** Changes how a file of the store is written. */
const writingWith =
  (pieces: Pick<Pieces, 'write'>, change: (name: string, writer: PieceWriter) => PieceWriter) =>
  async (name: string, at: number) =>
    change(name, await pieces.write(name, at))

const refuse = (): Promise<never> => Promise.reject(new Error('the store has failed'))

test('control backups: a damaged index is reported by name, and the other backups can be listed, made and restored', async () => {
  const { backups, make, write, pathOf, logged } = await openStore()
  const good = await make()
  const index = readFileSync(await pathOf(`${good.id}.c`), 'utf8')
  const damages = [
    '',
    index.slice(0, -20),
    'null',
    index.replace('"format":1', '"format":2'),
    index,
    index.replace(/"mac":"../, '"mac":"'),
    ' '.repeat(70_000),
  ]
  const damaged = damages.map((_, age) => lowestUuidAt(Date.now() - (age + 1) * hourMs))
  const paths: string[] = []
  for (const [number, id] of damaged.entries())
    paths.push(await write(`${id}.c`, number === 4 ? damages[4]! : damages[number]!.replace(good.id, id)))

  const list = await backups.list()
  assert.deepEqual(
    list.backups.map(({ id }) => id),
    [good.id],
  )
  assert.deepEqual(
    list.damaged.map(({ id, file }) => [id, file]),
    damaged.map((id, number) => [id, paths[number]]),
  )
  for (const { error } of list.damaged) assert.match(error, /cannot be restored.*copy of the store/)
  for (const [number, id] of damaged.entries())
    await assert.rejects(backups.restore(id, source(), watching), ({ message }: Error) => {
      assert.ok(message.includes(paths[number]!), message)
      assert.match(message, /index .* is damaged/)
      return true
    })

  await make()
  for (const path of paths)
    assert.ok(
      logged.some(line => line.includes(path)),
      path,
    )
  await restore(backups, good.id)
})

test('control backups: a flipped byte in any file or a missing one fails the restore with what to do', async () => {
  const { backups, make, names, pathOf } = await openStore()
  const { id } = await make()
  const files = (await names()).filter(name => name.startsWith(`${id}-`))
  assert.ok(files.length > 2)
  const isReported = ({ message }: Error) =>
    message.startsWith(`A file of the backup ${id} of the control database is damaged (`) &&
    message.includes('copy of the store')
  for (const name of files) {
    const path = await pathOf(name)
    const intact = readFileSync(path)
    writeFileSync(
      path,
      intact.map((byte, at) => (at === intact.length >> 1 ? byte ^ 1 : byte)),
    )
    await assert.rejects(restore(backups, id), isReported)
    writeFileSync(path, intact)
  }
  for (const name of [files[0]!, files.at(-1)!]) {
    const path = await pathOf(name)
    const intact = readFileSync(path)
    rmSync(path)
    await assert.rejects(restore(backups, id), isReported)
    writeFileSync(path, intact)
  }
  await restore(backups, id)
})

test('control backups: one with a damaged index is kept with its files while the last upgrade needs it or it is not older than five usable ones', async () => {
  const { backups, make, names, write, age } = await openStore()
  await make()
  const [needed, old] = [2, 1].map(hours => lowestUuidAt(Date.now() - hours * hourMs)) as [string, string]
  const recent = lowestUuidAt(Date.now())
  for (const id of [needed, old, recent]) {
    await write(`${id}.c`, '{"format":')
    await write(`${id}-1-1.0`, 'rows')
    await age(`${id}-1-1.0`, 25)
  }
  for (let count = 0; count < 4; count++) await make([needed])
  const ofDamaged = async () =>
    (await names()).filter(name => [needed, old, recent].includes(name.slice(0, 36)))
  const filesOf = (...ids: string[]) => ids.flatMap(id => [`${id}-1-1.0`, `${id}.c`]).sort()
  assert.deepEqual(await ofDamaged(), filesOf(needed, recent))
  assert.equal((await backups.list()).backups.length, 5)
  await make([needed])
  assert.deepEqual(await ofDamaged(), filesOf(needed))
  assert.equal((await backups.list()).backups.length, 5)
})

test('control backups: one is made even if old ones cannot be removed', async () => {
  const { backups, backupsWith, logged } = await openStore()
  const failing = backupsWith({
    list() {
      throw new Error('the store has failed')
    },
  })
  const { id } = await failing.make(source(), [], watching)
  assert.deepEqual(
    (await backups.list()).backups.map(each => each.id),
    [id],
  )
  assert.ok(logged.some(line => line.includes('the store has failed')))
})

test('control backups: one that fails leaves neither files nor an index', async () => {
  const { backupsWith, pieces, names } = await openStore()
  // The index is stored, but the answer of the store is lost.
  const write = writingWith(pieces, (name, writer) => ({
    ...writer,
    async finish() {
      await writer.finish()
      if (name.endsWith('.c')) await refuse()
    },
  }))
  await assert.rejects(backupsWith({ write }).make(source(), [], watching), /the store has failed/)
  assert.deepEqual(await names(), [])
})

test('control backups: the daily sweep removes files of backups whose making was killed', async () => {
  const root = join(platform.config.dataDir, 'backups')
  const { backups, backupsWith, pieces, make, names, write, age } = await openStore(root)
  const kept = await make()
  const before = await names()
  // A killed process writes no manifest and removes nothing.
  const killed = backupsWith({
    write: writingWith(pieces, (name, writer) =>
      name.endsWith('-1-0.0') ? { ...writer, append: refuse } : writer,
    ),
    remove: refuse,
  })
  await assert.rejects(killed.make(source(), [], watching))
  const left = (await names()).filter(name => !before.includes(name))
  assert.ok(left.length > 1 && !left.some(name => name.endsWith('.c')), left.join())
  const [underWay, damaged] = [lowestUuidAt(Date.now()), lowestUuidAt(Date.now() + 1)]
  const others = [`${underWay}-1-1.0`, `${damaged}-1-1.0`, `${damaged}.c`]
  for (const name of others) await write(name, '')
  for (const name of [...before, ...left, ...others]) if (!name.startsWith(underWay)) await age(name, 25)

  const node = await startPlatform({ beside: platform })
  try {
    await eventually(async () => (await names()).every(name => !left.includes(name)), 'they are removed')
  } finally {
    await node.stop()
  }
  assert.deepEqual(await names(), [...before, ...others].sort())
  assert.deepEqual(
    (await backups.list()).backups.map(({ id }) => id),
    [kept.id],
  )
})
