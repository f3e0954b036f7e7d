// Runs the command line as its users do: as a process, in a directory of its own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after } from 'node:test'

export const bin = join(import.meta.dirname, '../bin/plinth.js')

export interface Ran {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
  /** Stdout as JSON, when it is. */
  json: any
}

export interface How {
  cwd?: string
  env?: Record<string, string>
  input?: string
  /** Arguments for Node itself. */
  node?: string[]
}

/** A directory that goes away with the test, or with the file when made outside of one. */
export function workplace(
  files: Record<string, unknown> = {},
  leave: (directory: string) => Promise<unknown> = async () => {},
): string {
  const directory = mkdtempSync(join(tmpdir(), 'plinth-cli-'))
  after(async () => {
    await leave(directory)
    rmSync(directory, { recursive: true, force: true })
  })
  for (const [path, content] of Object.entries(files)) writeIn(directory, path, content)
  return directory
}

export function writeIn(directory: string, path: string, content: unknown): void {
  mkdirSync(dirname(join(directory, path)), { recursive: true })
  writeFileSync(join(directory, path), typeof content === 'string' ? content : JSON.stringify(content))
}

/** Nothing of our own environment comes along, so that a PLATFORM_URL out there changes nothing in here. */
export function begin(args: string[], { cwd = tmpdir(), env = {}, node = [] }: How = {}) {
  return spawn(process.execPath, [...node, bin, ...args], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], PLATFORM_DISK_RESERVE_MB: '0', ...env },
    stdio: 'pipe',
  })
}

export async function plinth(args: string[], how: How = {}): Promise<Ran> {
  const child = begin(args, how)
  child.stdin.on('error', () => {})
  child.stdin.end(how.input ?? '')
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>,
  ])
  return { code, signal, stdout, stderr, json: parsed(stdout) }
}

function parsed(stdout: string): unknown {
  try {
    return JSON.parse(stdout)
  } catch {
    return undefined
  }
}

/** A port that nobody listens on at the moment. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}
