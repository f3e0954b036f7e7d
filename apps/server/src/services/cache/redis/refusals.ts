// Translates Redis errors for clients.
import { Refusal } from '#src/kernel/errors.ts'
import { RedisError, RedisUnreachable } from '#src/kernel/redis/redis-error.ts'
import { notAnInteger, overflow } from '../integer.ts'

/** Redis error codes that are temporary or need the operator. */
const passing = new Set(
  'LOADING BUSY READONLY MISCONF MASTERDOWN CLUSTERDOWN NOREPLICAS TRYAGAIN NOPERM NOAUTH WRONGPASS'.split(
    ' ',
  ),
)

/** Other errors are returned unchanged. */
export function refusalFrom(error: unknown): unknown {
  if (error instanceof RedisUnreachable)
    return unavailable('The cache cannot be reached right now; try again shortly', error)
  if (!(error instanceof RedisError)) return error
  const { code, reply } = error
  if (code === 'WRONGTYPE')
    return new Refusal('wrong_type', 'This key holds a value of another type', {
      hint: 'The value can be read by GET /api/v1/projects/{id}/cache/keys/{key}.',
    })
  if (/not an integer or out of range/.test(reply)) return notAnInteger()
  if (/would overflow/.test(reply)) return overflow()
  if (/invalid cursor/.test(reply)) return new Refusal('invalid_request', 'The cursor is not one of a scan')
  if (code === 'OOM')
    return unavailable('The cache has no memory left; delete keys, or let more of them expire', error)
  return passing.has(code)
    ? unavailable('The cache cannot do this right now; try again shortly', error)
    : error
}

export const unavailable = (message: string, cause?: unknown) =>
  new Refusal('cache_unavailable', message, { headers: { 'retry-after': '1' }, cause })
