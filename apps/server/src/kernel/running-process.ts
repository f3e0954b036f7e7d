// Whether the process that a lock or pid file names still runs. The id alone does not prove it: a zombie keeps the
// id until its parent waits for it, which in a container may be never, and ids are reused.
import { readFileSync } from 'node:fs'

export interface ProcessMark {
  pid: number
  /** From `startTimeOf` when the mark was made. Undefined on systems without /proc. */
  startTime?: string | undefined
}

/** False for a zombie, and for another process that has the same pid now. */
export function isRunning({ pid, startTime }: ProcessMark): boolean {
  const stat = statOf(pid)
  // Without /proc, or with other users' processes hidden in it, only the pid can be checked.
  if (!stat) return isPidTaken(pid)
  if (stat.state === 'Z' || stat.state === 'X') return false
  return startTime === undefined || stat.startTime === startTime
}

/** In clock ticks since boot; undefined where /proc does not show the process. */
export const startTimeOf = (pid: number): string | undefined => statOf(pid)?.startTime

/** `kill(pid, 0)`, which Postgres uses too: true for zombies and for other users' processes. */
export function isPidTaken(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function statOf(pid: number): { state: string; startTime: string | undefined } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The program's name may contain spaces and brackets, so fields are counted after its closing bracket.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0]!, startTime: fields[19] }
  } catch {
    return undefined
  }
}
