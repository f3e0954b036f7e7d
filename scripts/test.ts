// The whole test run: one real Postgres for all of it, a platform of its own for every file that asks, several files in
// one process.
// `npm test -- <words>` runs the files whose paths contain a word or match a pattern.
import { fork, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, cpSync, globSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { engineFiles } from '../apps/server/src/kernel/postgres/engine/place.ts'
import { startEngine } from '../apps/server/src/kernel/postgres/engine/start.ts'
import { parseDatabaseUrl } from '../apps/server/src/kernel/postgres/server-address.ts'
import { prepareCluster } from '../apps/server/src/tenancy/cluster.ts'
import { scratchDirectory } from './scratch-directory.ts'
import { inBatches, writeBatches } from './test-batches.ts'

const everything = [
  'packages/*/{src,test}/**/*.test.ts',
  'apps/*/{src,test}/**/*.test.ts',
  'conformance/**/*.test.ts',
  'scripts/**/*.test.ts',
]
const all = globSync(everything).sort()
const words = process.argv.slice(2)
const files = words.length === 0 ? all : [...new Set(words.flatMap(matching))]
if (files.length === 0) {
  console.error(`No test file matches ${words.join(' ')}`)
  process.exit(1)
}

function matching(word: string): string[] {
  const named = globSync(word).filter(file => file.endsWith('.test.ts'))
  return named.length > 0 ? named.sort() : all.filter(file => file.includes(word))
}

// More than the number of cores, because tests often wait.
const atOnce = availableParallelism() + 3
/** A batch that takes longer will not end by itself; the report says which test it hangs in. */
const hangingMs = 1_800_000
/** Files that look at the process they run in, such as its memory, have one to themselves. */
const alone = ['storage-memory', 'idle', 'hygiene']
const batchSize = Math.min(8, Math.ceil(files.length / (2 * atOnce)))
const compileCache = join(import.meta.dirname, '../node_modules/.cache/plinth-tests')
const scratch = scratchDirectory()
const dataDir = mkdtempSync(join(scratch, 'plinth-test-'))
// As root, the database runs as another user, who must be able to enter the directory.
chmodSync(dataDir, 0o711)
// For scripts/test-vector.ts. Copied to a directory that this user can read.
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
  // Tests do not need to survive a power failure.
  settings: { fsync: 'off', full_page_writes: 'off' },
  log: quiet,
})

const url = `postgres://${engine.user}:${password}@${encodeURIComponent(engine.socketDir)}:${engine.port}`
// The harness copies this control database for every platform.
const seed = 'test_seed'
await prepareCluster(parseDatabaseUrl(url).address, seed)

const environment = {
  ...process.env,
  TEST_DATABASE_URL: url,
  TEST_DATABASE_SEED: seed,
  NODE_NO_WARNINGS: '1',
  NODE_COMPILE_CACHE: compileCache,
  TMPDIR: scratch,
}
const hasConformance = files.some(file => file.startsWith('conformance/'))
const shared = hasConformance && !process.env['CONFORMANCE_URL'] ? await startShared() : undefined

/** Most conformance files create their own projects and can share a platform, which takes seconds to start. */
async function startShared() {
  const child = fork(join(import.meta.dirname, 'shared-platform.ts'), { env: environment })
  const [{ url, adminToken }] = (await once(child, 'message')) as [{ url: string; adminToken: string }]
  return { child, environment: { CONFORMANCE_URL: url, CONFORMANCE_TOKEN: adminToken } }
}

const status = await new Promise<number>(resolve => {
  const own = ['failures-at-once.ts', 'slowest-files.ts'].map(file => join(import.meta.dirname, file))
  const reporters = ['spec', ...own].flatMap(reporter => [
    `--test-reporter=${reporter}`,
    '--test-reporter-destination=stdout',
  ])
  const options = ['--test', `--test-concurrency=${atOnce}`, `--test-timeout=${hangingMs}`, ...reporters]
  const isAlone = (file: string) => alone.some(name => file.endsWith(`/${name}.test.ts`))
  const batches = [
    ...files.filter(isAlone).map(file => [file]),
    ...inBatches(
      files.filter(file => !isAlone(file)),
      batchSize,
    ),
  ]
  const child = spawn(process.execPath, [...options, ...writeBatches(batches, join(dataDir, 'batches'))], {
    stdio: 'inherit',
    env: { ...environment, ...shared?.environment },
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  child.on('exit', code => resolve(code ?? 1))
})

if (shared) {
  shared.child.disconnect()
  await once(shared.child, 'exit')
}
await engine.stop()
for (const path of [...engineFiles(dataDir).remove, dataDir]) rmSync(path, { recursive: true, force: true })
process.exit(status)
