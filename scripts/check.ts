// Runs format, lint, types, architecture and unit tests in parallel. It needs no database and takes less than a minute.
import { spawn } from 'node:child_process'
import { globSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inBatches, writeBatches } from './test-batches.ts'

const unit = globSync(['packages/*/src/**/*.test.ts', 'apps/*/src/**/*.test.ts', 'scripts/*.test.ts']).sort()
const directory = mkdtempSync(join(tmpdir(), 'plinth-check-'))
const batches = writeBatches(inBatches(['apps/server/test/architecture.test.ts', ...unit], 25), directory)
const checks: Record<string, string[]> = {
  'format and lint': ['biome', 'check', '--error-on-warnings', '.'],
  types: ['tsc', '-p', '.', '--incremental', '--tsBuildInfoFile', 'node_modules/.cache/types.tsbuildinfo'],
  'architecture and units': ['node', '--test', '--test-timeout=120000', '--test-concurrency=4', ...batches],
}

const results = await Promise.all(
  Object.entries(checks).map(async ([name, [command, ...args]]) => {
    const output: Buffer[] = []
    const startedAt = performance.now()
    const status = await new Promise<number>(resolve => {
      const child = spawn(command!, args, { stdio: ['ignore', 'pipe', 'pipe'] })
      child.stdout.on('data', chunk => output.push(chunk))
      child.stderr.on('data', chunk => output.push(chunk))
      child.on('error', error => {
        output.push(Buffer.from(error.message))
        resolve(1)
      })
      child.on('exit', code => resolve(code ?? 1))
    })
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    return { name, status, seconds, output: Buffer.concat(output).toString() }
  }),
)
rmSync(directory, { recursive: true, force: true })

for (const { name, status, seconds, output } of results) {
  console.log(`${status === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`)
  if (status !== 0) console.log(output)
}
process.exit(results.every(({ status }) => status === 0) ? 0 : 1)
