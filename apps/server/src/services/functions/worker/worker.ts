// One worker: a Deno process that serves the functions of a project.
import { rm } from 'node:fs/promises'
import { setPriority } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { type Link, openLink } from '@plinth/runtime/client/link.ts'
import { launch } from '#src/kernel/child-processes/launch.ts'
import type { StopStep } from '#src/kernel/child-processes/stop.ts'
import { niceness, type WorkerOptions, workerCommand } from './command.ts'
import { readLines } from './output.ts'
import { Budget, type Excess, isOverfull, usageOf, writesTooMuch } from './usage.ts'

export interface Variables {
  project: string
  secrets: Record<string, string>
  platform: Record<string, string>
  /** The function to load at once. */
  first?: FirstFunction
}

export interface FirstFunction {
  name: string
  version: string
  /** The URL of its module. */
  entry: string
  usesNode: boolean
}

/** A line of a worker's output, checked for its form only. */
export interface OutputLine {
  level: 'debug' | 'info' | 'log' | 'warn' | 'error'
  message: string
  project?: string
  name?: string
  version?: number
  requestId?: string
}

export type Ending = Excess | 'stopped' | 'crash'

export interface WorkerCall {
  send: Link['call']
  done(): void
}

export interface Worker {
  readonly pid: number
  /** Where it answers HTTP, which WebSockets need. */
  readonly socketPath: string
  /** Calls that are running. */
  readonly calls: number
  readonly isBusy: boolean
  readonly hasEnded: boolean
  readonly lastUsedAt: number
  readonly memoryMb: number
  /** Resolves when the process has ended. */
  readonly ended: Promise<Ending>
  /** Variables of a project, before its first call. */
  provide(variables: Variables): void
  /** Counts a call of the named function until `done`. Calls from outside add to its CPU time. */
  begin(name: string, isFromOutside: boolean): WorkerCall
  /** Checks the use of CPU time and memory. */
  check(now: number): Promise<void>
  checkDisk(): Promise<void>
  /** Ends a worker whose code never returns to the event loop, so that no call is ever answered. */
  checkAlive(): Promise<void>
  stop(): Promise<void>
}

export interface StartOptions extends WorkerOptions {
  variables: Variables
  startTimeoutMs: number
  /** The function whose call starts the worker. */
  firstName: string
  onLine(line: OutputLine): void
}

const stopSteps: readonly StopStep[] = [
  { signal: 'SIGTERM', withinMs: 5000 },
  { signal: 'SIGKILL', withinMs: 5000 },
]
const outOfMemory = /out of memory|memory allocation of \d+ bytes failed/i
const pingMs = 5000
/** In UTF-16 units. */
export const maxMessage = 8000
const levels = new Set(['debug', 'info', 'log', 'warn', 'error'])

export async function startWorker(options: StartOptions): Promise<Worker> {
  const { paths, variables, onLine } = options
  const ready = Promise.withResolvers<void>()
  let background = 0
  let excess: Excess | undefined
  let isStopping = false
  /** The function that was called last. Lines that name no function are taken for its own. */
  let latest = options.firstName

  function receive(line: string): void {
    const message = messageFrom(line)
    if (message === undefined) onLine({ level: 'log', name: latest, message: line.slice(0, maxMessage) })
    else if (message['type'] === 'ready') ready.resolve()
    else if (message['type'] === 'background') background = Number(message['pending']) || 0
    else onLine({ name: latest, ...lineFrom(message) })
  }

  const child = await launch({
    name: 'the worker',
    command: workerCommand(options),
    handshakeMs: options.startTimeoutMs,
    stopSteps: () => stopSteps,
    handshake(child) {
      // Before Deno has started its threads, which inherit it.
      setPriority(child.pid, niceness)
      readLines(child.process.stdout as Readable, { onLine: receive })
      readLines(child.process.stderr as Readable, {
        onLine(line) {
          // A long dump of the heap and the stack follows, which says nothing to anyone.
          if (excess === 'memory') return
          if (outOfMemory.test(line)) excess = 'memory'
          onLine({ level: 'error', name: latest, message: line.slice(0, maxMessage) })
        },
      })
      send(variables)
      return ready.promise

      function send(value: Variables): void {
        ;(child.process.stdin as Writable).write(`${JSON.stringify(value)}\n`)
      }
    },
  })
  // Without the connection, a worker is of no use.
  const link = await openLink(paths.link, () => void child.signal('SIGKILL')).catch(async error => {
    await child.stop()
    throw error
  })
  const budget = new Budget(options.memoryMb, performance.now())
  let calls = 0
  let lastUsedAt = performance.now()
  let memoryMb = (await usageOf(child.pid))?.memoryMb ?? 0

  const ended = child.closed.then(async (): Promise<Ending> => {
    link.close()
    await rm(paths.directory, { recursive: true, force: true }).catch(() => {})
    return excess ?? (isStopping ? 'stopped' : 'crash')
  })

  async function kill(why: Excess): Promise<void> {
    excess ??= why
    child.signal('SIGKILL')
    await ended
  }

  return {
    pid: child.pid,
    socketPath: paths.socket,
    ended,
    get calls() {
      return calls
    },
    get isBusy() {
      return calls > 0 || background > 0
    },
    get hasEnded() {
      return child.hasExited()
    },
    get lastUsedAt() {
      return lastUsedAt
    },
    get memoryMb() {
      return memoryMb
    },
    provide: value => void (child.process.stdin as Writable).write(`${JSON.stringify(value)}\n`),
    begin(name, isFromOutside) {
      latest = name
      calls++
      lastUsedAt = performance.now()
      if (isFromOutside) budget.addCall()
      let isDone = false
      return {
        send: link.call,
        done() {
          if (isDone) return
          isDone = true
          calls--
          lastUsedAt = performance.now()
        },
      }
    },
    async check(now) {
      const usage = await usageOf(child.pid)
      if (!usage || child.hasExited()) return
      memoryMb = usage.memoryMb
      const over = budget.spend(usage, now)
      if (over) await kill(over)
    },
    async checkDisk() {
      if (await writesTooMuch(paths.directory, child.pid)) await kill('disk')
      if (!(await isOverfull(paths.cache))) return
      await kill('disk')
      await rm(paths.cache, { recursive: true, force: true })
    },
    async checkAlive() {
      if (child.hasExited() || (await answersPing(link))) return
      onLine({
        level: 'error',
        name: latest,
        message: 'The worker was ended, because it did not react any more',
      })
      child.signal('SIGKILL')
      await ended
    },
    async stop() {
      isStopping = true
      await child.stop()
      await ended
    },
  }
}

/** The host answers a call without an entry at once. */
function answersPing(link: Link): Promise<boolean> {
  const ping = { method: 'GET', target: '/', headers: ['x-platform-ping', '1'] }
  return link.call(ping, undefined, pingMs).answer.then(
    () => true,
    () => false,
  )
}

/** Undefined for a line that the function itself has printed. */
function messageFrom(line: string): Record<string, unknown> | undefined {
  if (!line.startsWith('{"type":"')) return
  try {
    return JSON.parse(line) as Record<string, unknown>
  } catch {
    return
  }
}

function lineFrom({
  level,
  message,
  project,
  name,
  version,
  requestId,
}: Record<string, unknown>): OutputLine {
  const number = Number(version)
  return {
    level: levels.has(String(level)) ? (level as OutputLine['level']) : 'log',
    message: String(message).slice(0, maxMessage),
    ...(typeof project === 'string' && { project }),
    ...(typeof name === 'string' && { name }),
    ...(Number.isSafeInteger(number) && { version: number }),
    ...(typeof requestId === 'string' && { requestId: requestId.slice(0, 128) }),
  }
}
