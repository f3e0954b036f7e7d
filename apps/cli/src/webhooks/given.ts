// What the user names on the command line: webhooks, deliveries, events and tables.
import type { Given } from '../arguments.ts'
import { Failure } from '../failure.ts'
import { isId } from '../project.ts'

export const webhookIn = (given: Given): string => idIn(given, 'webhook', ['webhook', 'id'], listHint)
export const deliveryIn = (given: Given): string =>
  idIn(given, 'delivery', ['delivery'], 'plinth webhooks deliveries <webhook> shows the ids.')

const listHint = 'plinth webhooks list shows the ids.'

/** An id from the argument or from one of the flags. Two that differ are an error, because one would be ignored. */
function idIn({ operands, values }: Given, what: string, flags: readonly string[], hint: string): string {
  const named = [operands[what], ...flags.map(flag => values[flag])]
  const ids = [...new Set(named.filter(each => each !== undefined).map(each => each.toLowerCase()))]
  const [id] = ids
  if (id === undefined)
    throw new Failure('usage_missing_argument', `<${what}> is missing: the id of the ${what}.`, hint)
  if (ids.length > 1)
    throw new Failure('usage_invalid_value', `Two ids of a ${what} are given: ${ids.join(' and ')}.`)
  return checkedId(id, what, hint)
}

export function checkedId(text: string, what: string, hint: string): string {
  if (isId(text)) return text.toLowerCase()
  throw new Failure('usage_invalid_value', `"${text}" is not the id of a ${what}.`, hint)
}

/** Separated by commas, and by line breaks if the flag is repeated. */
export function eventsIn(text: string): string[] {
  const events = text.split(/[,\n]/).map(event => event.trim())
  if (events.every(event => event !== '')) return events
  throw new Failure(
    'usage_invalid_value',
    `--events cannot be "${text}": an event is empty.`,
    'Separate events with one comma: --events user.created,user.deleted',
  )
}

export interface TableName {
  schema: string
  table: string
}

/** `table` or `schema.table`. The name of the table may have further dots. */
export function tableIn(text: string): TableName {
  const dot = text.indexOf('.')
  const name = { schema: dot < 0 ? 'public' : text.slice(0, dot), table: text.slice(dot + 1) }
  if (name.schema !== '' && name.table !== '') return name
  throw new Failure(
    'usage_invalid_value',
    `--table cannot be "${text}".`,
    'Name a table as todos or public.todos.',
  )
}
