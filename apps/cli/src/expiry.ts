import { Failure } from './failure.ts'

const hour = 3_600_000
const units: Readonly<Record<string, number>> = {
  h: hour,
  d: 24 * hour,
  w: 7 * 24 * hour,
  m: 30 * 24 * hour,
  y: 365 * 24 * hour,
}
const rfc3339 = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/i

/** The time of `90d` from now, or of an RFC 3339 time, as the server expects it. */
export function expiryTime(text: string, now: number): string {
  const span = /^([1-9]\d{0,5})([hdwmy])$/.exec(text)
  const time = span
    ? now + Number(span[1]) * units[span[2]!]!
    : rfc3339.test(text)
      ? Date.parse(text)
      : Number.NaN
  const latest = Date.UTC(9999, 11, 31)
  if (Number.isNaN(time) || time > latest) {
    throw new Failure(
      'usage_invalid_value',
      `--expires cannot be "${text}".`,
      'Use a duration such as 12h, 90d, 4w, 6m (30 days each) or 1y, or a time such as 2030-01-31T00:00:00Z.',
    )
  }
  if (time <= now) throw new Failure('usage_invalid_value', `--expires ${text} is in the past.`)
  return new Date(time).toISOString()
}
