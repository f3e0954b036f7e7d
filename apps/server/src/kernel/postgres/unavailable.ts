// Recognises errors which mean that the database server cannot be reached or the connection was lost.
import { Refusal } from '#src/kernel/errors.ts'
import { ConnectionLost, DatabaseError } from './database-error.ts'
import { isDriverConnectionLoss } from './driver-internals.ts'

const networkCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])
/** Errors of our own client while it opens a connection begin with this. */
const ownTexts = /^the database /

export function isUnavailable(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true
  if (!(error instanceof Error)) return false
  if (error instanceof DatabaseError) {
    const { code, severity } = error
    // A statement may raise any code with the severity ERROR. An error that ends the connection has a higher severity.
    return severity !== 'ERROR' && (/^(08...|57P0[1-4])$/.test(code) || code === '53300')
  }
  const { code } = error as NodeJS.ErrnoException
  if (typeof code === 'string') return networkCodes.has(code)
  return isDriverConnectionLoss(error) || ownTexts.test(error.message)
}

export const unavailable = (cause?: unknown) =>
  new Refusal('database_unavailable', 'The database cannot be reached right now; try again shortly', {
    headers: { 'retry-after': '1' },
    cause,
  })

/** A file is missing, not the socket of Postgres. */
const isFileMissing = (error: unknown) =>
  error instanceof Error && 'syscall' in error && error.syscall !== 'connect' && 'path' in error

/** Whether long work has failed because Postgres stopped or ended its session. The same may succeed later. */
export const isOutage = (error: unknown): boolean =>
  (isUnavailable(error) && !isFileMissing(error)) ||
  (error instanceof Refusal && error.code === 'database_unavailable')
