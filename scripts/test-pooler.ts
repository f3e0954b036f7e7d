// Runs the tests with a real PgBouncer. Without one the run fails and says how to install it.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { checkPgBouncer } from '../apps/server/test/pgbouncer.ts'

try {
  checkPgBouncer()
} catch (error) {
  console.error((error as Error).message)
  process.exit(1)
}
const tests = 'apps/server/test-pooler/*.test.ts'
const { status } = spawnSync(process.execPath, [join(import.meta.dirname, 'test.ts'), tests], {
  stdio: 'inherit',
})
process.exit(status ?? 1)
