// The command line as a process.
import { rmSync } from 'node:fs'
import { watchSignals } from './interruption.ts'
import { run } from './run.ts'

export async function main(argv: readonly string[]): Promise<void> {
  const temporaryFiles = new Set<string>()
  process.on('exit', () => {
    for (const path of temporaryFiles) rmSync(path, { force: true })
  })
  process.stdout.on('error', endOfPipe)
  process.exitCode = await run(argv, {
    // biome-ignore lint/style/noProcessEnv: the one place of the command line that reads the environment
    env: process.env,
    // Read on use: `--help` works in a directory that was deleted, and opens no standard input.
    get cwd() {
      return process.cwd()
    },
    get stdin() {
      return process.stdin
    },
    stdout: process.stdout,
    get stderr() {
      return process.stderr
    },
    interruption: watchSignals(),
    temporaryFiles,
  })
}

/** `plinth projects list | head -1` closes the pipe early, which is not an error. */
function endOfPipe(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
}
