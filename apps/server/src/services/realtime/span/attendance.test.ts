import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAttendance } from './attendance.ts'

test('a node is given up after so many beats without a word, and not before', () => {
  const attendance = createAttendance(2)
  attendance.hear('a')
  attendance.hear('b')
  assert.deepEqual(attendance.pass(), [])
  assert.deepEqual(attendance.pass(), [])
  attendance.hear('b')
  assert.deepEqual(attendance.pass(), ['a'])
  assert.deepEqual(attendance.pass(), [])
  assert.deepEqual(attendance.pass(), ['b'])
  assert.deepEqual(attendance.pass(), [])
})

test('a node that is heard again after it was given up has returned, once', () => {
  const attendance = createAttendance(0)
  assert.equal(attendance.hear('a'), 'new')
  assert.equal(attendance.hear('a'), 'known')
  assert.deepEqual(attendance.pass(), ['a'])
  assert.equal(attendance.hear('a'), 'returned')
  assert.equal(attendance.hear('a'), 'known')
})

test('a node that said goodbye is not given up, and is new when it comes again', () => {
  const attendance = createAttendance(0)
  attendance.hear('a')
  attendance.leave('a')
  assert.deepEqual(attendance.pass(), [])
  assert.equal(attendance.hear('a'), 'new')
})

test('once everybody is asked anew nobody returns', () => {
  const attendance = createAttendance(0)
  attendance.hear('a')
  attendance.pass()
  attendance.startOver()
  assert.equal(attendance.hear('a'), 'new')
})

test('of very many that were given up only the last are remembered', () => {
  const attendance = createAttendance(0)
  for (let node = 0; node < 1001; node++) attendance.hear(String(node))
  assert.equal(attendance.pass().length, 1001)
  assert.equal(attendance.hear('0'), 'new')
  assert.equal(attendance.hear('1'), 'returned')
})
