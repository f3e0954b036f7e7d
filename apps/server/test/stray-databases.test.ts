// What a Postgres that was killed during CREATE DATABASE leaves in its directory.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { removeStrayDatabases } from '#src/kernel/postgres/engine/stray-databases.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startOwnServer } from './own-server.ts'

test('engine: files of a database that was never completed are removed, and no others', async t => {
  const own = await startOwnServer()
  t.after(() => own.stop())
  await withClient(own.address, 'postgres', guardedSettings, session =>
    session.script('create database whole'),
  )
  const base = join(own.clusterDir, 'base')
  const before = readdirSync(base).sort()
  const stray = join(base, '99999999')
  mkdirSync(stray)
  writeFileSync(join(stray, 'PG_VERSION'), '18')
  mkdirSync(join(base, 'pgsql_tmp_of_somebody'))

  const warnings: unknown[] = []
  const log = { info() {}, warn: (facts: object) => void warnings.push(facts), error() {} }
  await removeStrayDatabases(own.clusterDir, own.address, log)
  assert.equal(existsSync(stray), false)
  assert.deepEqual(readdirSync(base).sort(), [...before, 'pgsql_tmp_of_somebody'].sort())
  assert.deepEqual(warnings, [{ directory: '99999999' }])
  const found = await withClient(own.address, 'whole', guardedSettings, session =>
    session.row(sql`select 1 as one`),
  )
  assert.deepEqual(found, { one: 1 })
})
