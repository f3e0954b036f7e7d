// The rules of docs/architecture.md, checked on every run.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../src')

/** A folder imports itself and what stands below it. */
const below: Record<string, string[]> = {
  kernel: [],
  tenancy: ['kernel'],
  query: ['tenancy', 'kernel'],
  planes: ['tenancy', 'kernel'],
  services: ['planes', 'query', 'tenancy', 'kernel'],
}
/** Packages that one folder alone may know. */
const keepers: Record<string, string> = {
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

test('there is something to check', () => {
  assert.ok(files.length > 40 && own.length > 100)
  assert.deepEqual(
    own.filter(({ to }) => !files.includes(to)),
    [],
  )
})

test('folders import only what stands below them', () => {
  const bad = own.filter(
    ({ from, to }) =>
      below[folder(from)] && folder(from) !== folder(to) && !below[folder(from)]!.includes(folder(to)),
  )
  assert.deepEqual(show(bad), [])
})

test('a service reaches another service only through its service.ts', () => {
  const bad = own.filter(
    ({ from, to }) =>
      service(from) && service(to) && service(from) !== service(to) && !to.endsWith('/service.ts'),
  )
  assert.deepEqual(show(bad), [])
})

test('routes hold no SQL and stores no decisions of HTTP', () => {
  const bad = own.filter(
    ({ from, to }) =>
      (from.endsWith('-routes.ts') && to.startsWith('kernel/postgres/')) ||
      (from.endsWith('store.ts') && to.startsWith('kernel/http/')),
  )
  assert.deepEqual(show(bad), [])
})

test('no file imports itself in a circle', () => {
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

test('each package that one folder keeps is imported there alone', () => {
  const bad = imports.filter(({ from, to }) => {
    const keeper = keepers[to]
    return keeper !== undefined && !from.startsWith(keeper)
  })
  assert.deepEqual(show(bad), [])
})

test('config.ts alone reads the environment', () => {
  assert.deepEqual(
    files.filter(file => /process\.env|loadEnvFile/.test(source(file)) && file !== 'config.ts'),
    [],
  )
})

test('every source file can be read in one sitting', () => {
  assert.deepEqual(
    files.filter(file => source(file).split('\n').length > 400),
    [],
  )
})
