// A process that an earlier run of the platform left behind when it was killed.
import type { Stoppable } from './process.ts'

/**
 * Returns the process with this id, if it is the one that was left behind. The system reuses ids, so `isOurs` must
 * recognise the process by more than its id. It is checked again before each signal, so that a process that got the id
 * meanwhile receives none.
 */
export function adoptProcess(pid: number, isOurs: (pid: number) => boolean): Stoppable | undefined {
  if (!isOurs(pid)) return
  return {
    pid,
    hasExited: () => !isOurs(pid),
    signal(name) {
      if (!isOurs(pid)) return
      try {
        process.kill(pid, name)
      } catch {
        // It ended in between.
      }
    },
  }
}
