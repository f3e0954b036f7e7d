// Many files at once: some side by side, one line of progress, and one that fails does not hold up the others.
import type { Context } from '../context.ts'
import { explain } from '../explain.ts'
import { Failure } from '../failure.ts'
import { throwIfInterrupted } from '../interruption.ts'
import { clean } from '../print.ts'
import { lastPart } from './address.ts'
import { isPassing } from './patience.ts'
import { openProgress } from './progress.ts'
import { Refused, type Wire } from './wire.ts'

export interface Transfer {
  /** As the user would write them. */
  from: string
  to: string
  /** As far as known before. */
  bytes: number
  contentType: string | null
  /** Answers with the bytes there were. */
  run(moved: (position: number) => void): Promise<number>
}

export interface Carried {
  from: string
  to: string
  bytes: number
  content_type: string | null
}

export async function carryAll(
  context: Context,
  wire: Wire,
  transfers: readonly Transfer[],
  jobs: number,
): Promise<Carried[]> {
  const whole = {
    label: lastPart(transfers[0]?.from ?? ''),
    files: transfers.length,
    bytes: transfers.reduce((sum, { bytes }) => sum + bytes, 0),
  }
  const progress = openProgress(whole)
  const carried: (Carried | undefined)[] = []
  const failures: Failure[] = []
  const waiting = transfers.entries()
  const work = async () => {
    for (const [place, transfer] of waiting) {
      throwIfInterrupted(wire.signal)
      const file = progress.file()
      try {
        const bytes = await transfer.run(position => file.at(position))
        file.at(bytes)
        file.done()
        const { from, to, contentType } = transfer
        carried[place] = { from, to, bytes, content_type: contentType }
      } catch (error) {
        throwIfInterrupted(wire.signal)
        if (transfers.length === 1 || concernsAll(error)) throw error
        const failure = explain(error, context)
        failures.push(failure)
        progress.aside(() =>
          context.screen.warn(clean(`${transfer.from} was not copied: ${failure.message}`)),
        )
      }
    }
  }
  try {
    const ended = await Promise.allSettled(Array.from({ length: Math.min(jobs, transfers.length) }, work))
    for (const each of ended) if (each.status === 'rejected') throw each.reason
  } finally {
    progress.end()
  }
  if (failures.length > 0) throw incomplete(failures, transfers.length)
  return carried.filter(each => each !== undefined)
}

/** With no connection, no permission or no disk the other files would fare no better. */
const concernsAll = (error: unknown): boolean =>
  isPassing(error) ||
  (error instanceof Refused ? [401, 403, 507].includes(error.status) : !(error instanceof Failure))

function incomplete(failures: readonly Failure[], total: number): Failure {
  const [first] = failures
  return new Failure(
    'transfer_incomplete',
    `Of ${total} files ${failures.length} could not be copied, the first because: ${first!.message}`,
    first!.suggestion ?? 'Run it again when that is mended: files that are there are replaced.',
    first,
  )
}
