import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

const root = mkdtempSync(join(tmpdir(), 'plinth-thread-environment-'))
after(() => rmSync(root, { recursive: true, force: true }))

const script = `
  import { enableCompileCache, getCompileCacheDir } from 'node:module'
  import { once } from 'node:events'
  import { Worker } from 'node:worker_threads'
  import { threadEnvironment } from '${new URL('./thread-environment.ts', import.meta.url)}'
  if (process.argv[1] === 'cached') enableCompileCache('${root}')
  const code = "require('node:worker_threads').parentPort.postMessage(require('node:module').getCompileCacheDir() ?? null)"
  const [ofThread] = await once(new Worker(code, { eval: true, execArgv: [], env: threadEnvironment() }), 'message')
  console.log(JSON.stringify([getCompileCacheDir() ?? null, ofThread]))`

function directories(argument: string): (string | null)[] {
  const { NODE_COMPILE_CACHE: _, ...env } = process.env
  const options = { encoding: 'utf8', env } as const
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script, argument], options)
  return JSON.parse(stdout)
}

test('thread environment: a thread uses the compile cache of its process', () => {
  const [ofProcess, ofThread] = directories('cached')
  assert.ok(ofProcess?.startsWith(root))
  assert.equal(ofThread, ofProcess)
})

test('thread environment: a thread has no compile cache if its process has none', () => {
  assert.deepEqual(directories('plain'), [null, null])
})
