// Waits for a backup, a verification, a restore or a branch, and shows its progress on a terminal.
import { setTimeout as sleep } from 'node:timers/promises'
import type { BackupProgress } from '@plinth/contract/backups.ts'
import type { Context } from '../context.ts'
import { Interrupted } from '../failure.ts'
import { bytes, clean } from '../print.ts'
import { elapsed } from '../storage/progress.ts'
import { isTemporary, retryDelayMs } from '../temporary-failure.ts'

/** The platform stores progress every two seconds. */
const pollMs = 500

interface Task {
  /** Null if nothing is being done any more. */
  progress: BackupProgress | null
}

/** Polls until the task has ended. Returns its end and the seconds it took, also if the platform restarts meanwhile. */
export async function waitFor<T extends Task>(
  context: Pick<Context, 'interruption' | 'screen' | 'stderr'>,
  label: string,
  read: () => Promise<T>,
  /** Where the progress is shown after an interruption. */
  whereToLook = 'plinth backup list and plinth backup restores show how.',
): Promise<{ ended: T; seconds: number }> {
  const signal = context.interruption()
  const startedAt = performance.now()
  const seconds = () => (performance.now() - startedAt) / 1000
  const line = openLine(context)
  let failures = 0
  try {
    for (;;) {
      let pauseMs = pollMs
      try {
        const task = await read()
        if (task.progress === null) return { ended: task, seconds: seconds() }
        line.draw(progressText(label, task.progress, seconds()))
        failures = 0
      } catch (error) {
        if (!isTemporary(error)) throw error
        line.clear()
        if (failures === 0)
          context.screen.warn('The platform cannot be reached. Trying again until it responds.')
        pauseMs = retryDelayMs(++failures)
      }
      await sleep(pauseMs, undefined, { signal }).catch(() => {})
      if (signal.aborted) {
        line.clear()
        context.screen.hint(`The platform continues. ${whereToLook}`)
        throw new Interrupted()
      }
    }
  } finally {
    line.clear()
  }
}

/** Shows on a terminal how long a request takes that reports no progress. Returns its answer and the seconds it took. */
export async function whileShown<T>(
  context: Pick<Context, 'stderr'>,
  label: string,
  request: () => Promise<T>,
): Promise<{ result: T; seconds: number }> {
  const startedAt = performance.now()
  const seconds = () => (performance.now() - startedAt) / 1000
  const line = openLine(context)
  const draw = () => line.draw(`${label}  ${elapsed(seconds())}`)
  const redrawing = setInterval(draw, pollMs)
  try {
    draw()
    return { result: await request(), seconds: seconds() }
  } finally {
    clearInterval(redrawing)
    line.clear()
  }
}

export const progressText = (label: string, { step, bytes: done }: BackupProgress, seconds: number): string =>
  `${label}: ${clean(step)}${done > 0 ? `  ${bytes(done)}` : ''}  ${elapsed(seconds)}`

/** One line on stderr that is drawn again and again, only in a terminal. */
export function openLine({ stderr }: Pick<Context, 'stderr'>) {
  let isDrawn = false
  return {
    draw(text: string): void {
      if (!stderr.isTTY) return
      isDrawn = true
      stderr.write(`\r${text.slice(0, (stderr.columns || 80) - 1)}\x1b[K`)
    },
    clear(): void {
      if (isDrawn) stderr.write('\r\x1b[K')
      isDrawn = false
    },
  }
}
