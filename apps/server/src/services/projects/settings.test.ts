import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkSettings, maxValues } from './settings.ts'

test('project settings: a request with too many values is rejected', () => {
  const secrets = (count: number) => ({ list: Array.from({ length: count }, () => 'x') })
  checkSettings(secrets(maxValues - 1))
  for (const settings of [secrets(maxValues), { a: { b: [secrets(maxValues - 2)] } }])
    assert.throws(() => checkSettings(settings), { status: 400, message: /5000 values/ })
})
