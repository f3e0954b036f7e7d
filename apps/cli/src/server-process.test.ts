import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { repository, serverOptions } from './server-process.ts'

test('npm start runs the server with the same Node.js options', () => {
  const { scripts } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'))
  assert.equal(scripts.start, ['node', ...serverOptions, 'apps/server/src/main.ts'].join(' '))
})
