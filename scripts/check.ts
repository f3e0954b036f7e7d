// The quick gate: format, lint, types, architecture and unit tests, side by side. No database, under a minute.
import { spawn } from 'node:child_process'
import { globSync } from 'node:fs'

const unit = globSync(['packages/*/src/**/*.test.ts', 'apps/*/src/**/*.test.ts', 'scripts/*.test.ts'])
const gates: Record<string, string[]> = {
  'format and lint': ['biome', 'check', '--error-on-warnings', '.'],
  types: ['tsc', '-p', '.'],
  'architecture and units': [
    'node',
    '--test',
    '--test-timeout=120000',
    'apps/server/test/architecture.test.ts',
    ...unit,
  ],
}

const results = await Promise.all(
  Object.entries(gates).map(async ([name, [command, ...args]]) => {
    const output: Buffer[] = []
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
    return { name, status, output: Buffer.concat(output).toString() }
  }),
)

for (const { name, status, output } of results) {
  console.log(`${status === 0 ? 'ok    ' : 'FAILED'} ${name}`)
  if (status !== 0) console.log(output)
}
process.exit(results.every(({ status }) => status === 0) ? 0 : 1)
