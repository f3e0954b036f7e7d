// The rules of docs/architecture.md, checked on every run.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../src')

/** The folders that each folder may import, besides itself. */
const allowedImports: Record<string, string[]> = {
  kernel: [],
  tenancy: ['kernel'],
  query: ['tenancy', 'kernel'],
  planes: ['tenancy', 'kernel'],
  archive: ['tenancy', 'kernel'],
  services: ['planes', 'query', 'archive', 'tenancy', 'kernel'],
}
/** Packages that only one folder may import. */
const folderOfPackage: Record<string, string> = {
  fastify: 'kernel/http/',
  ajv: 'kernel/http/',
  'fast-json-stringify': 'kernel/http/',
  'ajv-formats': 'kernel/http/',
  'secure-json-parse': 'kernel/http/',
  ws: 'kernel/http/',
  pg: 'kernel/postgres/',
  pino: 'kernel/log.ts',
  '@node-rs/argon2': 'kernel/crypto/',
  nodemailer: 'kernel/outbound/',
  undici: 'kernel/outbound/',
  '@aws-sdk/client-s3': 'kernel/objects/',
  jose: 'services/auth/oauth/',
  'lru-cache': 'services/cache/memory/',
  sharp: 'services/storage/render/worker.ts',
}

interface Import {
  from: string
  to: string
}
const files = globSync('**/*.ts', { cwd: root }).filter(file => !file.endsWith('.test.ts'))
const source = (file: string) => readFileSync(join(root, file), 'utf8')
const imports: Import[] = files.flatMap(from =>
  [...source(from).matchAll(/(?:from|import\()\s*'([^']+)'/g)].map(match => ({ from, to: match[1]! })),
)
const own: Import[] = imports
  .filter(({ to }) => to.startsWith('.') || to.startsWith('#src/'))
  .map(({ from, to }) => ({
    from,
    to: to.startsWith('#src/') ? to.slice(5) : relative(root, join(root, dirname(from), to)),
  }))

const folder = (file: string) => file.split('/')[0]!
const service = (file: string) => (folder(file) === 'services' ? file.split('/')[1] : undefined)
const show = (bad: Import[]) => bad.map(({ from, to }) => `${from} -> ${to}`)

test('architecture: source files and imports are found', () => {
  assert.ok(files.length > 40 && own.length > 100)
  assert.deepEqual(
    own.filter(({ to }) => !files.includes(to)),
    [],
  )
})

test('architecture: folders import only lower folders', () => {
  const bad = own.filter(
    ({ from, to }) =>
      allowedImports[folder(from)] &&
      folder(from) !== folder(to) &&
      !allowedImports[folder(from)]!.includes(folder(to)),
  )
  assert.deepEqual(show(bad), [])
})

test('architecture: a service imports only service.ts of another service', () => {
  const bad = own.filter(
    ({ from, to }) =>
      service(from) && service(to) && service(from) !== service(to) && !to.endsWith('/service.ts'),
  )
  assert.deepEqual(show(bad), [])
})

test('architecture: routes contain no SQL, and stores no HTTP', () => {
  const bad = own.filter(
    ({ from, to }) =>
      (from.endsWith('-routes.ts') && to.startsWith('kernel/postgres/')) ||
      (from.endsWith('store.ts') && to.startsWith('kernel/http/')),
  )
  assert.deepEqual(show(bad), [])
})

test('architecture: query does not mention PostgREST or HTTP', () => {
  const words = /PGRST|PostgREST|\bHTTP\b|\bstatus(?:es)?\b|\bheaders?\b|\bURLs?\b/gi
  const bad = files
    .filter(file => folder(file) === 'query')
    .flatMap(file => [...new Set(source(file).match(words))].map(word => `${file}: ${word}`))
  assert.deepEqual(bad, [])
})

test('architecture: in services and archives only stores contain SQL', () => {
  const writesSql = (file: string) =>
    [...source(file).matchAll(/import (?:type )?\{([^}]*)\} from '#src\/kernel\/postgres\/sql\.ts'/g)].some(
      ([, names]) => /\b(sql|raw)\b/.test(names!),
    )
  assert.deepEqual(
    files.filter(
      file => /^(?:services|archive)$/.test(folder(file)) && !file.endsWith('store.ts') && writesSql(file),
    ),
    [],
  )
})

test('architecture: tenancy mentions no tables of services', () => {
  const schemas = /\b(?:auth|storage|realtime|pgmq|pgmq_public)\.\w|\b(?:mail|storage|job|cache)_\w+/
  const code = (file: string) => source(file).replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
  const bad = files
    .filter(file => folder(file) === 'tenancy' || file === 'infrastructure.ts')
    .flatMap(
      file =>
        code(file)
          .match(schemas)
          ?.map(found => `${file}: ${found}`) ?? [],
    )
  assert.deepEqual(bad, [])
})

test('architecture: periodic work uses chores, not setInterval', () => {
  assert.deepEqual(
    files.filter(file => /\bsetInterval\(/.test(source(file))),
    [],
  )
})

test('architecture: there are no circular imports', () => {
  const next = Map.groupBy(own, ({ from }) => from)
  const done = new Set<string>()
  const circles: string[] = []
  function walk(file: string, path: string[]): void {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' -> '))
    if (done.has(file) || path.includes(file)) return
    for (const { to } of next.get(file) ?? []) walk(to, [...path, file])
    done.add(file)
  }
  for (const file of files) walk(file, [])
  assert.deepEqual(circles, [])
})

test('architecture: packages are imported only in their folder', () => {
  const bad = imports.filter(({ from, to }) => {
    const keeper = folderOfPackage[to]
    return keeper !== undefined && !from.startsWith(keeper)
  })
  assert.deepEqual(show(bad), [])
})

/** Fields, methods, options and error texts of `pg` that are not documented. */
const privateToDriver =
  /connection\.stream|processID|queryMode|sendCopyFail|handle(RowDescription|DataRow|CommandComplete|ReadyForQuery)|commandComplete'|dataTypeID|\.options\.max|Connection terminated|calling end|(Client|Pool|client|pool|query) as unknown/

test('architecture: only driver-internals.ts uses private parts of the Postgres driver', () => {
  assert.deepEqual(
    files.filter(file => privateToDriver.test(source(file))),
    ['kernel/postgres/driver-internals.ts'],
  )
})

test('architecture: only config.ts reads the environment', () => {
  assert.deepEqual(
    files.filter(file => /process\.env|loadEnvFile/.test(source(file)) && file !== 'config.ts'),
    [],
  )
})

test('architecture: source files have at most 400 lines', () => {
  assert.deepEqual(
    files.filter(file => source(file).split('\n').length > 400),
    [],
  )
})
