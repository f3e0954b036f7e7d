import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { migrate, readMigrations, versionOf } from '#src/kernel/postgres/migrate.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { testServer } from './harness.ts'

const database = `migrate_${process.pid}`
const settings = { ...guardedSettings, search_path: 'public' }
const folder = mkdtempSync(join(tmpdir(), 'plinth-migrations-'))
const write = (name: string, text: string) => writeFileSync(join(folder, name), text)
const connected = <T>(work: (session: Session) => Promise<T>) =>
  withClient(testServer(), database, settings, work)
const run = () => connected(session => migrate(session, 'public.migrations', readMigrations(folder)))
const answer = () =>
  connected(async session => (await session.row<{ answer: number }>(sql`select answer() as answer`))?.answer)

before(async () => {
  mkdirSync(join(folder, 'functions'))
  await withClient(testServer(), 'postgres', settings, session =>
    session.script(`create database ${database}`),
  )
})
after(async () => {
  rmSync(folder, { recursive: true })
  await withClient(testServer(), 'postgres', settings, session =>
    session.script(`drop database ${database} with (force)`),
  )
})

test('migrate: numbered files are applied once in order, and functions again when their text changes', async () => {
  write('0001_first.sql', 'create table t (n int)')
  write('0002_second.sql', 'insert into t values (1) -- no line end')
  write('functions/answer.sql', 'create or replace function answer() returns int language sql return 41')
  const before = versionOf(readMigrations(folder))
  assert.equal(await run(), 3)
  assert.equal(await run(), 0)
  assert.equal(await answer(), 41)

  write('functions/answer.sql', 'create or replace function answer() returns int language sql return 42')
  assert.notEqual(versionOf(readMigrations(folder)), before)
  assert.equal(await run(), 1)
  assert.equal(await answer(), 42)
})

test('migrate: a failed migration is rolled back and applied by the next run', async () => {
  write('0003_third.sql', 'create table half (n int); select 1 / 0;')
  await assert.rejects(run(), { code: '22012' })
  const half = await connected(session =>
    session.row<{ half: string | null }>(sql`select to_regclass('half')::text as half`),
  )
  assert.equal(half?.half, null)
  write('0003_third.sql', 'create table half (n int)')
  assert.equal(await run(), 1)
})
