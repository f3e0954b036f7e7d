// Checks the workers of this node several times a second, as long as there are any.
import { type RunningChore, startChore } from '#src/kernel/chores.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Worker } from './worker.ts'

const checkMs = 200
/** The disk is checked each time the others were checked so often. */
const disksEvery = 10
export const pollMs = 20

export function watchWorkers(
  workers: () => readonly Worker[],
  log: Log,
  afterwards: (now: number) => void = () => {},
): RunningChore {
  let checks = 0
  return startChore(
    {
      name: 'check the workers of functions',
      everyMs: checkMs,
      async run() {
        const now = performance.now()
        const all = workers()
        if (all.length === 0) return 'idle'
        checks++
        await Promise.all(all.map(worker => worker.check(now)))
        if (checks % disksEvery === 0) for (const worker of all) await worker.checkDisk()
        afterwards(now)
        return
      },
    },
    log,
  )
}

/** Waits until a worker has neither calls nor background work. */
export async function whenCalm(worker: Worker, withinMs: number, isOver = () => false): Promise<void> {
  const endAt = performance.now() + withinMs
  while (worker.isBusy && !worker.hasEnded && performance.now() < endAt && !isOver()) await pause(pollMs)
}

export const pause = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))
