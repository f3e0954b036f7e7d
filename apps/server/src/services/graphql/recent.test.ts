import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Recent } from './recent.ts'

const kept = (recent: Recent<number>, keys: string) => [...keys].filter(key => recent.get(key) !== undefined)

test('recent: what was used least recently is forgotten first', () => {
  const recent = new Recent<number>(3)
  for (const key of 'abc') recent.set(key, 1)
  recent.get('a')
  recent.set('d', 1)
  assert.deepEqual(kept(recent, 'abcd'), ['a', 'c', 'd'])
})

test('recent: the weight of all entries is limited, and replaced and removed ones do not count', () => {
  const recent = new Recent<number>(100, 100)
  for (const key of 'abcde') recent.set(key, 1, 20)
  for (let times = 0; times < 10; times++) recent.set('e', times, 20)
  assert.deepEqual(kept(recent, 'abcde'), [...'abcde'])
  recent.set('f', 1, 25)
  assert.deepEqual(kept(recent, 'abcdef'), [...'cdef'])
})

test('recent: an entry of more than a quarter of the weight is not kept, nor the one it replaces', () => {
  const recent = new Recent<number>(100, 100)
  recent.set('a', 1, 20)
  recent.set('b', 1, 20)
  recent.set('b', 2, 26)
  assert.deepEqual(kept(recent, 'ab'), ['a'])
})
