// Finds the next minute that matches five cron fields, in UTC, which has no daylight saving time.

export interface Calendar {
  /** Sorted, like the hours. */
  minutes: readonly number[]
  hours: readonly number[]
  days: ReadonlySet<number>
  hasLastDay: boolean
  /** From 1. */
  months: ReadonlySet<number>
  /** Sunday is 0. */
  weekdays: ReadonlySet<number>
  /** Whether both the day of the month and the weekday must match; otherwise one of them is enough. */
  needsBoth: boolean
}

const minuteMs = 60_000
/** 29 February is on a given weekday every 28 years, or 40 years around a century without a leap year. */
const monthsAhead = 41 * 12

/** Undefined if no minute matches, as with 30 February. */
export function nextMinute(calendar: Calendar, after: Date): Date | undefined {
  const first = new Date((Math.floor(after.getTime() / minuteMs) + 1) * minuteMs)
  const [year, month, today] = [first.getUTCFullYear(), first.getUTCMonth(), first.getUTCDate()]
  for (let ahead = 0; ahead < monthsAhead; ahead++)
    for (const day of daysIn(calendar, year, month + ahead, ahead === 0 ? today : 1)) {
      const isToday = ahead === 0 && day === today
      const time = isToday
        ? timeFrom(calendar, first.getUTCHours(), first.getUTCMinutes())
        : timeFrom(calendar, 0, 0)
      if (time) return new Date(Date.UTC(year, month + ahead, day, ...time))
    }
  return undefined
}

function timeFrom({ hours, minutes }: Calendar, hour: number, minute: number): [number, number] | undefined {
  const later = minutes.find(each => each >= minute)
  if (hours.includes(hour) && later !== undefined) return [hour, later]
  const next = hours.find(each => each > hour)
  return next === undefined ? undefined : [next, minutes[0]!]
}

function daysIn(calendar: Calendar, year: number, month: number, from: number): number[] {
  const last = new Date(Date.UTC(year, month + 1, 0))
  const [length, lastWeekday] = [last.getUTCDate(), last.getUTCDay()]
  if (!calendar.months.has(last.getUTCMonth() + 1)) return []
  const isNamed = (day: number) => {
    const isDay = calendar.days.has(day) || (calendar.hasLastDay && day === length)
    const isWeekday = calendar.weekdays.has((lastWeekday - (length - day) + 35) % 7)
    return calendar.needsBoth ? isDay && isWeekday : isDay || isWeekday
  }
  return Array.from({ length: length - from + 1 }, (_, at) => from + at).filter(isNamed)
}
