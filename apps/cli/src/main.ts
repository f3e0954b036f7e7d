import { readFileSync } from 'node:fs'

/** Help and version answer before anything else is loaded. */
export async function main(argv: readonly string[]): Promise<void> {
  const end = argv.indexOf('--')
  const given = end < 0 ? argv : argv.slice(0, end)
  const asks = (...flags: string[]) => given.some(argument => flags.includes(argument))
  if (asks('--version', '-V')) {
    process.stdout.write(`${ownVersion()}\n`)
  } else if (given.length === 0 || given[0] === 'help' || asks('--help', '-h')) {
    const { help } = await import('./help.ts')
    const text = help(given, ownVersion())
    if (text !== null) process.stdout.write(`${text}\n`)
    else await runWith(given.filter(argument => !['help', '--help', '-h'].includes(argument)))
  } else await runWith(argv)
}

async function runWith(argv: readonly string[]): Promise<void> {
  const { run } = await import('./run.ts')
  await run(argv, ownVersion())
}

function ownVersion(): string {
  const file = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(file) as { version: string }).version
}
