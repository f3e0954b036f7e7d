// The handle of the process that holds the subscribers' sockets.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { cpuMicros } from './measure.ts'
import type { Answers, Orders } from './realtime-readers.ts'

export interface Readers {
  pid: number
  /** Deliveries counted so far, a few milliseconds old. */
  frames(): number
  /** Until so many have come since the start. False when they do not within the given time. */
  reached(frames: number, withinMs: number): Promise<boolean>
  tell<Name extends keyof Orders>(name: Name, order: Orders[Name]): Promise<Answers[Name]>
  end(): Promise<void>
}

type Told = { frames: number } | { id: number; answer?: unknown; error?: string }

export function startReaders(): Readers {
  const script = fileURLToPath(new URL('realtime-readers.ts', import.meta.url))
  const child = fork(script, { serialization: 'advanced', execArgv: [] })
  const asked = new Map<number, { resolve(answer: unknown): void; reject(error: Error): void }>()
  const waiting = new Set<() => void>()
  let frames = 0
  let last = 0
  child.on('message', (told: Told) => {
    if ('frames' in told) {
      frames = told.frames
      for (const look of waiting) look()
      return
    }
    const { resolve, reject } = asked.get(told.id)!
    asked.delete(told.id)
    if (told.error === undefined) resolve(told.answer)
    else reject(new Error(told.error))
  })
  child.once('exit', code => {
    for (const { reject } of asked.values()) reject(new Error(`the readers ended with ${code}`))
  })
  return {
    pid: child.pid!,
    frames: () => frames,
    reached(wanted, withinMs) {
      if (frames >= wanted) return Promise.resolve(true)
      const { promise, resolve } = Promise.withResolvers<boolean>()
      const settle = (isReached: boolean) => {
        waiting.delete(look)
        clearTimeout(late)
        resolve(isReached)
      }
      const look = () => void (frames >= wanted && settle(true))
      const late = setTimeout(settle, withinMs, false)
      waiting.add(look)
      return promise
    },
    tell: (name, order) =>
      new Promise((resolve, reject) => {
        const id = ++last
        asked.set(id, { resolve: resolve as (answer: unknown) => void, reject })
        child.send({ id, name, order })
      }),
    async end() {
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}

/** Of the load generator: the process with the sockets, and this one, which writes. */
export const loadCpuMicros = ({ pid }: Readers): number => cpuMicros(pid) + cpuMicros(process.pid)
