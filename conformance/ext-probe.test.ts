import { spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { test } from 'node:test'
import { freshTarget } from './target.ts'
test('external', async () => {
  const t = await freshTarget()
  for (const round of [1, 2]) await new Promise(resolve => {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const child = spawn(process.execPath, ['--test', '--test-concurrency=2', ...globSync('conformance/doc*/*.test.ts')], { stdio: 'inherit', env: { ...env, CONFORMANCE_URL: t.url, CONFORMANCE_TOKEN: t.adminToken } })
    child.on('exit', resolve)
  })
  await t.stop()
})
