// Builds the SDK for publishing: JavaScript and types that depend only on supabase-js.
// Run `node scripts/build-sdk.ts [directory]` (default packages/sdk/dist), then `npm pack` or `npm publish` that directory.
import { spawnSync } from 'node:child_process'
import { copyFileSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { SetBody } from '../packages/contract/src/cache.ts'
import { Job, JobDefinition, Run } from '../packages/contract/src/cron.ts'
import { errorCodes } from '../packages/contract/src/errors.ts'
import { ArchivedMessage, Message, Queue, QueueMetrics } from '../packages/contract/src/queue.ts'
import { interfaceText, type Schema } from './type-text.ts'

const root = resolve(import.meta.dirname, '..')
const source = join(root, 'packages/sdk')
/** The types that src/wire.ts imports from the contract. */
const wireSchemas = { ArchivedMessage, Job, JobDefinition, Message, Queue, QueueMetrics, Run, SetBody }

export function buildSdk(directory: string): void {
  rmSync(directory, { recursive: true, force: true })
  compile(directory)
  for (const file of globSync('*.d.ts', { cwd: directory }))
    rewrite(join(directory, file), relativeImportsAsJs)
  writeFileSync(join(directory, 'wire.d.ts'), wireText())
  writeFileSync(join(directory, 'package.json'), `${JSON.stringify(publishedManifest(), null, 2)}\n`)
  copyFileSync(join(source, 'README.md'), join(directory, 'README.md'))
  copyFileSync(join(root, 'LICENSE'), join(directory, 'LICENSE'))
}

function compile(directory: string): void {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const args = [tsc, '-p', join(source, 'tsconfig.build.json'), '--outDir', directory]
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`The SDK does not compile:\n${stdout}`)
}

function rewrite(file: string, change: (text: string) => string): void {
  writeFileSync(file, change(readFileSync(file, 'utf8')))
}

/** tsc rewrites import extensions only in JavaScript, and older versions do not resolve `./x.ts` in a declaration. */
const relativeImportsAsJs = (text: string) => text.replace(/(from ')(\.\/[^']+)\.ts(')/g, '$1$2.js$3')

function wireText(): string {
  const interfaces = Object.entries(wireSchemas).map(([name, schema]) =>
    interfaceText(name, schema as Schema),
  )
  const codes = Object.keys(errorCodes).map(code => `  | '${code}'\n`)
  return `${interfaces.join('')}/** All error codes of the platform. */\nexport type ErrorCode =\n${codes.join('')}`
}

/** In the repository the package exports its sources; the published package exports the build. */
function publishedManifest(): object {
  const manifest = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
  const { private: _, scripts: __, devDependencies, ...published } = manifest
  return {
    ...published,
    // A peer dependency in the repository would install supabase-js with every platform.
    peerDependencies: { '@supabase/supabase-js': `^${devDependencies['@supabase/supabase-js']}` },
    sideEffects: false,
    exports: { '.': { types: './client.d.ts', default: './client.js' } },
    types: './client.d.ts',
  }
}

if (import.meta.main) buildSdk(resolve(process.argv[2] ?? join(source, 'dist')))
