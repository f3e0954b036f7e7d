// Runs the vector tests on an embedded Postgres with pgvector, from TEST_EXTENSION_DIR or compiled here. If the build
// fails, the run fails.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { builtPgvector } from './build-pgvector.ts'

const tests = 'apps/server/test-vector/*.test.ts'
const { status } = spawnSync(process.execPath, [join(import.meta.dirname, 'test.ts'), tests], {
  stdio: 'inherit',
  env: { ...process.env, TEST_EXTENSION_DIR: process.env['TEST_EXTENSION_DIR'] ?? (await builtPgvector()) },
})
process.exit(status ?? 1)
