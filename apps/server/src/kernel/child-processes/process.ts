// Starts a program as a child of this process.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'

export interface OsUser {
  name: string
  uid: number
  gid: number
}

export interface Command {
  binary: string
  args: readonly string[]
  /** The whole environment. The child inherits no variable of this process. */
  env: Record<string, string>
  /** Must be accessible to the user, which the working directory of this process may not be. */
  cwd: string
  stdio: SpawnOptions['stdio']
  user?: OsUser | undefined
  /** In a session of its own, so that Ctrl-C in our terminal does not reach it. */
  detached?: boolean
  /** Neither the child nor its pipes keep Node running. */
  inBackground?: boolean
  /** How messages are encoded, when `stdio` has an `ipc` channel. */
  serialization?: 'json' | 'advanced'
}

/** A process that can be stopped: a child, or one that an earlier run has left. */
export interface Stoppable {
  readonly pid: number
  hasExited(): boolean
  signal(name: NodeJS.Signals): void
}

export interface Child extends Stoppable {
  readonly process: ChildProcess
  /** Says how it ended: `code 1`, `signal SIGKILL`. */
  readonly exited: Promise<string>
  /** The same, but resolved only after everything it wrote to pipes and the IPC channel was received. */
  readonly closed: Promise<string>
}

/** The system could not run the binary. */
export class NotStarted extends Error {
  constructor({ binary, user }: Command, cause: Error) {
    const as = user ? ` as ${user.name}` : ''
    super(`cannot run ${binary}${as}: ${cause.message}`, { cause })
  }
}

/** Resolves once it runs. A binary that cannot be run is a rejection, never an unhandled `error` event. */
export async function startProcess(command: Command): Promise<Child> {
  const { binary, args, user, inBackground, cwd, stdio, env, detached = false, serialization } = command
  try {
    const child = spawn(binary, args, {
      ...(user && { uid: user.uid, gid: user.gid }),
      ...(serialization && { serialization }),
      cwd,
      stdio,
      detached,
      env,
    })
    const ended = (event: 'exit' | 'close') =>
      new Promise<string>(resolve => {
        child.once(event, (code, signal) => resolve(signal ? `signal ${signal}` : `code ${code}`))
      })
    const [exited, closed] = [ended('exit'), ended('close')]
    const spawned = once(child, 'spawn')
    child.on('error', () => {})
    const pipes = child.stdio as readonly (Socket | null | undefined)[]
    for (const pipe of pipes) pipe?.on('error', () => {}) // the child has ended, which `exited` reports
    if (inBackground) {
      child.unref()
      child.channel?.unref()
      for (const pipe of pipes) pipe?.unref()
    }
    await spawned
    return {
      process: child,
      pid: child.pid!,
      exited,
      closed,
      hasExited: () => child.exitCode !== null || child.signalCode !== null,
      signal: name => void child.kill(name),
    }
  } catch (cause) {
    throw new NotStarted(command, cause as Error)
  }
}
