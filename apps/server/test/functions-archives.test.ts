// What is kept of the code of functions, and what is written again.
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sealer as createSealer } from '#src/kernel/crypto/sealed.ts'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import {
  guardedSettings,
  openDatabase,
  type PooledDatabase,
  type Session,
  withClient,
} from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type ArchivesOptions, createArchives } from '#src/services/functions/archives.ts'
import { countBytes, replaceArchive } from '#src/services/functions/archives-store.ts'
import { deleteFunctions, listExportedArchives } from '#src/services/functions/project-data-store.ts'
import { deleteFunction, insertFunction, insertVersion, lockProject } from '#src/services/functions/store.ts'
import { clusterOf, controlSettings, migratePlatform } from '#src/tenancy/cluster.ts'
import { eventually } from './eventually.ts'
import { testServer } from './harness.ts'

const root = mkdtempSync(join(tmpdir(), 'plinth-archives-'))
const name = `archives_${randomBytes(6).toString('hex')}`
const onServer = (statement: string) =>
  withClient(testServer(), 'postgres', guardedSettings, session => session.script(statement))
let control: PooledDatabase
let pieces: Pieces
before(async () => {
  await onServer(`create database ${name}`)
  await withClient(testServer(), name, controlSettings, session =>
    migratePlatform(session, clusterOf(testServer(), name).platformMigrations),
  )
  control = openDatabase(testServer(), name, controlSettings, () => {})
  pieces = await openDirectoryPieces(join(root, 'pieces'), { isDurable: false })
})
after(async () => {
  await control?.close()
  await onServer(`drop database if exists ${name} with (force)`)
  rmSync(root, { recursive: true, force: true })
})

const gigabyte = 1024 ** 3

const open = (options?: ArchivesOptions, own: Pieces = pieces) =>
  createArchives(control, own, createSealer(keyring('a secret for tests')('sealed')), options)

async function newProject(): Promise<string> {
  const id = randomUUID()
  await control.run(sql`
    insert into projects (id, ref, name, slug, status, anon_key, service_role_key, jwt_secret)
    values (${id}, ${`r${id}`}, 'n', ${id}, 'active', '', '', '')`)
  return id
}

function directoryWith(text: string): string {
  const directory = mkdtempSync(join(root, 'code-'))
  writeFileSync(join(directory, 'index.ts'), text)
  return directory
}

/** Pieces whose first one is written when it is released, or not at all. */
function heldPieces() {
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>()
  const { promise: released, resolve } = Promise.withResolvers<Error | undefined>()
  const held: Pieces = {
    ...pieces,
    async write(...where) {
      reach()
      const error = await released
      if (error) throw error
      return pieces.write(...where)
    },
  }
  return { pieces: held, reached, release: (error?: Error) => resolve(error) }
}

async function filesIn(folder: string): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of pieces.list(folder)) names.push(name)
  return names
}

/** Stores the code, and a function with it. Returns the id of its archive. */
async function deploy(archives: ReturnType<typeof open>, project: string, slug: string, text: string) {
  const id = await archives.save(project, `hash of ${text}`, directoryWith(text))
  const { id: owner } = (await insertFunction(control, project, slug, true))!
  await insertVersion(control, project, owner, 1, {
    entrypoint: 'index.ts',
    code_archive: id,
    packages_archive: null,
    packages: [],
    uses_node: false,
  })
  return id
}

async function unpacked(archives: ReturnType<typeof open>, project: string, id: string): Promise<string> {
  const directory = mkdtempSync(join(root, 'unpacked-'))
  await archives.unpack(project, id, directory)
  return readFileSync(join(directory, 'index.ts'), 'utf8')
}

const age = (project: string, id: string, hours: number) =>
  control.run(sql`
    update function_archives set created_at = now() - make_interval(hours => ${hours})
     where project_id = ${project} and id = ${id}`)

const changed = async (project: string) =>
  (await control.row<{ changed: string }>(sql`select changed::text from projects where id = ${project}`))!
    .changed

const stored = async (session: Session, project: string) =>
  new Set(
    (
      await session.rows<{ id: string }>(sql`select id from function_archives where project_id = ${project}`)
    ).map(({ id }) => id),
  )

test('functions: the code of a deleted function is kept for the days of a recovery to a time, and not without it', async () => {
  const project = await newProject()
  const keeping = open({ keepDays: 2 })
  const used = await deploy(keeping, project, 'used', 'used')
  const [deleted, old] = [
    await deploy(keeping, project, 'deleted', 'deleted'),
    await deploy(keeping, project, 'old', 'old'),
  ]
  const { used: named } = await countBytes(control, project, 3600)
  for (const slug of ['deleted', 'old']) await deleteFunction(control, project, slug)
  await age(project, deleted, 47)
  await age(project, old, 49)
  await age(project, used, 1000)
  assert.ok((await countBytes(control, project, 3600)).used < named, 'kept code does not count as used')
  assert.deepEqual(
    (await listExportedArchives(control, project)).map(({ id }) => id),
    [used],
  )
  await keeping.removeUnused()
  assert.deepEqual(await stored(control, project), new Set([used, deleted]))
  assert.equal(await unpacked(keeping, project, deleted), 'deleted')
  await open().removeUnused()
  assert.deepEqual(await stored(control, project), new Set([used]))
})

test('functions: the time of code that a restore replaces begins with the restore', async () => {
  const project = await newProject()
  const archives = open({ keepDays: 2 })
  const id = await deploy(archives, project, 'replaced', 'replaced')
  await age(project, id, 1000)
  await deleteFunctions(control, project)
  await archives.removeUnused()
  assert.deepEqual(await stored(control, project), new Set([id]))
})

test('functions: of removed code the newest is kept, up to a number of bytes', async () => {
  const project = await newProject()
  const archives = open({ keepDays: 2, keepBytes: 300 })
  const ids: string[] = []
  for (const [at, hours] of [30, 20, 10].entries()) {
    const id = await archives.save(project, `hash ${at}`, directoryWith(`${at}`))
    await control.run(sql`update function_archives set bytes = 150 where id = ${id}`)
    await age(project, id, hours)
    ids.push(id)
  }
  await archives.removeUnused()
  assert.deepEqual(await stored(control, project), new Set(ids.slice(1)))
})

test('functions: all stored code of a project is bounded, also while removed code cannot be pruned', async () => {
  const project = await newProject()
  const archives = open({ keepDays: 2, keepBytes: 2 * gigabyte })
  const save = (text: string) => archives.save(project, text, directoryWith(text))
  const id = await save('large')
  const setBytes = (bytes: number) =>
    control.run(sql`update function_archives set bytes = ${Math.round(bytes)} where id = ${id}`)
  const tooLarge = { code: 'packages_too_large' }
  await setBytes(2.1 * gigabyte)
  await assert.rejects(save('new code counts'), tooLarge)
  await age(project, id, 24)
  await setBytes(5.9 * gigabyte)
  await save('removed code has a limit of its own')
  await setBytes(6 * gigabyte)
  await assert.rejects(save('too much is removed'), tooLarge)
  assert.notEqual(await save('large'), id, 'code whose bytes are gone can be deployed again')
})

test('functions: code that is deployed again gets a new archive if bytes of its archive are gone', async () => {
  const project = await newProject()
  const archives = open()
  const id = await deploy(archives, project, 'broken', 'same')
  const other = await deploy(archives, project, 'other', 'other')
  const again = () => archives.save(project, 'hash of same', directoryWith('same'))
  const folder = archives.folderOf(project, id)
  const pieceFiles = () =>
    readdirSync(join(root, 'pieces', folder), { recursive: true, withFileTypes: true }).filter(each =>
      each.isFile(),
    )
  const [first] = pieceFiles()
  const path = join(first!.parentPath, first!.name)
  assert.equal(await again(), id)
  writeFileSync(path, readFileSync(path).subarray(0, 20))
  const noted = await changed(project)
  const made = await Promise.all([again(), again()])
  assert.ok(!made.includes(id))
  assert.equal(readFileSync(path).length, 20, 'a stored version never changes')
  const named = await listExportedArchives(control, project)
  assert.equal(named.length, 2)
  assert.ok(named.some(each => each.id === other))
  const repaired = named.find(each => each.id !== other)!.id
  assert.ok(made.includes(repaired), 'the version has the new archive')
  assert.notEqual(await changed(project), noted, 'nodes read the versions again')
  for (const each of made) assert.equal(await unpacked(archives, project, each), 'same')
  assert.equal((await again()) === id, false)
  await age(project, id, 25)
  await archives.removeUnused()
  assert.ok(!(await stored(control, project)).has(id))
  await assert.rejects(async () => pieceFiles())
})

test('functions: versions with lost packages get the new archive, too', async () => {
  const project = await newProject()
  const archives = open()
  const code = await deploy(archives, project, 'packed', 'code with packages')
  const packages = await archives.save(project, 'packages', directoryWith('packages'))
  await control.run(
    sql`update function_versions set packages_archive = ${packages} where project_id = ${project}`,
  )
  await pieces.removeFolder(archives.folderOf(project, packages))
  const next = await archives.save(project, 'packages', directoryWith('packages'))
  assert.notEqual(next, packages)
  assert.deepEqual(
    await control.row(sql`
      select code_archive, packages_archive from function_versions where project_id = ${project}`),
    { code_archive: code, packages_archive: next },
  )
})

test('functions: a restore does not wait for bytes that a deployment writes', async () => {
  const project = await newProject()
  const id = await deploy(open(), project, 'slow', 'slow')
  await pieces.removeFolder(open().folderOf(project, id))
  const writing = heldPieces()
  const saved = open({}, writing.pieces).save(project, 'hash of slow', directoryWith('slow'))
  await writing.reached
  try {
    await control.transaction(async session => {
      await session.script(`set local lock_timeout = '1s'`)
      await deleteFunctions(session, project)
    })
  } finally {
    writing.release()
  }
  assert.equal(await unpacked(open(), project, await saved), 'slow')
})

test('functions: a restore and a deployment of lost code wait for each other without a deadlock', async () => {
  const project = await newProject()
  const id = await deploy(open(), project, 'both', 'both')
  const next = await open().save(project, 'another', directoryWith('another'))
  const restored = await control.transaction(async session => {
    await lockProject(session, project)
    const restoring = control.transaction(own => deleteFunctions(own, project))
    const waiting = sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await eventually(() => control.row(waiting), 'the restore waits')
    await replaceArchive(session, project, id, next)
    return { restoring }
  })
  await restored.restoring
  assert.deepEqual(await listExportedArchives(control, project), [])
})

for (const status of ['deleting', 'deleted'])
  test(`functions: bytes that are written while the project is ${status} are removed`, async () => {
    const project = await newProject()
    const writing = heldPieces()
    const archives = open({}, writing.pieces)
    const refused = assert.rejects(archives.save(project, 'late', directoryWith('late')), {
      code: 'project_not_found',
    })
    await writing.reached
    const [id] = await stored(control, project)
    await control.run(sql`update projects set status = ${status} where id = ${project}`)
    // The deletion is between the bytes and the rows.
    if (status === 'deleted') await open().removeAll(project)
    writing.release()
    await refused
    if (status === 'deleting') await open().removeAll(project)
    assert.deepEqual(await filesIn(archives.folderOf(project, id!)), [])
    assert.deepEqual(await stored(control, project), new Set())
  })

test('functions: bytes that a killed node has written for a deleted project are removed after a day', async () => {
  const project = await newProject()
  const writing = heldPieces()
  const lost = new Error('the node was killed')
  const archives = open({}, writing.pieces)
  const killed = assert.rejects(archives.save(project, 'killed', directoryWith('killed')), lost)
  await writing.reached
  const [id] = await stored(control, project)
  const folder = archives.folderOf(project, id!)
  await control.run(sql`update projects set status = 'deleting' where id = ${project}`)
  await open().removeAll(project)
  writing.release(lost)
  await killed
  const piece = await pieces.write(`${folder}/${id}.0`, 0)
  await piece.append([Buffer.from('bytes')])
  await piece.finish()
  await age(project, id!, 25)
  await open().removeUnused()
  assert.deepEqual(await filesIn(folder), [])
  assert.deepEqual(await stored(control, project), new Set())
})
