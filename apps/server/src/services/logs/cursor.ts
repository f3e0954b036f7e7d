// The cursor of a page is the position that its entries are before. Clients must not interpret it.
import { Refusal } from '#src/kernel/errors.ts'

/** Larger than any position, which is a time in microseconds. */
export const endOfLog = Number.MAX_SAFE_INTEGER

export const cursorOf = (position: number): string => Buffer.from(String(position)).toString('base64url')

export function positionIn(cursor: string | undefined): number {
  if (cursor === undefined) return endOfLog
  const text = Buffer.from(cursor, 'base64url').toString('latin1')
  const position = Number(text)
  if (!/^[1-9]\d{0,15}$/.test(text) || !Number.isSafeInteger(position) || cursorOf(position) !== cursor)
    throw new Refusal(
      'invalid_request',
      '"before" must be the next_before of an earlier answer; omit it for the latest entries',
    )
  return position
}
