// A task writes until it ends, which no check of a request notices. If the disk fills up, Postgres stops for all projects.
import { startChore } from '#src/kernel/chores.ts'
import type { SpaceCheck } from './space-check.ts'

const lookMs = 500

/** Runs the work, and aborts it while free disk space is below the reserve. Then it throws the refusal. */
export async function whileDiskHasSpace<T>(
  { refusal }: SpaceCheck,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const full = new AbortController()
  const look = () => {
    const found = refusal('disk')
    if (found) full.abort(found)
  }
  look()
  full.signal.throwIfAborted()
  const looking = startChore({ name: 'notice a full disk', everyMs: lookMs, run: look })
  try {
    return await work(AbortSignal.any([signal, full.signal]))
  } catch (error) {
    throw full.signal.aborted ? full.signal.reason : error
  } finally {
    await looking.stop()
  }
}
