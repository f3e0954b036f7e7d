// Runs a command of the server on the host, and shows its progress on a terminal.
import type { BackupProgress } from '@plinth/contract/backups.ts'
import type { Context } from '../context.ts'
import { type Finished, runServer } from '../server-process.ts'
import { openLine, progressText } from './wait.ts'

const redrawMs = 500

/** Returns its end and the seconds it took. */
export async function runOnHost(
  context: Context,
  label: string,
  args: string[],
): Promise<Finished & { seconds: number }> {
  const startedAt = performance.now()
  const seconds = () => (performance.now() - startedAt) / 1000
  const line = openLine(context)
  let progress: BackupProgress = { step: 'starting', bytes: 0 }
  const draw = () => line.draw(progressText(label, progress, seconds()))
  const redrawing = setInterval(draw, redrawMs)
  try {
    draw()
    const withProgress = context.stderr.isTTY ? [...args, '--progress'] : args
    const finished = await runServer(context, withProgress, '', text => {
      progress = progressIn(text) ?? progress
      draw()
    })
    return { ...finished, seconds: seconds() }
  } finally {
    clearInterval(redrawing)
    line.clear()
  }
}

/** Undefined for other lines, of which the last one is the result. */
function progressIn(line: string): BackupProgress | undefined {
  if (!line.startsWith('{"progress":')) return
  return (JSON.parse(line) as { progress: BackupProgress }).progress
}

/** The result is the last line of stdout. */
export const resultIn = <T>({ stdout }: Finished): T =>
  JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as T

/** In JSON. */
export const rounded = (seconds: number): number => Math.round(seconds * 1000) / 1000
