import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

test('run: only main.ts and interruption.ts use the state of the process', () => {
  const state = /\bprocess\.(env|argv|cwd|chdir|stdin|stdout|stderr|exit|exitCode|on|once|off)\b/
  const files = globSync('**/*.ts', { cwd: import.meta.dirname, exclude: ['**/*.test.ts'] })
  const users = files.filter(file => state.test(readFileSync(join(import.meta.dirname, file), 'utf8')))
  assert.deepEqual(users.sort(), ['interruption.ts', 'main.ts'])
})
