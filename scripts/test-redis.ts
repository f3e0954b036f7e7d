// Runs the cache tests on a real Redis or Valkey, and the tests that need Redis. Without a Redis the run fails and says how
// to install it.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { startRedis } from '../apps/server/test/redis-server.ts'

const tests = [
  'apps/server/test/cache*.test.ts',
  'conformance/doc2/cache*.test.ts',
  'apps/server/test-redis/*.test.ts',
]
const given = process.argv.slice(2)

const redis = await startRedis().catch((error: Error) => {
  console.error(error.message)
  process.exit(1)
})
const { status } = spawnSync(
  process.execPath,
  [join(import.meta.dirname, 'test.ts'), ...(given.length > 0 ? given : tests)],
  { stdio: 'inherit', env: { ...process.env, TEST_REDIS_URL: redis.url } },
)
await redis.stop()
process.exit(status ?? 1)
