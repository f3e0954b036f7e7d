// Backups of releases that proved the content of files by SHA-256.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { readArchive, writeArchive } from '#src/archive/archive.ts'
import { writeLines } from '#src/archive/json-lines.ts'
import type { ArchivedFile, Manifest } from '#src/archive/manifest.ts'
import { manifestLines } from '#src/archive/manifest-lines.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { archiveOf } from './archive-of.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: BackedUpProject
before(async () => {
  platform = await startPlatform()
  project = await backedUpProject(platform)
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  await project.sql(`
    create table things (id int, text text);
    insert into things select n, md5(n::text) from generate_series(1, 5000) n;
    create table empty (id int);
    select lo_from_bytea(0, 'a large object');
    insert into storage.buckets (id, name) values ('papers', 'papers')`)
})
after(() => platform?.stop())

const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex')

/** Writes the manifest of a backup again as format 2. `hashOf` returns the hash that it has of a file. */
async function asEarlier(
  backupId: string,
  hashOf: (content: Buffer, tableName: string | undefined) => string = sha256,
): Promise<void> {
  const { control } = platform.app
  const { archive, packed, pieces, keys, name } = await archiveOf(platform, project.id, backupId)
  async function hashed(file: ArchivedFile, tableName?: string): Promise<ArchivedFile> {
    const { mac: _, ...sizes } = file
    return { ...sizes, sha256: hashOf(await archive.readWhole(file), tableName) }
  }
  const { manifest } = archive
  const { database } = manifest
  const earlier: Manifest & { format: number } = {
    ...manifest,
    format: 2,
    services: await Promise.all(
      manifest.services.map(async each => ({ ...each, file: await hashed(each.file) })),
    ),
    files: await hashed(manifest.files),
    database: {
      ...database,
      schema: await hashed(database.schema),
      tables: await Promise.all(
        database.tables.map(async each => ({ ...each, file: await hashed(each.file, each.name) })),
      ),
      largeObjectsFile: await hashed(database.largeObjectsFile!),
    },
  }
  const lines: Buffer[] = []
  await writeLines(manifestLines(earlier), chunk => void lines.push(chunk))
  const { mac: _, ...written } = await writeArchive(pieces, keys, name).finish(earlier)
  const stored = { attempt: packed.attempt, ...written, sha256: sha256(Buffer.concat(lines)) }
  await control.run(sql`update backups set manifest = ${JSON.stringify(stored)} where id = ${backupId}`)
  const found = await readArchive(pieces, keys, name, stored)
  assert.ok(!JSON.stringify(found.manifest).includes('"mac"'))
}

test('backups: one of an earlier release, with hashes in place of MACs, is verified and restored', async () => {
  const { id } = await project.backUp()
  await asEarlier(id)
  const verified = await project.verify(id)
  assert.equal(verified.verify_error, null)
  assert.notEqual(verified.verified_at, null)
  await project.sql('drop table things')
  const { status, error } = await project.restore(id)
  assert.deepEqual([status, error], ['done', null])
  const restored = await platform.asSuperuser(await platform.refOf(project.id), session =>
    session.row(
      sql`select count(*)::int as rows, bool_and(text = md5(id::text)) as unchanged from public.things`,
    ),
  )
  assert.deepEqual(restored, { rows: 5000, unchanged: true })
})

test('backups: a hash in a backup of an earlier release that does not match is reported', async () => {
  const { id } = await project.backUp()
  await asEarlier(id, (content, table) => sha256(table === 'public.things' ? Buffer.alloc(0) : content))
  const { verified_at, verify_error } = await project.verify(id)
  assert.equal(verified_at, null)
  assert.match(verify_error!, /damaged/)
})
