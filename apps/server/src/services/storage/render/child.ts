// Starts and calls a render process. It has one job at a time, so that a crash is caused by that job.
import { once } from 'node:events'
import { join } from 'node:path'
import { type LaunchedChild, launch } from '#src/kernel/child-processes/launch.ts'
import { NotStarted } from '#src/kernel/child-processes/process.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Answer, Job, Limits } from './job.ts'

const startMs = 10_000
const killMs = 10_000
const maxStderr = 1000

/** `exited`: the process ended or was killed during the job. `not started`: the process could not be started. */
export type Outcome = Answer | 'timed out' | 'exited' | 'not started'

export type JobOptions = Omit<Job, 'sourceBytes'>

export interface Child {
  ask(source: Buffer, options: JobOptions, timeLimitMs: number): Promise<Outcome>
  end(): void
}

/**
 * The environment of the platform is not passed on, so that an exploit finds no secrets. libvips writes large images to
 * TMPDIR, where private files would be readable. The threshold keeps them in memory, and the directory does not exist.
 */
const environment = { VIPS_DISC_THRESHOLD: '16g', TMPDIR: '/nonexistent', MALLOC_ARENA_MAX: '2', TZ: 'UTC' }

const command = (limits: Limits) => ({
  binary: process.execPath,
  args: ['--max-old-space-size=64', join(import.meta.dirname, 'worker.ts'), JSON.stringify(limits)],
  env: environment,
  cwd: '/',
  stdio: ['pipe', 'ignore', 'pipe', 'ipc'] as ['pipe', 'ignore', 'pipe', 'ipc'],
  serialization: 'advanced' as const,
  // It must not keep the platform running. It ends when the platform disconnects.
  inBackground: true,
})

export function startChild(log: Log, limits: Limits, onExit: (child: Child) => void): Child {
  const ending = new AbortController()
  let settle: (outcome: Outcome) => void = () => {}
  let hasExited = false
  let stderr = ''
  const handleExit = (how: string) => {
    hasExited = true
    if (!ending.signal.aborted) log.warn({ how, stderr }, 'the process that renders images ended')
    settle('exited')
    onExit(child)
  }

  const starting: Promise<LaunchedChild | undefined> = launch({
    name: 'the process that renders images',
    command: command(limits),
    async handshake({ process, closed }, signal) {
      void closed.then(handleExit)
      process.stderr?.on('data', (chunk: Buffer) => {
        stderr = (stderr + chunk.toString()).slice(-maxStderr)
      })
      await once(process, 'message', { signal })
      process.on('message', message => settle(message as Answer))
    },
    handshakeMs: startMs,
    stopSteps: () => [{ signal: 'SIGKILL', withinMs: killMs }],
    signal: ending.signal,
  }).catch(error => {
    // For a process that was started, `closed` reports the exit.
    if (error instanceof NotStarted) handleExit(error.message)
    return undefined
  })

  const end = () => {
    ending.abort()
    void starting.then(launched => launched?.signal('SIGKILL'))
  }
  const child: Child = {
    end,
    async ask(source, options, timeLimitMs) {
      const launched = await starting
      if (!launched) return 'not started'
      if (hasExited) return 'exited'
      const outcome = await new Promise<Outcome>(resolve => {
        const timer = setTimeout(() => settle('timed out'), timeLimitMs)
        settle = outcome => {
          clearTimeout(timer)
          settle = () => {}
          resolve(outcome)
        }
        launched.process.send({ ...options, sourceBytes: source.length }, error => error && settle('exited'))
        launched.process.stdin?.write(source)
      })
      if (typeof outcome === 'string' || outcome.shouldRestart) end()
      return outcome
    },
  }
  return child
}
