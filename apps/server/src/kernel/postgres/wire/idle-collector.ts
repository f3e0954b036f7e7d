// Large answers are outside the JavaScript heap, so they hardly make V8 collect garbage. Without this, a process that
// becomes idle after a large answer keeps its memory.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const idleUtilization = 0.05
const negligibleBytes = 16 * 1024 * 1024
const maxDoublings = 6

/**
 * Returns a function to call after each large answer. It collects garbage once the process is idle. In a busy process V8
 * collects by itself, and an additional collection would delay requests.
 */
export function idleCollector(firstCheckMs = 2000): () => void {
  let timer: NodeJS.Timeout | undefined
  let waitMs: number
  let collect: (() => void) | undefined

  function wait(): void {
    const before = performance.eventLoopUtilization()
    timer = setTimeout(() => {
      timer = undefined
      const { utilization } = performance.eventLoopUtilization(before)
      if (utilization > idleUtilization) return wait()
      collect ??= garbageCollector()
      collect()
      // Answers to slow clients may still be referenced, so check again later.
      waitMs *= 2
      const isDone = process.memoryUsage().external < negligibleBytes
      if (!isDone && waitMs < firstCheckMs * 2 ** maxDoublings) wait()
    }, waitMs).unref()
  }

  return () => {
    waitMs = firstCheckMs
    if (!timer) wait()
  }
}

/** `gc` exists only with this flag, and only in contexts that are created after it is set. */
function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}
