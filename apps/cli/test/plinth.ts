// Runs the command line in this process, or as a separate process, in a temporary directory.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { after } from 'node:test'
import { run } from '../src/run.ts'

export const bin = join(import.meta.dirname, '../bin/plinth.js')

export interface RunResult {
  code: number | null
  stdout: string
  stderr: string
  /** Stdout as JSON, when it is. */
  json: any
}

export interface RunOptions {
  cwd?: string
  env?: Record<string, string>
  input?: string
  /** Stderr is a terminal, so progress is drawn there. */
  isTerminal?: boolean
}

export interface Running {
  stdout(): string
  stderr(): string
  /** The exit code. */
  ended: Promise<number>
  hasEnded(): boolean
  /** As Ctrl-C does. */
  interrupt(): void
}

/** A directory that is removed after the test, or after the file when it is created outside of a test. */
export function temporaryDirectory(
  files: Record<string, unknown> = {},
  cleanUp: (directory: string) => Promise<unknown> = async () => {},
): string {
  const directory = mkdtempSync(join(tmpdir(), 'plinth-cli-'))
  after(async () => {
    await cleanUp(directory)
    rmSync(directory, { recursive: true, force: true })
  })
  for (const [path, content] of Object.entries(files)) writeIn(directory, path, content)
  return directory
}

export function writeIn(directory: string, path: string, content: unknown): void {
  mkdirSync(dirname(join(directory, path)), { recursive: true })
  writeFileSync(join(directory, path), typeof content === 'string' ? content : JSON.stringify(content))
}

/** Starts a command in this process and returns while it runs. */
export function begin(
  args: string[],
  { cwd = tmpdir(), env = {}, input = '', isTerminal = false }: RunOptions = {},
): Running {
  const [stdout, stderr] = [collector(), collector()]
  if (isTerminal) Object.assign(stderr.stream, { isTTY: true, columns: 100 })
  const interruption = new AbortController()
  let hasEnded = false
  const ended = run(args, {
    env: environment(env),
    cwd,
    stdin: Readable.from(input === '' ? [] : [input]),
    stdout: stdout.stream,
    stderr: stderr.stream,
    interruption: () => interruption.signal,
    temporaryFiles: new Set(),
  }).finally(() => {
    hasEnded = true
  })
  return {
    stdout: stdout.text,
    stderr: stderr.text,
    ended,
    hasEnded: () => hasEnded,
    interrupt: () => interruption.abort(),
  }
}

/** What a terminal has shown: each state of the line that is drawn again and again, and what follows it. */
export const drawnBy = (running: Running): string[] => running.stderr().replaceAll('\x1b[K', '').split('\r')

function collector() {
  const chunks: Buffer[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(chunk)
      done()
    },
  })
  return { stream, text: () => Buffer.concat(chunks).toString('utf8') }
}

/** Without the environment of the test run, because a PLATFORM_URL there would change the result. */
const environment = (env: Record<string, string>) => ({
  PATH: process.env['PATH'],
  HOME: process.env['HOME'],
  PLATFORM_DISK_RESERVE_MB: '0',
  ...env,
})

/** Runs a command in this process to its end. */
export async function plinth(args: string[], options: RunOptions = {}): Promise<RunResult> {
  const running = begin(args, options)
  const code = await running.ended
  const stdout = running.stdout()
  return { code, stdout, stderr: running.stderr(), json: parsed(stdout) }
}

interface ProcessOptions extends RunOptions {
  /** Arguments for Node itself. */
  node?: string[]
}

/**
 * Starts the program as a separate process. This costs about a second of CPU, so it is only for tests that
 * need a process.
 */
export function beginProcess(args: string[], { cwd = tmpdir(), env = {}, node = [] }: ProcessOptions = {}) {
  return spawn(process.execPath, [...node, bin, ...args], { cwd, env: environment(env), stdio: 'pipe' })
}

export async function plinthProcess(args: string[], options: ProcessOptions = {}): Promise<RunResult> {
  const child = beginProcess(args, options)
  child.stdin.on('error', () => {})
  child.stdin.end(options.input ?? '')
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ])
  return { code, stdout, stderr, json: parsed(stdout) }
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
