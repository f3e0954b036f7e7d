// Transfers many files, several at a time, with one line of progress. A file that fails does not stop the others.
import type { Context } from '../context.ts'
import { explain } from '../explain.ts'
import { Failure, throwIfInterrupted } from '../failure.ts'
import { clean } from '../print.ts'
import { lastPart } from './address.ts'
import { Refused, type StorageClient } from './client.ts'
import { openProgress } from './progress.ts'
import { isTransient } from './retry.ts'

export interface Transfer {
  /** As the user writes it. */
  from: string
  to: string
  /** The size when the transfer was planned. */
  bytes: number
  contentType: string | null
  /** Returns the number of bytes transferred. */
  run(onProgress: (position: number) => void): Promise<number>
}

export interface Transferred {
  from: string
  to: string
  bytes: number
  content_type: string | null
}

export async function runTransfers(
  context: Context,
  client: StorageClient,
  transfers: readonly Transfer[],
  jobs: number,
): Promise<Transferred[]> {
  const whole = {
    label: lastPart(transfers[0]?.from ?? ''),
    files: transfers.length,
    bytes: transfers.reduce((sum, { bytes }) => sum + bytes, 0),
  }
  const progress = openProgress(whole, context.stderr)
  const transferred: (Transferred | undefined)[] = []
  const failures: Failure[] = []
  const waiting = transfers.entries()
  const work = async () => {
    for (const [place, transfer] of waiting) {
      throwIfInterrupted(client.signal)
      const file = progress.file()
      try {
        const bytes = await transfer.run(position => file.at(position))
        file.at(bytes)
        file.done()
        const { from, to, contentType } = transfer
        transferred[place] = { from, to, bytes, content_type: contentType }
      } catch (error) {
        throwIfInterrupted(client.signal)
        if (transfers.length === 1 || affectsAll(error)) throw error
        const failure = explain(error, context)
        failures.push(failure)
        progress.interrupt(() =>
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
  return transferred.filter(each => each !== undefined)
}

/** Without a connection, a permission or disk space the other files would fail as well. */
const affectsAll = (error: unknown): boolean =>
  isTransient(error) ||
  (error instanceof Refused ? [401, 403, 507].includes(error.status) : !(error instanceof Failure))

function incomplete(failures: readonly Failure[], total: number): Failure {
  const [first] = failures
  return new Failure(
    'transfer_incomplete',
    `${failures.length} of ${total} files could not be copied. First error: ${first!.message}`,
    first!.suggestion ?? 'Run it again when that is fixed. Existing files are replaced.',
    first,
  )
}
