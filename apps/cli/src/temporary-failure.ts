// Failures after which a command that runs until Ctrl-C tries again.
import { ReplyError } from '@plinth/contract/client.ts'

/** Seconds before each attempt after a failed request; the last one repeats. */
const retrySeconds = [1, 2, 5, 10]

/** How long to wait after the given number of failures in a row. */
export const retryDelayMs = (failures: number): number =>
  retrySeconds[Math.min(failures, retrySeconds.length) - 1]! * 1000

/** `fetch` rejects with `terminated` if the connection is cut within a body. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof ReplyError) return error.status >= 500 || error.status === 429
  if (error instanceof Error && error.name === 'TimeoutError') return true
  return error instanceof TypeError && (error.message === 'fetch failed' || error.message === 'terminated')
}
