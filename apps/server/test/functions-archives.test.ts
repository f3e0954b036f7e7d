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
import { totalBytes } from '#src/services/functions/archives-store.ts'
import { deleteFunctions, listExportedArchives } from '#src/services/functions/project-data-store.ts'
import { deleteFunction, insertFunction, insertVersion } from '#src/services/functions/store.ts'
import { clusterOf, controlSettings, migratePlatform } from '#src/tenancy/cluster.ts'
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

const open = (options?: ArchivesOptions) =>
  createArchives(control, pieces, createSealer(keyring('a secret for tests')('sealed')), options)

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
  const named = await totalBytes(control, project, 3600)
  for (const slug of ['deleted', 'old']) await deleteFunction(control, project, slug)
  await age(project, deleted, 47)
  await age(project, old, 49)
  await age(project, used, 1000)
  assert.ok((await totalBytes(control, project, 3600)) < named, 'kept code does not count as used')
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

test('functions: code that is deployed again is written again if its bytes are gone or incomplete', async () => {
  const project = await newProject()
  const archives = open()
  const id = await deploy(archives, project, 'broken', 'same')
  const again = () => archives.save(project, 'hash of same', directoryWith('same'))
  const folder = archives.folderOf(project, id)
  const pieceFiles = () =>
    readdirSync(join(root, 'pieces', folder), { recursive: true, withFileTypes: true }).filter(each =>
      each.isFile(),
    )
  const [first] = pieceFiles()
  const path = join(first!.parentPath, first!.name)
  const content = readFileSync(path)
  assert.equal(await again(), id)
  assert.deepEqual(readFileSync(path), content, 'what is stored is not written again')
  await pieces.removeFolder(folder)
  await assert.rejects(unpacked(archives, project, id))
  assert.deepEqual(await Promise.all([again(), again()]), [id, id])
  assert.equal(await unpacked(archives, project, id), 'same')
  writeFileSync(path, readFileSync(path).subarray(0, 20))
  assert.equal(await again(), id)
  assert.equal(await unpacked(archives, project, id), 'same')
})
