// Decodes the body of an ErrorResponse.
import { DatabaseError } from '../database-error.ts'

/** Bytes of a field that are decoded, more than sanitizeErrorText keeps. */
const maxField = 512 * 1024

/** The body may be truncated in the middle of its last field. */
export function errorFrom(bytes: Buffer, start: number, end: number): DatabaseError {
  const fields: Record<string, string> = {}
  const last = Math.min(end, bytes.length)
  let at = start
  while (at < last && bytes[at] !== 0) {
    const found = bytes.indexOf(0, at + 1)
    const stop = found < 0 || found > last ? last : found
    fields[String.fromCharCode(bytes[at]!)] = bytes.toString('utf8', at + 1, Math.min(stop, at + maxField))
    at = stop + 1
  }
  const { C, M, V, D, H, P, W, s, t, c, n, R } = fields
  return new DatabaseError({
    code: C ?? 'XX000',
    message: M ?? 'database error',
    severity: V,
    detail: D,
    hint: H,
    position: P === undefined ? undefined : Number(P),
    where: W,
    schema: s,
    table: t,
    column: c,
    constraint: n,
    routine: R,
  })
}
