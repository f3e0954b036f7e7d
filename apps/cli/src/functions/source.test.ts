import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FunctionName, maxCodeBytes, maxFiles } from '@plinth/contract/functions.ts'
import { namePattern } from './folder.ts'
import * as source from './source.ts'

test('functions: names and limits are those of the contract', () => {
  assert.equal(namePattern.source, (FunctionName as { pattern?: string }).pattern)
  assert.deepEqual([source.maxCodeBytes, source.maxFiles], [maxCodeBytes, maxFiles])
})
