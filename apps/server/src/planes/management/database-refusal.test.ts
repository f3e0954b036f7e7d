import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { DatabaseError, type ErrorFields } from '#src/kernel/postgres/database-error.ts'
import { refusalFromOwnerSql, sqlErrorDetails } from './database-refusal.ts'

const sqlError = (code: string, fields: Partial<ErrorFields> = {}) =>
  new DatabaseError({ code, message: 'it is so', ...fields })
const answer = (code: string, fields: Partial<ErrorFields> = {}) => {
  const { status, code: ours } = refusalFromOwnerSql(sqlError(code, fields))
  return [status, ours]
}

test('database errors: each SQLSTATE class has a status and a code', () => {
  for (const code of ['42P07', '42701', '42710', '42723', '42P06'])
    assert.deepEqual(answer(code), [409, 'already_exists'])
  assert.deepEqual(answer('23505', { schema: 'pg_catalog' }), [409, 'already_exists'])
  assert.deepEqual(answer('23505', { schema: 'public' }), [409, 'constraint_violated'])
  assert.deepEqual(answer('23514'), [409, 'constraint_violated'])
  assert.deepEqual(answer('2BP01'), [409, 'has_dependants'])
  assert.deepEqual(answer('55P03'), [409, 'object_busy'])
  assert.deepEqual(answer('42501'), [403, 'sql_not_permitted'])
  assert.deepEqual(answer('57014'), [400, 'sql_timeout'])
  for (const code of [
    '42601',
    '42P01',
    '42703',
    '22P02',
    'P0001',
    '54000',
    '53400',
    '0A000',
    '53100',
    '53200',
    '58P01',
    'XX000',
    '42P17',
    'F0000',
  ])
    assert.deepEqual(answer(code), [400, 'sql_error'])
  assert.deepEqual(answer('25P04', { severity: 'FATAL' }), [400, 'sql_error'])
  const both = sqlError('XX000', { message: 'tuple concurrently updated' })
  assert.equal(refusalFromOwnerSql(both).code, 'object_busy')
})

test('database errors: the message has the SQLSTATE, the line, the detail and the hint', () => {
  const statement = 'create table t (\n  "😀" int,\n  b nonsense\n)'
  const position = [...statement].join('').indexOf('nonsense') // one less, since 😀 counts once there
  const error = sqlError('42704', { position, detail: 'This much', hint: 'Do that.' })
  const { message, hint, details } = refusalFromOwnerSql(error, statement)
  assert.equal(message, 'it is so (SQLSTATE 42704), at line 3: b nonsense. This much. Do that.')
  assert.deepEqual([hint, details], ['Do that.', 'This much'])
  assert.equal(sqlErrorDetails(error, statement)?.line, 3)
  assert.equal(sqlErrorDetails(sqlError('42704'), statement)?.line, undefined)
})

test('database errors: a Refusal is kept, a lost server is 503, and other errors are a 500 without details', () => {
  const refusal = new Refusal('project_busy', 'later')
  assert.equal(refusalFromOwnerSql(refusal), refusal)
  assert.deepEqual(answer('57P01', { severity: 'FATAL' }), [503, 'database_unavailable'])
  const bug = new TypeError('secret detail')
  const { status, message, cause } = refusalFromOwnerSql(bug)
  assert.deepEqual([status, cause], [500, bug])
  assert.ok(!message.includes('secret'))
})
