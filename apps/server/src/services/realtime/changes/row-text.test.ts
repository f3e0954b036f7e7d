import assert from 'node:assert/strict'
import { test } from 'node:test'
import { columnsOf, rowOf } from './row-text.ts'

const row =
  '{"id":9007199254740993,"say \\"hi\\"":"a,b}\\\\","nested":{"a":[1,{"b":"]"}],"c":null},"list":[1,"]",{}],"none":null,"ü":1.50}'

test('row text: every value is returned as written', () => {
  assert.deepEqual(
    [...columnsOf(row)],
    [
      ['id', '9007199254740993'],
      ['say "hi"', '"a,b}\\\\"'],
      ['nested', '{"a":[1,{"b":"]"}],"c":null}'],
      ['list', '[1,"]",{}]'],
      ['none', 'null'],
      ['ü', '1.50'],
    ],
  )
  assert.deepEqual([...columnsOf('{}')], [])
})

test('row text: a row of selected columns has the requested order, without missing columns', () => {
  assert.equal(rowOf(columnsOf(row), ['list', 'missing', 'id']), '{"list":[1,"]",{}],"id":9007199254740993}')
})

test('row text: whitespace inside values is kept', () => {
  const spaced = '{"a":{"x": 1},"b":[\n 1]}'
  assert.deepEqual([...columnsOf(spaced).values()], ['{"x": 1}', '[\n 1]'])
})
