// The published package in a project that has only supabase-js: packed by npm, type-checked by tsc, and run by every
// installed Node.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { buildSdk } from '../../../scripts/build-sdk.ts'
import { projectUrl } from '../src/client.ts'
import { type Stage, setStage } from './stage.ts'

const root = resolve(import.meta.dirname, '../../..')
const run = promisify(execFile)

/** An application that uses each service once, with its types. */
const consumer = `
import { createClient, type Job, type Message, PlinthError, projectUrl, type Result } from '@plinth/sdk'
import { SupabaseClient } from '@supabase/supabase-js'

interface Database {
  public: {
    Tables: { notes: { Row: { id: number }; Insert: { id: number }; Update: { id?: number }; Relationships: [] } }
    Views: Record<never, never>
    Functions: Record<never, never>
  }
}
declare const process: { argv: string[]; stdout: { write(text: string): void } }
const [base, project, key] = process.argv.slice(2) as [string, string, string]
const client = createClient<Database>(projectUrl(base, project), key, {
  auth: { persistSession: false, autoRefreshToken: false },
})
const plain: SupabaseClient<Database> = client

const set: Result<boolean> = await client.cache.set('greeting', 'hello', { ex: 60 })
const got = await client.cache.get('greeting')
const text: string | null = got.data
const count: number | bigint | null = (await client.cache.incr('count', { by: 2 })).data
const keys: string[] = []
for await (const name of client.cache.keys()) keys.push(name)

const created = await client.queues.create('jobs')
if (created.error) throw created.error
const name: string = created.data.queue_name
await client.queues.send<{ n: number }>(name, { n: 1 })
const read: Result<Message<{ n: number }>[]> = await client.queues.read(name, { vt: 30, qty: 5 })
const message = read.data?.[0]
const acked: boolean | null = message ? (await client.queues.ack(name, message.msg_id)).data : null

const job: Job | null = (await client.cron.schedule({ name: 'j', schedule: '0 0 1 1 *', command: 'select 1' })).data
const { error } = await client.queues.pop('unknown')
const rows = await plain.from('notes').select('id')

// @ts-expect-error: values are strings
void (() => client.cache.set('x', 1))
// @ts-expect-error: vt is required
void (() => client.queues.read('jobs', { qty: 1 }))
// @ts-expect-error: there is no such table
void (() => client.from('nothing'))
// @ts-expect-error: a job has no such field
void (() => job?.colour)

process.stdout.write(
  JSON.stringify({
    set: set.data, text, count, keys: keys.sort(), n: message?.message.n, acked, job: job?.name,
    refusal: error instanceof PlinthError && error.code === 'queue_not_found' && error.status,
    rows: rows.error?.code, extends: client instanceof SupabaseClient,
  }),
)
`

/** Compares the built types with the sources, including which fields are optional. */
const comparison = (built: string) => `
import type * as Built from '${built}'
import type * as Source from '${root}/packages/sdk/src/wire.ts'
type Plain<T> = T extends object ? { [K in keyof T]: T[K] } : T
type Same<A, B> = (<T>() => T extends Plain<A> ? 1 : 2) extends (<T>() => T extends Plain<B> ? 1 : 2) ? true : false
export const archived: Same<Built.ArchivedMessage, Source.ArchivedMessage> = true
export const code: Same<Built.ErrorCode, Source.ErrorCode> = true
export const job: Same<Built.Job, Source.Job> = true
export const jobDefinition: Same<Built.JobDefinition, Source.JobDefinition> = true
export const message: Same<Built.Message, Source.Message> = true
export const queue: Same<Built.Queue, Source.Queue> = true
export const metrics: Same<Built.QueueMetrics, Source.QueueMetrics> = true
export const run: Same<Built.Run, Source.Run> = true
export const setBody: Same<Built.SetBody, Source.SetBody> = true
export const different: Same<Built.Job, Source.Run> = false
`

let stage: Stage
let directory: string
let app: string
before(async () => {
  stage = await setStage()
  directory = realpathSync(mkdtempSync(join(tmpdir(), 'plinth-sdk-')))
  app = join(directory, 'app')
  buildSdk(join(directory, 'built'))
  const options = [
    '--offline',
    '--ignore-scripts',
    '--json',
    '--cache',
    join(directory, 'npm'),
    '--pack-destination',
    directory,
  ]
  const packed = await run('npm', ['pack', join(directory, 'built'), ...options], { cwd: directory })
  const installed = join(app, 'node_modules/@plinth/sdk')
  mkdirSync(installed, { recursive: true })
  const tarball = join(directory, JSON.parse(packed.stdout)[0].filename)
  await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', installed])
  mkdirSync(join(app, 'node_modules/@supabase'))
  symlinkSync(
    join(root, 'node_modules/@supabase/supabase-js'),
    join(app, 'node_modules/@supabase/supabase-js'),
  )
  writeFileSync(join(app, 'package.json'), JSON.stringify({ type: 'module' }))
  writeFileSync(join(app, 'main.ts'), consumer)
})
after(async () => {
  await stage.stop()
  rmSync(directory, { recursive: true, force: true })
})

/** The errors of tsc for these files and options. Empty if there are none. */
async function typeErrors(folder: string, files: string[], compilerOptions: object): Promise<string> {
  const config = join(folder, 'tsconfig.json')
  writeFileSync(config, JSON.stringify({ compilerOptions, files }))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  return run(process.execPath, [tsc, '-p', config], { cwd: folder }).then(
    () => '',
    (error: { stdout: string }) => withoutErrorsIn('@supabase', error.stdout),
  )
}

/** Drops the errors in the declarations of supabase-js. Those of the SDK are checked in full. */
const withoutErrorsIn = (scope: string, output: string) =>
  output
    .split(/\n(?! )/)
    .filter(error => !error.includes(`/node_modules/${scope}/`))
    .join('\n')

const strict = { strict: true, target: 'es2022', lib: ['es2022', 'dom'], types: [], skipLibCheck: false }
const nodeLike = { ...strict, module: 'nodenext', outDir: 'out' }

test('the package has all files and imports nothing of the workspace', () => {
  const installed = join(app, 'node_modules/@plinth/sdk')
  const files = globSync('**/*', { cwd: installed })
  for (const file of ['package.json', 'README.md', 'LICENSE', 'client.js', 'client.d.ts'])
    assert.ok(files.includes(file), file)
  assert.deepEqual(
    files.filter(file => file.endsWith('.ts') && !file.endsWith('.d.ts')),
    [],
  )
  const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
  assert.deepEqual(manifest.peerDependencies, { '@supabase/supabase-js': '^2.119.0' })
  for (const field of ['private', 'dependencies', 'devDependencies', 'scripts'])
    assert.equal(manifest[field], undefined, field)
  for (const file of files.filter(each => /\.(js|ts)$/.test(each)))
    for (const [, from] of readFileSync(join(installed, file), 'utf8').matchAll(
      /(?:from|import\()\s*['"]([^'"]+)/g,
    ))
      assert.match(from!, /^(\.\/[\w-]+\.js|@supabase\/supabase-js)$/, `${file} imports ${from}`)
})

test('the built types equal those of the contract', async () => {
  const folder = join(directory, 'comparison')
  mkdirSync(folder)
  writeFileSync(join(folder, 'same.ts'), comparison(join(directory, 'built/wire.js')))
  const options = {
    ...strict,
    module: 'nodenext',
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    noEmit: true,
  }
  assert.equal(await typeErrors(folder, ['same.ts'], { ...options, exactOptionalPropertyTypes: true }), '')
})

test('a strict project type-checks with each module resolution', async () => {
  assert.equal(await typeErrors(app, ['main.ts'], { ...strict, module: 'preserve', noEmit: true }), '')
  const exact = {
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    verbatimModuleSyntax: true,
  }
  assert.equal(await typeErrors(app, ['main.ts'], { ...nodeLike, ...exact, noEmit: true }), '')
})

test('it runs on every installed Node with only supabase-js', async () => {
  assert.equal(await typeErrors(app, ['main.ts'], nodeLike), '')
  const { id, service_role_key: key } = stage.project
  for (const node of nodes()) {
    const { stdout } = await run(node, [join(app, 'out/main.js'), stage.platform.url, id, key], { cwd: app })
    assert.deepEqual(JSON.parse(stdout), {
      set: true,
      text: 'hello',
      count: 2,
      keys: ['count', 'greeting'],
      n: 1,
      acked: true,
      job: 'j',
      refusal: 404,
      rows: 'PGRST205',
      extends: true,
    })
    await stage.service.cache.del(['count', 'greeting'])
  }
  assert.equal(projectUrl('http://x/', 'id'), 'http://x/v1/id')
})

/** The Node of this run, and those in PATH. */
function nodes(): Set<string> {
  const found = (process.env['PATH'] ?? '')
    .split(delimiter)
    .map(folder => join(folder, 'node'))
    .filter(file => existsSync(file))
    .map(file => realpathSync(file))
  return new Set([process.execPath, ...found])
}
