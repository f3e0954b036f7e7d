// Times in the archive: microseconds since 1970, as Postgres records commits.

const form = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6})\d*)?(Z|[+-]\d\d(?::?\d\d)?)$/i

/** Parses an ISO 8601 time with an offset. Undefined if it is not one. Digits after the microseconds are ignored. */
export function parseTime(text: string): number | undefined {
  const [, date, time, fraction = '', offset = ''] = form.exec(text) ?? []
  if (date === undefined || !isDate(date)) return
  const minutes = offset.length === 3 ? `${offset}:00` : offset.replace(/(\d\d)(\d\d)$/, '$1:$2')
  const milliseconds = Date.parse(`${date}T${time}${minutes.toUpperCase()}`)
  return Number.isNaN(milliseconds) ? undefined : milliseconds * 1000 + Number(fraction.padEnd(6, '0'))
}

/** `Date.parse` takes 30 February for 2 March. */
function isDate(date: string): boolean {
  const milliseconds = Date.parse(`${date}T00:00:00Z`)
  return !Number.isNaN(milliseconds) && new Date(milliseconds).toISOString().startsWith(date)
}

export function formatTime(microseconds: number): string {
  const wholeSeconds = Math.floor(microseconds / 1_000_000)
  const fraction = String(microseconds - wholeSeconds * 1_000_000).padStart(6, '0')
  return new Date(wholeSeconds * 1000).toISOString().replace('.000Z', `.${fraction}Z`)
}
