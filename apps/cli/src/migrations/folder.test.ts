import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { nextVersion, readMigrationFolder, writeMigration } from './folder.ts'

function directory(t: { after(work: () => void): void }, files: Record<string, string>): string {
  const cwd = mkdtempSync(join(tmpdir(), 'plinth-migrations-'))
  t.after(() => rmSync(cwd, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(cwd, path, '..'), { recursive: true })
    writeFileSync(join(cwd, path), text)
  }
  return cwd
}

test('migrations: supabase/migrations comes before migrations; other files are ignored', t => {
  const both = directory(t, {
    'supabase/migrations/20240101000000_first.sql': 'select 1',
    'supabase/migrations/2_b_c.sql': 'select 2',
    'supabase/migrations/3.sql': '',
    'supabase/migrations/notes.sql': '',
    'supabase/migrations/README.md': '',
    'migrations/9_other.sql': '',
  })
  const folder = readMigrationFolder(both, undefined)
  assert.equal(folder.shown, 'supabase/migrations')
  assert.deepEqual(
    folder.files.map(({ version, name }) => [version, name]),
    [
      ['20240101000000', 'first'],
      ['2', 'b_c'],
      ['3', ''],
    ],
  )
  assert.deepEqual(folder.ignored, ['notes.sql'])
  assert.equal(readMigrationFolder(both, 'migrations').files[0]!.version, '9')
  assert.equal(readMigrationFolder(directory(t, { 'migrations/1_a.sql': '' }), undefined).shown, 'migrations')
})

test('migrations: a missing folder is empty, unless --path names it', t => {
  const cwd = directory(t, {})
  assert.deepEqual(readMigrationFolder(cwd, undefined).files, [])
  assert.throws(() => readMigrationFolder(cwd, 'elsewhere'), /no folder elsewhere/)
})

test('migrations: two files with one version are rejected', t => {
  const cwd = directory(t, { 'migrations/1_a.sql': '', 'migrations/1_b.sql': '' })
  assert.throws(() => readMigrationFolder(cwd, undefined), /1_a\.sql and 1_b\.sql .* version 1/)
})

test('migrations: a file is never overwritten, and its name is valid on every file system', t => {
  const cwd = directory(t, {})
  const folder = readMigrationFolder(cwd, undefined)
  assert.equal(writeMigration(folder, { version: '7', name: '../a b/ü', sql: 'x' }), '7__a_b_ü.sql')
  assert.equal(readFileSync(join(cwd, 'supabase/migrations/7__a_b_ü.sql'), 'utf8'), 'x')
  assert.throws(() => writeMigration(folder, { version: '7', name: '../a b/ü', sql: 'y' }), /EEXIST/)
})

test('migrations: a new version is the current time, or the newest version plus one', () => {
  const now = new Date('2026-01-31T09:30:00.500Z')
  assert.equal(nextVersion(['1', '20250101000000'], now), '20260131093000')
  assert.equal(nextVersion(['20260131093000'], now), '20260131093001')
  assert.equal(nextVersion(['99999999999999999'], now), '100000000000000000')
})
