// When a job is due. Five cron fields in UTC, read by croner, or `N seconds` on a steady beat.
import { Cron } from 'croner'
import { Refusal } from '#src/kernel/errors.ts'

export interface Schedule {
  /** The first tick after a moment; undefined when none will ever come. `before` is a tick that was due earlier. */
  next(after: Date, before?: Date): Date | undefined
}

const everySeconds = /^(\d{1,2}) seconds?$/i
/** What the five fields may hold; croner would take more, which no other cron knows. */
const fieldPattern = /^[0-9a-z*,/-]+$/i
const dayOfMonth = 2

export function parseSchedule(text: string): Schedule {
  const trimmed = text.trim()
  const beat = everySeconds.exec(trimmed)
  if (beat) return steady(Number(beat[1]))
  const fields = trimmed.split(/\s+/)
  if (fields.length !== 5)
    throw unusable(text, 'it must have five fields (minute hour day month weekday) or read like "30 seconds"')
  // Both ways to say the last day of the month are known.
  const read = fields.map((field, place) => (place === dayOfMonth && field === '$' ? 'L' : field))
  const strange = read.find(field => !fieldPattern.test(field))
  if (strange !== undefined) throw unusable(text, `the field "${strange}" cannot be read`)
  return cron(text, read.join(' '))
}

/** On the beat of the ticks before, so that late runs do not push the later ones back. */
function steady(seconds: number): Schedule {
  if (seconds < 1 || seconds > 59)
    throw unusable(`${seconds} seconds`, 'the seconds must be from 1 to 59; use cron fields for more')
  const step = seconds * 1000
  return {
    next(after, before) {
      if (!before) return new Date(after.getTime() + step)
      const passed = after.getTime() - before.getTime()
      return new Date(before.getTime() + (Math.floor(Math.max(passed, 0) / step) + 1) * step)
    },
  }
}

function cron(text: string, fields: string): Schedule {
  let parsed: Cron
  try {
    parsed = new Cron(fields, { timezone: 'UTC', mode: '5-part', paused: true })
  } catch (error) {
    throw unusable(text, (error as Error).message)
  }
  return { next: after => parsed.nextRun(after) ?? undefined }
}

const unusable = (text: string, why: string) =>
  new Refusal('invalid_schedule', `The schedule "${text}" cannot be used: ${why}`, {
    hint: 'For example "*/5 * * * *", "0 3 * * mon-fri", "0 0 L * *" or "30 seconds"; times are UTC.',
  })
