// The names of time zones, read when the first request prefers one: Postgres reads about a thousand files for them.
import type { TimeZones } from './preferences.ts'

export function createTimeZones(read: () => Promise<TimeZones>): () => TimeZones | Promise<TimeZones> {
  let known: TimeZones | undefined
  let reading: Promise<TimeZones> | undefined
  async function readOnce(): Promise<TimeZones> {
    try {
      known = await read()
      return known
    } finally {
      reading = undefined
    }
  }
  return () => {
    if (known) return known
    reading ??= readOnce()
    return reading
  }
}
