// Starts a child and waits until it can be used.
import { type Child, type Command, startProcess } from './process.ts'
import { type StopStep, stopProcess } from './stop.ts'

export interface Launch {
  /** For messages: `Postgres`. */
  name: string
  command: Command
  /**
   * Resolves once the child can be used; a rejection stops the child. The signal aborts when the child has ended or is
   * being stopped.
   */
  handshake(child: Child, signal: AbortSignal): Promise<void>
  /** The deadline of the handshake. Without one it may take as long as the child runs. */
  handshakeMs?: number
  /** How the child is stopped, by its process id. */
  stopSteps(pid: number): readonly StopStep[]
  /** Once aborted, a launch under way stops the child and rejects with the reason. */
  signal?: AbortSignal | undefined
}

export interface LaunchedChild extends Child {
  stop(): Promise<void>
}

/** The child ended before its handshake was complete. */
export class EarlyExit extends Error {
  /** `code 1`, `signal SIGKILL` */
  readonly how: string
  constructor(name: string, how: string) {
    super(`${name} ended with ${how} while starting`)
    this.how = how
  }
}

export async function launch(options: Launch): Promise<LaunchedChild> {
  const { name, command, signal } = options
  signal?.throwIfAborted()
  const child = await startProcess(command)
  const stop = () => stopProcess(child, options.stopSteps(child.pid), name)
  try {
    await handshake(options, child)
    return { ...child, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function handshake({ name, signal, handshakeMs, ...options }: Launch, child: Child): Promise<void> {
  const over = new AbortController()
  const { promise: failed, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal!.reason)
  signal?.addEventListener('abort', onAbort)
  if (signal?.aborted) onAbort()
  const timer =
    handshakeMs === undefined
      ? undefined
      : setTimeout(() => reject(new Error(`${name} was not ready within ${handshakeMs} ms`)), handshakeMs)
  void child.exited.then(how => reject(new EarlyExit(name, how)))
  const ready = options.handshake(child, over.signal)
  // The promise that loses the race must not become an unhandled rejection.
  ready.catch(() => {})
  failed.catch(() => {})
  try {
    await Promise.race([ready, failed])
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
    over.abort()
  }
}
