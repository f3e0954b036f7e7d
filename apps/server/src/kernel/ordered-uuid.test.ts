import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { lowestUuidAt, orderedUuid } from './ordered-uuid.ts'
import { isUuid } from './uuid.ts'

test('ids are UUIDs of version 7 in the order of their creation', () => {
  const ids = Array.from({ length: 20_000 }, orderedUuid)
  ok(ids.every(isUuid))
  ok(ids.every(id => id[14] === '7' && '89ab'.includes(id[19]!)))
  deepEqual(ids, [...new Set(ids)].sort())
})

test('an id sorts between the times around its creation', () => {
  const before = Date.now()
  const id = orderedUuid()
  ok(lowestUuidAt(before) <= id)
  // Ids of a busy moment may be some milliseconds ahead of the clock.
  ok(id < lowestUuidAt(Date.now() + 1000))
})
