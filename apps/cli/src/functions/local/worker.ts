// A Deno process that runs one function.
import { spawn } from 'node:child_process'
import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { type Link, openLink } from '@plinth/runtime/client/link.ts'
import type { Level } from '../log-line.ts'
import { cacheModules, type Deno, workerArguments } from './deno.ts'

/** As the host program reads them from its standard input. */
export interface Variables {
  project: string
  secrets: Record<string, string>
  platform: Record<string, string>
}

export interface OutputLine {
  level: Level
  message: string
  requestId: string | null
}

export interface WorkerOptions {
  deno: Deno
  /** The folder of all functions. */
  root: string
  /** The path of the file with the handler. */
  entrypoint: string
  /** For its socket and temporary files. It is created, and removed when the worker has ended. */
  directory: string
  variables: Variables
  onLine(line: OutputLine): void
}

export interface Worker {
  /** Where it answers HTTP, which WebSockets need. */
  readonly socket: string
  /** Takes all other calls. */
  readonly link: Link
  /** The URL of the module with the handler. */
  readonly entry: string
  /** Resolves when the process has ended: `exit code 1`, `SIGKILL`. */
  readonly ended: Promise<string>
  /** Counts a call until the returned function is called. */
  begin(): () => void
  /** Stops it after its calls have ended, or after some seconds. */
  retire(): void
  stop(): Promise<void>
}

export class StartFailed extends Error {}

const startMilliseconds = 30_000
const drainMilliseconds = 10_000
const killMilliseconds = 2000

export async function startWorker(options: WorkerOptions): Promise<Worker> {
  const { deno, root, entrypoint, directory, onLine } = options
  const folder = dirname(entrypoint)
  const problem = await cacheModules(deno, folder, entrypoint)
  if (problem !== null) throw new StartFailed(problem.replaceAll(`${pathToFileURL(root).href}/`, ''))
  const socket = join(directory, 's')
  const linkSocket = join(directory, 'l')
  const temporary = join(directory, 'tmp')
  await mkdir(temporary, { recursive: true, mode: 0o700 })
  const child = spawn(deno.program, workerArguments(deno, { folder, root, socket, linkSocket, temporary }), {
    cwd: temporary,
    env: { ...deno.env, TMPDIR: temporary },
    stdio: 'pipe',
    // Ctrl-C in a terminal signals the whole process group, but calls may end first.
    detached: true,
  })
  const { promise: ready, resolve: becomeReady, reject: fail } = Promise.withResolvers<void>()
  const ended = new Promise<string>(resolve => {
    child.once('error', error => resolve(error.message))
    child.once('close', (code, signal) => resolve(signal ?? `exit code ${code}`))
  }).then(async why => {
    fail(new StartFailed(`The worker did not start: ${why}.`))
    await rm(directory, { recursive: true, force: true }).catch(() => {})
    return why
  })
  // Its end is reported by `ended`.
  child.stdin.on('error', () => {})
  child.stdin.write(`${JSON.stringify(options.variables)}\n`)
  createInterface({ input: child.stdout }).on('line', line => {
    const message = messageIn(line)
    if (message['type'] === 'ready') becomeReady()
    else if (message['type'] !== 'background') onLine(outputIn(message))
  })
  createInterface({ input: child.stderr }).on('line', message =>
    onLine({ level: 'error', message, requestId: null }),
  )
  const timeout = setTimeout(() => {
    fail(new StartFailed(`The worker did not start within ${startMilliseconds / 1000} seconds.`))
    child.kill('SIGKILL')
  }, startMilliseconds)
  let link: Link
  try {
    await ready
    link = await openLink(linkSocket, () => void child.kill('SIGKILL'))
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  } finally {
    clearTimeout(timeout)
  }

  let calls = 0
  let isRetired = false
  async function stop(): Promise<void> {
    const killing = setTimeout(() => child.kill('SIGKILL'), killMilliseconds)
    child.kill('SIGTERM')
    await ended
    clearTimeout(killing)
  }
  return {
    socket,
    link,
    entry: pathToFileURL(entrypoint).href,
    ended,
    begin() {
      calls++
      let isOver = false
      return () => {
        if (isOver) return
        isOver = true
        calls--
        if (isRetired && calls === 0) void stop()
      }
    },
    retire() {
      isRetired = true
      if (calls === 0) void stop()
      else setTimeout(stop, drainMilliseconds).unref()
    },
    stop,
  }
}

/** A line that is no message was printed by the function itself. */
function messageIn(line: string): Record<string, unknown> {
  try {
    if (line.startsWith('{"type":"')) return JSON.parse(line) as Record<string, unknown>
  } catch {}
  return { type: 'log', level: 'log', message: line }
}

const levels: readonly unknown[] = ['debug', 'info', 'log', 'warn', 'error'] satisfies Level[]

const outputIn = ({ level, message, requestId }: Record<string, unknown>): OutputLine => ({
  level: levels.includes(level) ? (level as Level) : 'log',
  message: String(message),
  requestId: typeof requestId === 'string' ? requestId : null,
})
