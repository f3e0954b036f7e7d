import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

const repository = join(import.meta.dirname, '../../..')

test('types: test/types.ts compiles with exactly the expected errors', () => {
  const { status, stdout } = spawnSync(join(repository, 'node_modules/.bin/tsc'), ['-p', repository], {
    encoding: 'utf8',
  })
  assert.equal(stdout, '')
  assert.equal(status, 0)
})
