import { readFileSync } from 'node:fs'
import type { Io } from './io.ts'

/** Returns the exit code. Help and version answer before anything else is loaded. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const end = argv.indexOf('--')
  const given = end < 0 ? argv : argv.slice(0, end)
  const hasFlag = (...flags: string[]) => given.some(argument => flags.includes(argument))
  if (hasFlag('--version', '-V')) {
    io.stdout.write(`${ownVersion()}\n`)
    return 0
  }
  const isHelp = given.length === 0 || given[0] === 'help' || hasFlag('--help', '-h')
  if (!isHelp) return executeWith(argv, io)
  const { help } = await import('./help.ts')
  const text = help(given, ownVersion())
  if (text === null) {
    const words = given.filter(argument => !['help', '--help', '-h'].includes(argument))
    return executeWith(words, io)
  }
  io.stdout.write(`${text}\n`)
  return 0
}

async function executeWith(argv: readonly string[], io: Io): Promise<number> {
  const { execute } = await import('./execute.ts')
  return execute(argv, io, ownVersion())
}

function ownVersion(): string {
  const file = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(file) as { version: string }).version
}
