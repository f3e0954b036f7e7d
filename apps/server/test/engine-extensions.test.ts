// Extensions that the operator adds to the embedded Postgres (PLATFORM_EXTENSION_DIR).
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readConfig } from '#src/config.ts'
import { createLog } from '#src/kernel/log.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform } from '#src/start.ts'
import { isRoot, query, root, start, unused, used, useEngines } from './engine-harness.ts'

useEngines()

/** A directory with an SQL-only extension, which needs no compiler. */
function directoryWithExtension(name: string): string {
  const directory = join(root, name)
  mkdirSync(join(directory, 'extension'), { recursive: true })
  const file = (end: string) => join(directory, 'extension', `greeting${end}`)
  writeFileSync(file('.control'), "default_version = '1.0'\nrelocatable = true\n")
  writeFileSync(file('--1.0.sql'), "create function greet() returns text language sql return 'hello';\n")
  return directory
}

test('engine extensions: extensions of the directory can be created in addition to the bundled ones', async () => {
  const given = directoryWithExtension('given extensions')
  symlinkSync(given, join(root, 'link to extensions'))
  for (const [name, directory] of Object.entries({ given, linked: join(root, 'link to extensions') })) {
    const engine = await start(used(`extensions ${name}`), {}, directory)
    await query(engine, 'create extension greeting; create extension citext')
    assert.deepEqual((await query(engine, 'select greet()')).rows, [{ greet: 'hello' }])
  }
})

test('engine extensions: PLATFORM_EXTENSION_DIR applies to the embedded Postgres', async () => {
  const config = readConfig({
    PLATFORM_PORT: '0',
    PLATFORM_DISK_RESERVE_MB: '0',
    PLATFORM_DATA_DIR: unused('with a setting'),
    PLATFORM_EXTENSION_DIR: directoryWithExtension('by setting'),
  })
  const platform = await startPlatform(config, createLog('silent'))
  try {
    const named = sql`select default_version from pg_available_extensions where name = 'greeting'`
    assert.deepEqual(await platform.app()!.control.rows(named), [{ default_version: '1.0' }])
  } finally {
    await platform.stop()
  }
})

test('engine extensions: without the directory its extensions do not exist', async () => {
  const engine = await start(used('no extensions'))
  await assert.rejects(query(engine, 'create extension greeting'), { code: '0A000' })
})

test('engine extensions: an invalid directory is a start error', async () => {
  const empty = join(root, 'empty')
  mkdirSync(empty)
  const wrong: [string, RegExp][] = [
    [empty, /extension is missing: .*control and SQL files in extension\//],
    [join(root, 'nowhere'), /extension is missing/],
    [directoryWithExtension('with:colon'), /colons/],
  ]
  const dataDir = used('wrong extensions')
  for (const [directory, message] of wrong) await assert.rejects(start(dataDir, {}, directory), message)
})

test('engine extensions: a directory that the database user cannot read is a start error', async () => {
  const closed = directoryWithExtension('closed extensions')
  // Not readable by the database user, which is another user if this process is root.
  chmodSync(join(closed, 'extension'), isRoot ? 0o700 : 0)
  const message = isRoot ? /who cannot read .*closed extensions/ : /permission denied.*closed extensions/
  await assert.rejects(start(used('closed'), {}, closed), message)
})
