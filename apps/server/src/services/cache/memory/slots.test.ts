import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSlots, type Slots } from './slots.ts'

const keysBelow = (slots: Slots, number: number) =>
  Array.from({ length: slots.below(number) }, (_, place) => slots.keyAt(place)).filter(
    key => key !== undefined,
  )

test('slots: keys keep their order and numbers when others are removed', () => {
  const slots = createSlots()
  const numbers = ['a', 'b', 'c', 'd'].map(slots.add)
  slots.remove(numbers[1]!)
  assert.deepEqual(keysBelow(slots, numbers[3]!), ['a', 'c'])
  assert.deepEqual(keysBelow(slots, numbers[1]!), ['a'])
  assert.deepEqual(keysBelow(slots, Number.POSITIVE_INFINITY), ['a', 'c', 'd'])
})

test('slots: a key that is added again gets the highest number', () => {
  const slots = createSlots()
  const first = slots.add('a')
  slots.add('b')
  slots.remove(first)
  const again = slots.add('a')
  assert.deepEqual(keysBelow(slots, again), ['b'])
})

test('slots: gaps are compacted before they outnumber the keys, and numbers stay valid', () => {
  const slots = createSlots()
  const numbers = Array.from({ length: 10_000 }, (_, index) => slots.add(`key ${index}`))
  for (const number of numbers) if (number % 10 !== 0) slots.remove(number)
  assert.ok(slots.length <= 2 * 1000 + 64, `${slots.length} places for 1000 keys`)
  const left = numbers.filter(number => number % 10 === 0)
  assert.deepEqual(
    keysBelow(slots, Number.POSITIVE_INFINITY),
    left.map(number => `key ${number - 1}`),
  )
  assert.equal(keysBelow(slots, left[500]!).length, 500)
})
