import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OsUser } from './os-user.ts'
import { hasSessions } from './sessions.ts'

export interface Command {
  binary: string
  args: string[]
  user?: OsUser
  /** Must be open to the user: the directory we were started in may not be. */
  cwd: string
  stdio: StdioOptions
  /** In a session of its own, so that Ctrl-C in our terminal does not reach it. */
  detached?: boolean
}

export interface Started {
  child: ChildProcess
  /** Says how it ended: `code 1`, `signal SIGKILL`. */
  exited: Promise<string>
}

/** Resolves once it runs. A binary that cannot be run is a rejection, never an `error` event nobody hears. */
export async function startProcess(command: Command): Promise<Started> {
  const { binary, args, user, cwd, stdio, detached = false } = command
  try {
    const child = spawn(binary, args, {
      ...(user && { uid: user.uid, gid: user.gid }),
      cwd,
      stdio,
      detached,
      env: { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
    })
    const exited = new Promise<string>(resolve => {
      child.once('exit', (code, signal) => resolve(signal ? `signal ${signal}` : `code ${code}`))
    })
    const spawned = once(child, 'spawn')
    child.on('error', () => {})
    await spawned
    return { child, exited }
  } catch (cause) {
    const as = user ? ` as ${user.name}` : ''
    throw new Error(`cannot run ${binary}${as}: ${(cause as Error).message}`, { cause })
  }
}

export function hasExited({ child }: Started): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

/** How long sessions may take to end in a fast shutdown: they do so at once, unless they cannot be interrupted. */
const sessionsMs = 3000

/**
 * SIGINT is Postgres's fast shutdown, SIGQUIT its immediate one, which ends also a session that cannot be interrupted:
 * the next start recovers from the log. A fast shutdown whose sessions have ended writes a checkpoint and is waited for
 * longer. SIGKILL only serves a postmaster that no longer reacts at all. Polls with timers that keep Node alive: the
 * child itself does not.
 */
export async function endPostgres(
  postmaster: number,
  signal: (name: NodeJS.Signals) => void,
  isGone: () => boolean,
  graceMs: number,
): Promise<void> {
  for (const name of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    if (isGone()) return
    signal(name)
    const since = performance.now()
    let hasWaited = name !== 'SIGINT'
    while (!isGone() && performance.now() - since < graceMs) {
      if (!hasWaited && performance.now() - since > sessionsMs) {
        hasWaited = true
        if (hasSessions(postmaster)) break
      }
      await sleep(10)
    }
  }
  if (!isGone()) throw new Error('Postgres does not end, not even when killed: see what its disk is doing')
}
