import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allOf, compile, identifier, literal, raw, sql } from './sql.ts'

test('values become parameters, in order, through nested fragments', () => {
  const condition = sql`b = ${2} and c = ${'x; drop table t'}`
  assert.deepEqual(compile(sql`select ${1} from t where ${condition} limit ${3}`), {
    text: 'select $1 from t where b = $2 and c = $3 limit $4',
    values: [1, 2, 'x; drop table t', 3],
  })
})

test('allOf without conditions matches everything', () => {
  assert.equal(compile(sql`where ${allOf([])}`).text, 'where true')
  assert.equal(compile(sql`where ${allOf([sql`a`, sql`b`])}`).text, 'where true and a and b')
})

test('quotes in identifiers and literals are escaped', () => {
  assert.equal(identifier('a"b'), '"a""b"')
  assert.equal(literal("it's"), "'it''s'")
  assert.equal(literal("it\\'s"), " E'it\\\\''s'")
  assert.deepEqual(compile(raw('select 1')), { text: 'select 1', values: [] })
})
