// Starts and controls the process of the subscribers' sockets.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { cpuMicros } from './measure.ts'
import type { Commands, Results } from './realtime-readers.ts'

export interface Readers {
  pid: number
  /** Deliveries counted so far, a few milliseconds old. */
  frames(): number
  /** Waits for this number of deliveries since the start. False if they do not arrive within the given time. */
  reached(frames: number, withinMs: number): Promise<boolean>
  call<Name extends keyof Commands>(name: Name, input: Commands[Name]): Promise<Results[Name]>
  end(): Promise<void>
}

type Message = { frames: number } | { id: number; result?: unknown; error?: string }

export function startReaders(): Readers {
  const script = fileURLToPath(new URL('realtime-readers.ts', import.meta.url))
  const child = fork(script, { serialization: 'advanced', execArgv: [] })
  const pendingCalls = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>()
  const waiters = new Set<() => void>()
  let frames = 0
  let last = 0
  child.on('message', (message: Message) => {
    if ('frames' in message) {
      frames = message.frames
      for (const check of waiters) check()
      return
    }
    const { resolve, reject } = pendingCalls.get(message.id)!
    pendingCalls.delete(message.id)
    if (message.error === undefined) resolve(message.result)
    else reject(new Error(message.error))
  })
  child.once('exit', code => {
    for (const { reject } of pendingCalls.values()) reject(new Error(`the readers ended with ${code}`))
  })
  return {
    pid: child.pid!,
    frames: () => frames,
    reached(wanted, withinMs) {
      if (frames >= wanted) return Promise.resolve(true)
      const { promise, resolve } = Promise.withResolvers<boolean>()
      const settle = (isReached: boolean) => {
        waiters.delete(check)
        clearTimeout(timeout)
        resolve(isReached)
      }
      const check = () => void (frames >= wanted && settle(true))
      const timeout = setTimeout(settle, withinMs, false)
      waiters.add(check)
      return promise
    },
    call: (name, input) =>
      new Promise((resolve, reject) => {
        const id = ++last
        pendingCalls.set(id, { resolve: resolve as (result: unknown) => void, reject })
        child.send({ id, name, input })
      }),
    async end() {
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}

/** CPU of the load generator: the process with the sockets, and this process, which writes. */
export const loadCpuMicros = ({ pid }: Readers): number => cpuMicros(pid) + cpuMicros(process.pid)
