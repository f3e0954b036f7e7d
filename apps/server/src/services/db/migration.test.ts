import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { atOnce } from '#src/kernel/slices.ts'
import { byVersion, inVersionOrder, parseMigrations, scriptOf, statementsToRun } from './migration.ts'

const parsed = (sql: string) => atOnce(parseMigrations([{ version: '1', sql }]))[0]!

test('migrations: versions are ordered as numbers', () => {
  const versions = ['10', '9', '020', '20240101000000', '1', '20'].map(version => ({ version }))
  for (const sorted of [versions.toSorted(byVersion), inVersionOrder(versions)])
    assert.deepEqual(
      sorted.map(({ version }) => version),
      ['1', '9', '10', '020', '20', '20240101000000'],
    )
})

test('migrations: the checksum covers the statements only', () => {
  const { checksum } = parsed('-- about it\nselect 1;\nselect 2;\n')
  assert.equal(parsed('\uFEFF-- about it\r\nselect 1;\r\n\r\nselect 2\r\n-- the end').checksum, checksum)
  assert.notEqual(parsed('-- about it\nselect 1;\nselect 3;').checksum, checksum)
  assert.notEqual(parsed('select 1;\nselect 2;').checksum, checksum)
})

test('migrations: a script built from statements splits into the same statements', () => {
  for (const sql of [
    '-- no-transaction\ncreate index concurrently on t (a);\nselect 1 -- why\n; select 2',
    "select '--'; do $$ begin -- x\n end $$;\n/* a */ select 1",
    'select 1 -- last line',
  ]) {
    const once = parsed(sql)
    const again = parsed(scriptOf(once.statements.map(({ text }) => text)))
    assert.equal(again.checksum, once.checksum)
    assert.equal(again.hasTransaction, once.hasTransaction)
  }
})

test('migrations: a migration runs in a transaction unless its first line disables it', () => {
  const run = (sql: string) => statementsToRun(parsed(sql)).map(({ text }) => text)
  assert.deepEqual(run('begin; select 1; savepoint a; rollback to a; commit; end; start transaction'), [
    'select 1',
    'savepoint a',
    'rollback to a',
  ])
  assert.deepEqual(run('-- no-transaction\nvacuum; begin; select 1; commit'), [
    '-- no-transaction\nvacuum',
    'begin',
    'select 1',
    'commit',
  ])
  assert.deepEqual(run('\\restrict x\nselect 1;\n\\unrestrict x\n'), ['select 1'])
  assert.equal(parsed('--No-Transaction: an index\nselect 1').hasTransaction, false)
  assert.equal(parsed('select 1; -- no-transaction').hasTransaction, true)
})

test('migrations: a statement that prevents atomic application is rejected with its line', () => {
  for (const [sql, message] of [
    ['select 1;\nrollback;', /line 2: ROLLBACK cannot stand/],
    ['begin;\nselect 1;\n\nprepare transaction $$x$$', /line 4: PREPARE/],
    ['\\connect other', /line 1: \\connect is a command of psql/],
    ['select 1;\ncopy t (a, b) from stdin;\n1\t2\n\\.', /line 2: rows cannot be read/],
    ['select $$\0$$', /NUL/],
  ] as const)
    assert.throws(() => parsed(sql), message)
  assert.throws(
    () =>
      atOnce(
        parseMigrations([
          { version: '1', sql: '' },
          { version: '1', sql: '' },
        ]),
      ),
    /version 1/,
  )
})

test('migrations: a large script is prepared in slices, and line ends at the edge of a slice are found', () => {
  const pair = (ends: string) => [`select 1;${ends}`.repeat(9000), `select '${'x'.repeat(32_757)}${ends}'`]
  const sent = (ends: string) => pair(ends).map((sql, place) => ({ version: String(place), sql }))
  const work = parseMigrations(sent('\r\n'))
  let slices = 0
  let result = work.next()
  for (; !result.done; result = work.next()) slices++
  assert.ok(slices > 10)
  const checksums = (migrations: { checksum: string }[]) => migrations.map(({ checksum }) => checksum)
  assert.deepEqual(checksums(result.value), checksums(atOnce(parseMigrations(sent('\n')))))
})

test('migrations: the statements of all migrations of a request are counted together', () => {
  const sent = Array.from({ length: 101 }, (_, place) => ({ version: String(place), sql: 'a;'.repeat(1000) }))
  assert.throws(() => atOnce(parseMigrations(sent)), /may have 100000 statements/)
  assert.equal(atOnce(parseMigrations(sent.slice(1))).length, 100)
})

test('migrations: the checksum of a migration is what earlier versions recorded', () => {
  const statements = ['select 1', "select 'é🙂\n'"]
  const { checksum } = parsed(statements.join(';'))
  assert.equal(checksum, createHash('sha256').update(JSON.stringify(statements)).digest('hex'))
})
