// The SDK as it is published: plain JavaScript and types that need nothing but supabase-js.
// `node scripts/build-sdk.ts [directory]`, then `npm pack` or `npm publish` that directory; packages/sdk/dist when not told.
import { spawnSync } from 'node:child_process'
import { copyFileSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { SetBody } from '../packages/contract/src/cache.ts'
import { Job, JobWish, Run } from '../packages/contract/src/cron.ts'
import { errorCodes } from '../packages/contract/src/errors.ts'
import { ArchivedMessage, Message, Queue, QueueMetrics } from '../packages/contract/src/queue.ts'
import { interfaceText, type Schema } from './type-text.ts'

const root = resolve(import.meta.dirname, '..')
const source = join(root, 'packages/sdk')
/** Everything src/wire.ts takes from the contract. */
const shapes = { ArchivedMessage, Job, JobWish, Message, Queue, QueueMetrics, Run, SetBody }

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

/** The compiler does so in JavaScript only, and older ones do not find `./x.ts` from a declaration. */
const relativeImportsAsJs = (text: string) => text.replace(/(from ')(\.\/[^']+)\.ts(')/g, '$1$2.js$3')

function wireText(): string {
  const interfaces = Object.entries(shapes).map(([name, schema]) => interfaceText(name, schema as Schema))
  const codes = Object.keys(errorCodes).map(code => `  | '${code}'\n`)
  return `${interfaces.join('')}/** Every code the platform sends. */\nexport type ErrorCode =\n${codes.join('')}`
}

/** Inside the repository the package is its sources; outside it is what was built. */
function publishedManifest(): object {
  const manifest = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
  const { private: _, scripts: __, devDependencies, ...published } = manifest
  return {
    ...published,
    // A peer here would bring supabase-js to every installation of the platform.
    peerDependencies: { '@supabase/supabase-js': `^${devDependencies['@supabase/supabase-js']}` },
    sideEffects: false,
    exports: { '.': { types: './client.d.ts', default: './client.js' } },
    types: './client.d.ts',
  }
}

if (import.meta.main) buildSdk(resolve(process.argv[2] ?? join(source, 'dist')))
