// Runs Deno to examine a function or to install its packages, as the user of the project, with limits on time and memory.
// It does not run code of the project.
import type { Readable } from 'node:stream'
import type { OsUser } from '#src/kernel/child-processes/process.ts'
import { startProcess } from '#src/kernel/child-processes/process.ts'
import { stopProcess } from '#src/kernel/child-processes/stop.ts'
import { startChore } from '#src/kernel/chores.ts'

export interface DenoRun {
  program: string
  args: readonly string[]
  directory: string
  user: OsUser | undefined
  env?: Record<string, string>
  timeoutMs: number
  maxOutputBytes: number
  /** Aborts when the platform stops. */
  signal: AbortSignal
  /** Asked every second. Deno is stopped if it has written too much. */
  isTooLarge?(): Promise<boolean>
}

export interface DenoResult {
  isSuccess: boolean
  stdout: string
  stderr: string
}

/** The reason why there is no result. */
export class DenoStopped extends Error {
  readonly reason: 'time' | 'output' | 'disk'
  constructor(reason: DenoStopped['reason']) {
    super(`Deno was stopped because of its ${reason}`)
    this.reason = reason
  }
}

const maxDataKilobytes = 1024 * 1024
/** Of 512 bytes: 200 MB. */
const maxFileBlocks = (200 * 1024 * 1024) / 512
const sizeEveryMs = 1000
/** If the platform is killed, Deno ends too, where the system can do that. */
const script = [
  `ulimit -d ${maxDataKilobytes}`,
  `ulimit -f ${maxFileBlocks}`,
  'ulimit -c 0',
  'command -v setpriv >/dev/null && exec setpriv --pdeathsig KILL "$@"',
  'exec "$@"',
].join('\n')

export async function runDeno(run: DenoRun): Promise<DenoResult> {
  const { program, args, directory, user, env = {}, timeoutMs, maxOutputBytes, signal } = run
  signal.throwIfAborted()
  const child = await startProcess({
    binary: '/bin/sh',
    args: ['-c', script, 'sh', program, ...args],
    env: {
      NO_COLOR: '1',
      DENO_NO_UPDATE_CHECK: '1',
      DENO_DIR: `${directory}/.deno`,
      HOME: directory,
      PATH: '/usr/bin:/bin',
      ...env,
    },
    cwd: directory,
    stdio: ['ignore', 'pipe', 'pipe'],
    user,
  })
  let stopped: DenoStopped | undefined
  const stop = (reason: DenoStopped['reason']) => {
    stopped ??= new DenoStopped(reason)
    void stopProcess(child, [{ signal: 'SIGKILL', withinMs: 5000 }], 'Deno').catch(() => {})
  }
  const timer = setTimeout(() => stop('time'), timeoutMs)
  const sizing = startChore({
    name: 'check the size of a deployment',
    everyMs: sizeEveryMs,
    async run() {
      if (await run.isTooLarge?.()) stop('disk')
    },
  })
  const onAbort = () => stop('time')
  signal.addEventListener('abort', onAbort)
  const [stdout, stderr] = await Promise.all(
    [child.process.stdout, child.process.stderr].map(pipe =>
      textOf(pipe as Readable, maxOutputBytes, () => stop('output')),
    ),
  )
  const how = await child.closed
  clearTimeout(timer)
  await sizing.stop()
  signal.removeEventListener('abort', onAbort)
  if (stopped) throw stopped
  return { isSuccess: how === 'code 0', stdout: stdout!, stderr: stderr! }
}

async function textOf(pipe: Readable, maxBytes: number, onTooLong: () => void): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of pipe as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes <= maxBytes) chunks.push(chunk)
    else onTooLong()
  }
  return Buffer.concat(chunks).toString('utf8')
}
