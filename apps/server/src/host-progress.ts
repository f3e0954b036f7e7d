// The progress of a command on the host: with --progress it writes JSON lines to stdout before its result. `plinth` draws them.
import type { BackupProgress } from '@plinth/contract/backups.ts'
import type { Watching } from '#src/archive/write-database.ts'

export interface HostProgress {
  /** Adds bytes to a step, or begins it. */
  add: Watching['progress']
  /** Replaces what was shown. */
  show(progress: BackupProgress): void
}

/** Between two lines of one step. A step that begins is always written. */
const writeMs = 200

export function openHostProgress(
  isWanted: boolean,
  write: (line: string) => void = line => void process.stdout.write(line),
): HostProgress {
  let now: BackupProgress | undefined
  let writtenAt = 0
  function show(next: BackupProgress): void {
    const isNew = now?.step !== next.step
    const isDue = now?.bytes !== next.bytes && performance.now() - writtenAt >= writeMs
    now = next
    if (!isWanted || !(isNew || isDue)) return
    writtenAt = performance.now()
    write(`${JSON.stringify({ progress: next })}\n`)
  }
  return {
    show,
    add: (step, bytes) => show({ step, bytes: (now?.step === step ? now.bytes : 0) + bytes }),
  }
}
