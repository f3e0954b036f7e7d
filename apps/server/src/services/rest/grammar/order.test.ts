import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseOrder } from './order.ts'

test('order: there are at most 100 terms', () => {
  assert.equal(parseOrder(Array(100).fill('a.desc').join(), 0).length, 100)
  assert.throws(() => parseOrder(Array(101).fill('a').join(), 0), { code: 'PGRST100', status: 400 })
})
