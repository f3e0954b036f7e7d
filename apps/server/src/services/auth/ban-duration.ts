import { Refusal } from '#src/kernel/errors.ts'

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
}
const duration = /^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$/
const latest = Date.UTC(9999, 0, 1)

/** The end of a ban of `24h` or `1h30m`, as a timestamp. Null for `none`, which removes a ban. */
export function banEnd(text: string, nowMs = Date.now()): string | null {
  if (text === 'none') return null
  if (!duration.test(text))
    throw new Refusal(
      'validation_failed',
      'ban_duration must be "none" or a duration such as "24h" or "1h30m"',
    )
  let ms = 0
  for (const [, number, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g))
    ms += Number(number) * unitMs[unit!]!
  return new Date(Math.min(nowMs + ms, latest)).toISOString()
}
