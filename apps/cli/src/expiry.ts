import { Failure } from './failure.ts'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour
const units = { h: hour, d: day, w: 7 * day, m: 30 * day, y: 365 * day }
/** Of branches, as the platform counts them in `expires_in`. */
const branchUnits = { m: minute, h: hour, d: day, w: 7 * day }
const duration = /^([1-9]\d{0,5})([a-z])$/
const rfc3339 = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/i

/** The time of `90d` from now, or of an RFC 3339 time, as the server expects it. */
export const expiryTime = (text: string, now: number): string =>
  timeOf(text, now, units, '12h, 90d, 4w, 6m (30 days each) or 1y')

/** The same for branches, where m is minutes. A duration counts by the clock of the platform. */
export function branchExpiry(text: string, now: number): { expires_in: string } | { expires_at: string } {
  const time = timeOf(text, now, branchUnits, '30m (minutes), 12h, 7d or 4w')
  return duration.test(text) ? { expires_in: text } : { expires_at: time }
}

function timeOf(
  text: string,
  now: number,
  unitMs: Readonly<Record<string, number>>,
  durations: string,
): string {
  const span = duration.exec(text)
  const time = span
    ? now + Number(span[1]) * (unitMs[span[2]!] ?? Number.NaN)
    : rfc3339.test(text)
      ? Date.parse(text)
      : Number.NaN
  const latest = Date.UTC(9999, 11, 31)
  if (Number.isNaN(time) || time > latest) {
    throw new Failure(
      'usage_invalid_value',
      `--expires cannot be "${text}".`,
      `Use a duration such as ${durations}, or a time such as 2030-01-31T00:00:00Z.`,
    )
  }
  if (time <= now) throw new Failure('usage_invalid_value', `--expires ${text} is in the past.`)
  return new Date(time).toISOString()
}
