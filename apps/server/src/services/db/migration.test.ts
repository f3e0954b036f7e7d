import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byVersion, parseMigrations, scriptOf, statementsToRun } from './migration.ts'

const parsed = (sql: string) => parseMigrations([{ version: '1', sql }])[0]!

test('versions are ordered as numbers', () => {
  const versions = ['10', '9', '020', '20240101000000', '1', '20'].map(version => ({ version }))
  assert.deepEqual(
    versions.sort(byVersion).map(({ version }) => version),
    ['1', '9', '10', '020', '20', '20240101000000'],
  )
})

test('the checksum is that of the statements', () => {
  const { checksum } = parsed('-- about it\nselect 1;\nselect 2;\n')
  assert.equal(parsed('\uFEFF-- about it\r\nselect 1;\r\n\r\nselect 2\r\n-- the end').checksum, checksum)
  assert.notEqual(parsed('-- about it\nselect 1;\nselect 3;').checksum, checksum)
  assert.notEqual(parsed('select 1;\nselect 2;').checksum, checksum)
})

test('a script made of statements is cut into the same statements again', () => {
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

test('the transaction is ours unless the first line says otherwise', () => {
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

test('what cannot be applied as a whole is refused with its line', () => {
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
      parseMigrations([
        { version: '1', sql: '' },
        { version: '1', sql: '' },
      ]),
    /version 1/,
  )
})
