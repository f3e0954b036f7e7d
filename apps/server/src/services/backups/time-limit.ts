// How long a verification, restore or undo may take. A tenant's own functions run meanwhile, and may never end.

/** What is known of the backup. Most of its files may have been copied by earlier ones, so its duration says little of them. */
export interface Effort {
  /** How long it took to make. */
  ms: number
  bytes: number
  files: number
}

const leastMs = 15 * 60_000
const times = 50
const slowestBytesPerMs = 1000
const msPerFile = 500
/** That of a timer. */
const mostMs = 2 ** 31 - 1

/** The clock of the server may have been set back during the backup. */
export const longestMs = ({ ms, bytes, files }: Effort): number =>
  Math.min(
    mostMs,
    Math.round(leastMs + times * Math.max(0, ms) + bytes / slowestBytesPerMs + files * msPerFile),
  )
