// Sends an event with example data.
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { readInput } from '../input-file.ts'
import { clean } from '../print.ts'
import { openProject } from '../project.ts'

export async function trigger(context: Context): Promise<Answer> {
  const event = context.given.operands['event']!
  const record = await recordIn(context, event)
  const { platform, id } = await openProject(context)
  const triggered = await platform.webhooks.trigger({
    params: { id },
    body: { event, ...(record && { record }) },
  })
  const { deliveries } = triggered
  return {
    data: triggered,
    text: () =>
      clean(`Triggered ${triggered.event}: ${deliveries} ${deliveries === 1 ? 'delivery' : 'deliveries'}.`),
    hints:
      deliveries === 0
        ? ['No active webhook and no listener selects this event: plinth webhooks list shows their events.']
        : [],
  }
}

async function recordIn(context: Context, event: string): Promise<Record<string, unknown> | undefined> {
  const given = context.given.values['record']
  if (given === undefined) return undefined
  if (!event.startsWith('db.'))
    throw new Failure(
      'usage_invalid_value',
      `${event} has no row, so --record does not apply.`,
      'Omit --record, or trigger a row change such as db.public.todos.insert.',
    )
  const text = given.startsWith('@') ? await readInput(context, given.slice(1)) : given
  const record = parsed(text)
  if (typeof record === 'object' && record !== null && !Array.isArray(record))
    return record as Record<string, unknown>
  throw new Failure(
    'usage_invalid_value',
    '--record is not a JSON object.',
    `Write the row as a JSON object: --record '{"id":1}'`,
  )
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
