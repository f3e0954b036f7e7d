// Whether the process that a lock or pid file names still runs. Its number alone does not say so: a zombie keeps the
// number until its parent waits for it, which in a container may be never, and the number may be reused.
import { readFileSync } from 'node:fs'

export interface ProcessMark {
  pid: number
  /** From `startTimeOf` when the mark was made; absent where the system does not say. */
  startTime?: string | undefined
}

/** False for a zombie and for another process that has the same number now. */
export function isRunning({ pid, startTime }: ProcessMark): boolean {
  const stat = statOf(pid)
  // Without /proc, or with another user's processes hidden in it, only the number can be asked about.
  if (!stat) return isNumberTaken(pid)
  if (stat.state === 'Z' || stat.state === 'X') return false
  return startTime === undefined || stat.startTime === startTime
}

/** In clock ticks since boot; undefined where /proc does not show the process. */
export const startTimeOf = (pid: number): string | undefined => statOf(pid)?.startTime

/** What `kill(pid, 0)` says, as Postgres asks it: true for zombies and for another user's process. */
export function isNumberTaken(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function statOf(pid: number): { state: string; startTime: string | undefined } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // Fields are counted after the program's name, which may hold spaces and brackets itself.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0]!, startTime: fields[19] }
  } catch {
    return undefined
  }
}
