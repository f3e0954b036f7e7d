// Shows and changes when backups are made, verified and removed.
import type { BackupSettings } from '@plinth/contract/backups.ts'
import type { Given } from '../arguments.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { fields, type Paint } from '../print.ts'
import { openProject } from '../project.ts'

export async function settings(context: Context): Promise<Answer> {
  const change = changeIn(context.given)
  const { platform, id } = await openProject(context)
  const params = { id }
  const now =
    Object.keys(change).length === 0
      ? await platform.backups.settings({ params })
      : await platform.backups.configure({ params, body: change })
  return {
    data: now,
    text: paint => settingsText(paint, now),
    hints: now.enabled ? [] : ['No backups are made at intervals: plinth backup settings --enabled true'],
  }
}

function changeIn({ values }: Given): Partial<BackupSettings> {
  const { enabled, 'verify-enabled': verifies } = values
  const interval = minutesIn(values, 'interval-minutes')
  const verifyInterval = minutesIn(values, 'verify-interval-minutes')
  const days = retainedIn(values, 'retain-days', 36_500)
  const count = retainedIn(values, 'retain-count', 1000)
  return {
    ...(enabled !== undefined && { enabled: enabled === 'true' }),
    ...(interval !== undefined && { interval_minutes: interval }),
    ...(days !== undefined && { retain_days: days }),
    ...(count !== undefined && { retain_count: count }),
    ...(verifies !== undefined && { verify_enabled: verifies === 'true' }),
    ...(verifyInterval !== undefined && { verify_interval_minutes: verifyInterval }),
  }
}

type Values = Given['values']

const minutesIn = (values: Values, flag: string): number | undefined =>
  values[flag] === undefined
    ? undefined
    : numberIn(flag, values[flag], { least: 15, most: 525_600, what: 'minutes' })

const retainedIn = (values: Values, flag: string, most: number): number | null | undefined =>
  values[flag] === undefined
    ? undefined
    : values[flag] === 'none'
      ? null
      : numberIn(flag, values[flag], { least: 1, most, what: 'or none' })

function numberIn(
  flag: string,
  text: string,
  { least, most, what }: { least: number; most: number; what: string },
): number {
  const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (number >= least && number <= most) return number
  throw new Failure('usage_invalid_value', `--${flag} cannot be "${text}": use ${least} to ${most} ${what}.`)
}

const usualDays = 7

const settingsText = (paint: Paint, now: BackupSettings): string =>
  fields(paint, [
    ['backups', now.enabled ? `every ${interval(now.interval_minutes)}` : 'only on demand'],
    ['kept', keptText(now)],
    [
      'verification',
      now.verify_enabled ? `every ${interval(now.verify_interval_minutes)}` : 'only on demand',
    ],
  ])

const intervalUnits = [
  [24 * 60, 'd'],
  [60, 'h'],
  [1, 'm'],
] as const

/** Exactly, such as `7d` or `1h 30m`. */
function interval(minutes: number): string {
  let left = minutes
  const parts: string[] = []
  for (const [size, unit] of intervalUnits) {
    if (left >= size) parts.push(`${Math.floor(left / size)}${unit}`)
    left %= size
  }
  return parts.join(' ')
}

function keptText({ retain_days: days, retain_count: count }: BackupSettings): string {
  if (days === null && count === null) return `${usualDays} days`
  return [
    ...(days === null ? [] : [`${days} ${days === 1 ? 'day' : 'days'}`]),
    ...(count === null ? [] : [`at most ${count} ${count === 1 ? 'backup' : 'backups'}`]),
  ].join(', ')
}
