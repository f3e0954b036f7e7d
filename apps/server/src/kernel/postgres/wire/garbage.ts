// Large answers lie outside the JavaScript heap, where the collector hardly notices them: once the last has been sent
// nothing makes it look again, and a process with nothing to do would keep their memory for good.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const quietUtilization = 0.05
const negligibleBytes = 16 * 1024 * 1024
const looks = 6

/**
 * To be called after each large answer: collects when the process is quiet. A busy one collects by itself, and its
 * callers should not have to wait while we do.
 */
export function quietCollector(firstLookMs = 2000): () => void {
  let timer: NodeJS.Timeout | undefined
  let waitMs: number
  let collect: (() => void) | undefined

  function wait(): void {
    const before = performance.eventLoopUtilization()
    timer = setTimeout(() => {
      timer = undefined
      const { utilization } = performance.eventLoopUtilization(before)
      if (utilization > quietUtilization) return wait()
      collect ??= collector()
      collect()
      // What is left may be on its way to somebody who reads slowly.
      waitMs *= 2
      const isDone = process.memoryUsage().external < negligibleBytes
      if (!isDone && waitMs < firstLookMs * 2 ** looks) wait()
    }, waitMs).unref()
  }

  return () => {
    waitMs = firstLookMs
    if (!timer) wait()
  }
}

/** Node has no function for it without this flag, and contexts made before it was set do not get one. */
function collector(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}
