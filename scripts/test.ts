// The whole test run: one real Postgres for all of it, a platform of its own for every file that asks.
// `npm test -- <files>` runs some of them.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, cpSync, globSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { engineFiles } from '../apps/server/src/kernel/postgres/engine/place.ts'
import { startEngine } from '../apps/server/src/kernel/postgres/engine/start.ts'
import { parseDatabaseUrl } from '../apps/server/src/kernel/postgres/server-address.ts'
import { prepareCluster } from '../apps/server/src/tenancy/cluster.ts'

const everything = [
  'packages/*/{src,test}/**/*.test.ts',
  'apps/*/{src,test}/**/*.test.ts',
  'conformance/**/*.test.ts',
  'scripts/**/*.test.ts',
]
const given = process.argv.slice(2)
const files = globSync(given.length > 0 ? given : everything).sort()
if (files.length === 0) {
  console.error(`No test file matches ${given.join(' ')}`)
  process.exit(1)
}

// One more than there are cores: much of a test is waiting.
const atOnce = availableParallelism() + 1
/** A file that takes longer will not end by itself; then it is said which. */
const hangingMs = 900_000
const compileCache = join(import.meta.dirname, '../node_modules/.cache/plinth-tests')
const dataDir = mkdtempSync(join(tmpdir(), 'plinth-test-'))
// As root the database runs as another user, who must be able to pass through.
chmodSync(dataDir, 0o711)
// For scripts/test-vector.ts. Copied to where that user can read it.
const givenExtensions = process.env['TEST_EXTENSION_DIR']
const extensionDir = givenExtensions && join(dataDir, 'extensions')
if (extensionDir) cpSync(givenExtensions, extensionDir, { recursive: true })
const password = randomBytes(16).toString('hex')
const quiet = {
  info() {},
  warn() {},
  error: (facts: object, message: string) => console.error(message, facts),
}
const engine = await startEngine({
  dataDir,
  superuserPassword: password,
  extensionDir,
  // The machine will not lose power for the sake of a test.
  settings: { fsync: 'off', full_page_writes: 'off' },
  log: quiet,
})

const url = `postgres://${engine.user}:${password}@${encodeURIComponent(engine.socketDir)}:${engine.port}`
// What every platform begins with, to be copied by the harness.
const seed = 'test_seed'
await prepareCluster(parseDatabaseUrl(url).address, seed)

const status = await new Promise<number>(resolve => {
  const options = ['--test', `--test-concurrency=${atOnce}`, `--test-timeout=${hangingMs}`]
  const child = spawn(process.execPath, [...options, ...files], {
    stdio: 'inherit',
    env: {
      ...process.env,
      TEST_DATABASE_URL: url,
      TEST_DATABASE_SEED: seed,
      NODE_NO_WARNINGS: '1',
      NODE_COMPILE_CACHE: compileCache,
    },
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  child.on('exit', code => resolve(code ?? 1))
})

await engine.stop()
for (const path of [...engineFiles(dataDir).remove, dataDir]) rmSync(path, { recursive: true, force: true })
process.exit(status)
