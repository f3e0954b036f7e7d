// Forwards events of a project to a server on this machine.
import { ReplyError } from '@plinth/contract/client.ts'
import type { Listener, Streamed } from '@plinth/contract/webhooks.ts'
import type { Given } from '../arguments.ts'
import type { Answer, Context } from '../context.ts'
import { clean } from '../print.ts'
import { openProject } from '../project.ts'
import { type Forwarded, forward, forwardUrl } from '../webhooks/forward.ts'
import { eventsIn, type TableName, tableIn } from '../webhooks/given.ts'
import { runListening } from '../webhooks/listening.ts'

/** Longer than the platform waits for deliveries, so that only a dead connection reaches it. */
const readTimeoutMs = 60_000
/** Shorter than the time that the process has to clean up after Ctrl-C. */
const closeTimeoutMs = 3000

interface Selection {
  events: readonly string[]
  tables: readonly TableName[]
}

export async function listen(context: Context): Promise<Answer> {
  const { given, screen } = context
  const url = forwardUrl(given.values['forward-to']!)
  const selection = selectionIn(given)
  for (const hint of missingTables(selection)) screen.hint(hint)
  const { platform, id } = await openProject(context)
  const signal = context.interruption()
  const { openListener, readListener, closeListener } = platform.webhooks
  await runListening({
    open: () =>
      openListener({
        params: { id },
        body: { events: [...selection.events], tables: [...selection.tables] },
      }),
    read: async (listener_id, query) => {
      const limited = AbortSignal.any([signal, AbortSignal.timeout(readTimeoutMs)])
      return (await readListener({ params: { id, listener_id }, query }, limited)).deliveries
    },
    close: listener_id => closeListener({ params: { id, listener_id } }, AbortSignal.timeout(closeTimeoutMs)),
    async forward(delivery) {
      const forwarded = await forward(url, delivery, signal)
      if (!signal.aborted) printForwarded(context, delivery, forwarded)
    },
    onOpened: (listener, isFirst) => printReady(context, listener, url, isFirst),
    onTrouble: error => screen.warn(`${troubleOf(error)}. Trying again until it responds.`),
    onRecovered: () => screen.step('The platform responds again.'),
    now: () => performance.now(),
    signal,
  })
  return { data: null, text: () => '', wasStreamed: true }
}

/** The changes of the tables are always among the events. */
function selectionIn({ values }: Given): Selection {
  const tables = values['table']?.split('\n').map(tableIn) ?? []
  if (values['events'] === undefined) return { events: ['*'], tables }
  const events = eventsIn(values['events'])
  const isSelected = (table: TableName) => events.some(event => event === '*' || isChangeOf(event, table))
  const others = tables.filter(table => !isSelected(table))
  return { events: [...events, ...others.map(table => `${prefixOf(table)}*`)], tables }
}

const prefixOf = ({ schema, table }: TableName) => `db.${schema}.${table}.`
const isChangeOf = (event: string, table: TableName) =>
  event.slice(0, event.lastIndexOf('.') + 1) === prefixOf(table)

/** Changes are captured only for tables that are named. */
function missingTables({ events, tables }: Selection): string[] {
  const missing = events.filter(
    event => event.startsWith('db.') && !tables.some(table => isChangeOf(event, table)),
  )
  return missing.map(event => {
    const table = event.split('.').slice(1, -1).join('.')
    return clean(`${event} comes only from plinth webhooks trigger, unless you add --table ${table}`)
  })
}

const troubleOf = (error: unknown): string =>
  error instanceof ReplyError ? clean(error.message.replace(/\.$/, '')) : 'The platform cannot be reached'

function printReady({ screen }: Context, { id, events, secret }: Listener, url: URL, isFirst: boolean): void {
  if (!isFirst) screen.warn('The listener has expired. The new one has another signing secret.')
  if (screen.format === 'json')
    return screen.item({ data: { kind: 'ready', listener_id: id, events, forward_to: url.href, secret } })
  screen.step(clean(`Ready. Forwarding ${events.join(', ')} to ${url.href}. Press Ctrl-C to end.`))
  screen.hint(`  The signing secret of these deliveries is ${secret}`)
}

function printForwarded(
  { screen }: Context,
  { id, event }: Streamed,
  { status, error, milliseconds }: Forwarded,
): void {
  const timestamp = new Date().toISOString()
  const isDelivered = status !== null && status >= 200 && status < 300
  screen.item({
    data: { kind: 'delivery', timestamp, event, delivery_id: id, status, error, latency_ms: milliseconds },
    text: paint => {
      const result = (isDelivered ? paint.green : paint.red)(String(status ?? 'failed'))
      const detail = error === null ? `${milliseconds} ms` : error
      return `${paint.dim(timestamp)}  ${result}  ${paint.bold(clean(event))}  ${id}  ${clean(detail)}`
    },
  })
}
