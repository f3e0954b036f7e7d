// The server as a process: `apps/server/src/main.ts`, run by the same Node as the command line.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Context } from './context.ts'
import { Failure } from './failure.ts'

export const repository = fileURLToPath(new URL('../../..', import.meta.url))

/**
 * The same as in `npm start`. File contents pass through in buffers outside the heap. With a small young generation
 * scavenges free these buffers early, instead of full collections after there are very many.
 */
export const serverOptions = ['--max-semi-space-size=1']

export function serverEntry(): string {
  const entry = fileURLToPath(new URL('../../server/src/main.ts', import.meta.url))
  if (existsSync(entry)) return entry
  throw new Failure(
    'server_missing',
    `The server is missing: ${entry} does not exist.`,
    'Run plinth in the repository.',
  )
}

export interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

/** Runs a subcommand of the server and waits for its end. `onLine` gets each line of stdout as it comes. */
export async function runServer(
  context: Context,
  args: string[],
  input = '',
  onLine: (line: string) => void = () => {},
): Promise<Finished> {
  const child = spawn(process.execPath, [serverEntry(), ...args], {
    cwd: context.cwd,
    env: context.environment,
    stdio: 'pipe',
  })
  child.stdin.on('error', () => {}) // it ended without reading; the exit code reports why
  child.stdin.end(input)
  const [stdout, stderr, [code]] = await Promise.all([
    linesOf(child.stdout, onLine),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ])
  return { code, stdout, stderr }
}

async function linesOf(source: Readable, onLine: (line: string) => void): Promise<string> {
  const lines: string[] = []
  for await (const line of createInterface({ input: source })) {
    lines.push(`${line}\n`)
    onLine(line)
  }
  return lines.join('')
}
