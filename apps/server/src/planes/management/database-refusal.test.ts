import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { refusalFromOwnerSql, sqlComplaint } from './database-refusal.ts'

const complaint = (code: string, fields: object = {}) =>
  Object.assign(new Error('it is so'), { code, severity: 'ERROR', ...fields })
const told = (code: string, fields: object = {}) => {
  const { status, code: ours } = refusalFromOwnerSql(complaint(code, fields))
  return [status, ours]
}

test('each kind of complaint has a status and code that say whose turn it is', () => {
  for (const code of ['42P07', '42701', '42710', '42723', '42P06'])
    assert.deepEqual(told(code), [409, 'already_exists'])
  assert.deepEqual(told('23505', { schema: 'pg_catalog' }), [409, 'already_exists'])
  assert.deepEqual(told('23505', { schema: 'public' }), [409, 'constraint_violated'])
  assert.deepEqual(told('23514'), [409, 'constraint_violated'])
  assert.deepEqual(told('2BP01'), [409, 'has_dependants'])
  assert.deepEqual(told('55P03'), [409, 'object_busy'])
  assert.deepEqual(told('42501'), [403, 'sql_not_permitted'])
  assert.deepEqual(told('57014'), [400, 'sql_timeout'])
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
    assert.deepEqual(told(code), [400, 'sql_error'])
  assert.deepEqual(told('25P04', { severity: 'FATAL' }), [400, 'sql_error'])
  const both = Object.assign(complaint('XX000'), { message: 'tuple concurrently updated' })
  assert.equal(refusalFromOwnerSql(both).code, 'object_busy')
})

test('the sentence has the state, the line pointed at, the detail and the hint', () => {
  const statement = 'create table t (\n  "😀" int,\n  b nonsense\n)'
  const position = String([...statement].join('').indexOf('nonsense')) // one less, since 😀 counts once there
  const error = complaint('42704', { position, detail: 'This much', hint: 'Do that.' })
  const { message, hint, details } = refusalFromOwnerSql(error, statement)
  assert.equal(message, 'it is so (SQLSTATE 42704), at line 3: b nonsense. This much. Do that.')
  assert.deepEqual([hint, details], ['Do that.', 'This much'])
  assert.equal(sqlComplaint(error, statement)?.line, 3)
  assert.equal(sqlComplaint(complaint('42704'), statement)?.line, undefined)
})

test('a refusal stays what it is, a lost server is 503, and the unforeseen a 500 that tells nothing', () => {
  const refusal = new Refusal('project_busy', 'later')
  assert.equal(refusalFromOwnerSql(refusal), refusal)
  assert.deepEqual(told('57P01', { severity: 'FATAL' }), [503, 'database_unavailable'])
  const bug = new TypeError('secret detail')
  const { status, message, cause } = refusalFromOwnerSql(bug)
  assert.deepEqual([status, cause], [500, bug])
  assert.ok(!message.includes('secret'))
})
