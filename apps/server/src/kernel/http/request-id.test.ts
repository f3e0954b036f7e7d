import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newRequestId } from './request-id.ts'

test('request ids are unique and begin with a hexadecimal digit', () => {
  const ids = Array.from({ length: 100 }, newRequestId)
  assert.equal(new Set(ids).size, ids.length)
  for (const id of ids) assert.match(id, /^[0-9a-f]{16}-[0-9a-z]+$/)
})
