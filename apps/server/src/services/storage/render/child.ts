// A process that renders, seen from the platform. It has one job at a time, so that a crash is the fault of that one.
import { fork } from 'node:child_process'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { Log } from '#src/kernel/log.ts'
import type { Answer, Job, Limits } from './job.ts'

const startMs = 10_000
const maxComplaint = 1000

/** `gone`: it ended by itself, or somebody ended it. `unable`: it did not come up. */
export type Outcome = Answer | 'too late' | 'gone' | 'unable'

export type Wished = Omit<Job, 'sourceBytes'>

export interface Child {
  ask(source: Buffer, wished: Wished, timeLimitMs: number): Promise<Outcome>
  end(): void
}

/**
 * Nothing of our environment: a secret that is not there cannot be read. libvips would write what is large to a file
 * in TMPDIR, where the contents of private files lie open: it must stay in memory, and finds no place for it.
 */
const environment = { VIPS_DISC_THRESHOLD: '16g', TMPDIR: '/nonexistent', MALLOC_ARENA_MAX: '2', TZ: 'UTC' }

export function startChild(log: Log, limits: Limits, onGone: (child: Child) => void): Child {
  const forked = fork(join(import.meta.dirname, 'worker.ts'), [JSON.stringify(limits)], {
    execArgv: ['--max-old-space-size=64'],
    env: environment,
    cwd: '/',
    serialization: 'advanced',
    stdio: ['pipe', 'ignore', 'pipe', 'ipc'],
  })
  let hear: (outcome: Outcome) => void = () => {}
  let isGone = false
  let isEnded = false
  let complaint = ''
  const end = () => {
    isEnded = true
    forked.kill('SIGKILL')
  }

  const isUp = new Promise<boolean>(resolve => {
    const timer = setTimeout(() => forked.kill('SIGKILL'), startMs)
    const known = (answer: boolean) => {
      clearTimeout(timer)
      resolve(answer)
    }
    forked.once('message', () => known(true))
    forked.once('close', () => known(false))
    forked.once('error', () => known(false))
  })
  const leave = (how: string) => {
    if (isGone) return
    isGone = true
    if (!isEnded) log.warn({ how, complaint }, 'the process that renders images ended')
    hear('gone')
    onGone(child)
  }
  forked.on('message', message => hear(message as Answer))
  forked.on('close', (code, signal) => leave(signal ?? `code ${code}`))
  forked.on('error', error => leave(error.message))
  forked.stderr?.on('data', (chunk: Buffer) => {
    complaint = (complaint + chunk.toString()).slice(-maxComplaint)
  })
  // The platform may end while it waits for work; it ends with the platform.
  forked.unref()
  forked.channel?.unref()
  for (const pipe of [forked.stdin, forked.stderr]) {
    pipe?.on('error', () => {}) // it has ended, which is heard above
    ;(pipe as Socket | null)?.unref()
  }

  const child: Child = {
    end,
    async ask(source, wished, timeLimitMs) {
      if (!(await isUp)) return 'unable'
      if (isGone) return 'gone'
      const outcome = await new Promise<Outcome>(resolve => {
        const timer = setTimeout(() => hear('too late'), timeLimitMs)
        hear = outcome => {
          clearTimeout(timer)
          hear = () => {}
          resolve(outcome)
        }
        forked.send({ ...wished, sourceBytes: source.length }, error => error && hear('gone'))
        forked.stdin?.write(source)
      })
      if (typeof outcome === 'string' || outcome.isSpent) end()
      return outcome
    },
  }
  return child
}
