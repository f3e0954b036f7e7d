// Which errors mean that the server, or the connection to it, is not there right now.
import { Refusal } from '#src/kernel/errors.ts'
import { ConnectionLost } from './wire/database-error.ts'

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
const lostTexts =
  /^(Connection terminated|Client (was closed|has encountered)|timeout exceeded when trying to connect|the database )/

export function isUnavailable(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true
  if (!(error instanceof Error)) return false
  const { code, severity } = error as { code?: unknown; severity?: unknown }
  // A statement may raise any code; the end of a connection is never a mere error.
  if (severity === 'ERROR') return false
  if (typeof code === 'string')
    return networkCodes.has(code) || code.startsWith('08') || /^57P0[1-4]$/.test(code) || code === '53300'
  return lostTexts.test(error.message)
}

export const unavailable = (cause?: unknown) =>
  new Refusal('database_unavailable', 'The database cannot be reached right now; try again shortly', {
    headers: { 'retry-after': '1' },
    cause,
  })
