// Parses schedules: five cron fields in UTC, or an interval `N seconds`.
import { Refusal } from '#src/kernel/errors.ts'
import { type Calendar, nextMinute } from './calendar.ts'

export interface Schedule {
  /** The first tick after a time, or undefined if there is none. `before` is an earlier tick. */
  next(after: Date, before?: Date): Date | undefined
}

interface Field {
  called: string
  least: number
  most: number
  /** The first name has the value `least`. */
  names?: readonly string[]
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const fields = {
  minute: { called: 'minute', least: 0, most: 59 },
  hour: { called: 'hour', least: 0, most: 23 },
  day: { called: 'day', least: 1, most: 31 },
  month: { called: 'month', least: 1, most: 12, names: months },
  // Sunday is both 0 and 7.
  weekday: { called: 'weekday', least: 0, most: 7, names: weekdays },
} satisfies Record<string, Field>

const everySeconds = /^(\d{1,2})\s+seconds?$/i
const part = /^(?:\*|(?<from>\d+|[a-z]+)(?:-(?<to>\d+|[a-z]+))?)(?:\/(?<step>\d+))?$/i
/** Both notations for the last day of the month. */
const lastDay = /^[l$]$/i

export function parseSchedule(text: string): Schedule {
  const trimmed = text.trim()
  try {
    const beat = everySeconds.exec(trimmed)
    if (beat) return steady(Number(beat[1]))
    const calendar = readFields(trimmed.split(/\s+/))
    return { next: after => nextMinute(calendar, after) }
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error
    throw new Refusal('invalid_schedule', `The schedule "${text}" cannot be used: ${error.message}`, {
      hint: 'For example "*/5 * * * *", "0 3 * * mon-fri", "0 0 L * *" or "30 seconds"; times are UTC.',
    })
  }
}

class Unreadable extends Error {}

/** Aligned to the earlier ticks, so that late runs cause no drift. */
function steady(seconds: number): Schedule {
  if (seconds < 1 || seconds > 59)
    throw new Unreadable('the seconds must be from 1 to 59; use cron fields for more')
  const step = seconds * 1000
  return {
    next(after, before) {
      if (!before) return new Date(after.getTime() + step)
      const passed = after.getTime() - before.getTime()
      return new Date(before.getTime() + (Math.floor(Math.max(passed, 0) / step) + 1) * step)
    },
  }
}

function readFields(given: readonly string[]): Calendar {
  const [minute, hour, day, month, weekday] = given
  if (given.length !== 5 || !minute || !hour || !day || !month || !weekday)
    throw new Unreadable('it must have five fields (minute hour day month weekday) or read like "30 seconds"')
  const days = day.split(',')
  return {
    minutes: valuesIn(minute.split(','), fields.minute),
    hours: valuesIn(hour.split(','), fields.hour),
    days: new Set(
      valuesIn(
        days.filter(each => !lastDay.test(each)),
        fields.day,
      ),
    ),
    hasLastDay: days.some(each => lastDay.test(each)),
    months: new Set(valuesIn(month.split(','), fields.month)),
    weekdays: new Set(valuesIn(weekday.split(','), fields.weekday).map(each => each % weekdays.length)),
    // As in every cron: if both fields are restricted, either may match. A field that starts with a star, as
    // in `*/2`, must match together with the other one.
    needsBoth: day.startsWith('*') || weekday.startsWith('*'),
  }
}

const valuesIn = (parts: readonly string[], field: Field): number[] =>
  [...new Set(parts.flatMap(given => valuesOf(given, field)))].sort((a, b) => a - b)

/** All values of one item of a field's list. */
function valuesOf(given: string, field: Field): number[] {
  const found = part.exec(given)?.groups
  if (!found) throw new Unreadable(`"${given}" cannot be read as a ${field.called}`)
  const { from, to, step } = found
  if (step !== undefined && from !== undefined && to === undefined)
    throw new Unreadable(`"${given}" has a step and needs a range, such as "${from}-${field.most}/${step}"`)
  const least = from === undefined ? field.least : numberOf(from, field)
  const most = from === undefined ? field.most : to === undefined ? least : endOf(to, least, field)
  if (most < least) throw new Unreadable(`"${given}" ends before it begins`)
  const by = Number(step ?? 1)
  if (by < 1 || by > field.most + 1)
    throw new Unreadable(`the step in "${given}" must be from 1 to ${field.most + 1}`)
  return Array.from({ length: Math.floor((most - least) / by) + 1 }, (_, at) => least + at * by)
}

function numberOf(given: string, { called, least, most, names }: Field): number {
  const isNumber = /^\d+$/.test(given)
  const named = names?.indexOf(given.toLowerCase()) ?? -1
  if (!isNumber && named < 0) throw new Unreadable(`"${given}" is no ${called}`)
  const value = isNumber ? Number(given) : named + least
  if (value < least || value > most)
    throw new Unreadable(`"${given}" is no ${called}: they go from ${least} to ${most}`)
  return value
}

/** A range of weekdays may end with Sunday, as in `fri-sun`. */
function endOf(given: string, least: number, field: Field): number {
  const isSunday = field.names === weekdays && given.toLowerCase() === weekdays[0]
  return isSunday && least > 0 ? field.most : numberOf(given, field)
}
