import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { connect } from '../platform.ts'

export async function prune(context: Context): Promise<Answer> {
  const days = daysGiven(context.given.values['days'])
  const query = days === undefined ? {} : { days }
  const pruned = await connect(context).admin.pruneAudit({ query })
  const entries = pruned.deleted === 1 ? 'entry' : 'entries'
  return {
    data: pruned,
    text: () =>
      `Deleted ${pruned.deleted} audit ${entries} and ${pruned.deleted_auth_events} auth events older than ${pruned.days} days.`,
  }
}

function daysGiven(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text)
  throw new Failure(
    'usage_invalid_value',
    `--days cannot be "${text}": it must be a number of days of at least 1.`,
  )
}
