// The names of events, and which of them a webhook selects.
import { authEvents, type Operation, operations } from '@plinth/contract/webhooks.ts'
import { Refusal } from '#src/kernel/errors.ts'

const rowChange = /^db\.([^\0]+?)\.([^\0]+)\.(insert|update|delete)$/
const selectedRowChange = /^db\.[^\0]+\.[^\0]+\.(insert|update|delete|\*)$/
const known: readonly string[] = authEvents

export const rowChangeEvent = (schema: string, table: string, operation: string) =>
  `db.${schema}.${table}.${operation.toLowerCase()}`

export interface RowChangeName {
  schema: string
  table: string
  operation: Operation
}

/** The parts of the name of a row change. A name with more dots is read with the shortest schema. */
export function readRowChange(event: string): RowChangeName | undefined {
  const [, schema, table, operation] = rowChange.exec(event) ?? []
  return operation === undefined
    ? undefined
    : { schema: schema!, table: table!, operation: operation.toUpperCase() as Operation }
}

/** Rejects names that no event can have. Returns each name once. */
export function checkEvents(events: readonly string[]): string[] {
  for (const event of events)
    if (event !== '*' && !known.includes(event) && !selectedRowChange.test(event)) throw invalidEvent(event)
  return [...new Set(events)]
}

export const isAuthEvent = (event: string) => known.includes(event)

export const invalidEvent = (event: string) =>
  new Refusal('invalid_webhook_event', `There is no event ${JSON.stringify(event)}`, {
    hint: `Use ${authEvents.join(', ')}, db.<schema>.<table>.<insert, update or delete>, db.<schema>.<table>.* or *.`,
  })

/** Operations to attach, uppercase and in a fixed order. */
export function checkOperations(events: readonly string[] = operations): Operation[] {
  const wanted = new Set(events.map(event => event.toUpperCase()))
  for (const event of events)
    if (!operations.includes(event.toUpperCase() as Operation))
      throw new Refusal(
        'invalid_webhook_event',
        `A table has no event ${JSON.stringify(event)}; use insert, update or delete`,
      )
  return operations.filter(operation => wanted.has(operation))
}

/** Whether a webhook with these events gets an event. */
export type Selects = (event: string) => boolean

export function selection(events: readonly string[]): Selects {
  if (events.includes('*')) return () => true
  const names = new Set(events)
  return event =>
    names.has(event) || (event.startsWith('db.') && names.has(`${event.slice(0, event.lastIndexOf('.'))}.*`))
}
