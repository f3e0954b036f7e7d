import assert from 'node:assert/strict'
import { test } from 'node:test'
import { arrayLiteral } from './array-literal.ts'

test('an array literal quotes and escapes every element', () => {
  assert.equal(arrayLiteral(['a', 'NULL', 'x"y', 'b\\c', '{', '']), '{"a","NULL","x\\"y","b\\\\c","{",""}')
  assert.equal(arrayLiteral([]), '{}')
  assert.equal(arrayLiteral(['a', null]), '{"a",NULL}')
})
