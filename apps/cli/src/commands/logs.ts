import type { LogEntry, LogsPage, LogsQuery } from '@plinth/contract/logs.ts'
import { resolveTarget } from '../connection.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { cleanMessage, lineStart } from '../functions/log-line.ts'
import { connect, type Platform } from '../platform.ts'
import { pollUntilInterrupted } from '../polling.ts'
import { clean, type Paint } from '../print.ts'
import { idOf, openProject } from '../project.ts'

const maxEntries = 10_000
const maxPage = 500
const pollMilliseconds = 2000

type Filters = Pick<LogsQuery, 'source' | 'status' | 'route' | 'request_id' | 'from' | 'to' | 'text'>
type Read = (query: LogsQuery) => Promise<LogsPage>

export async function logs(context: Context): Promise<Answer> {
  const limit = limitIn(context.given.values['limit'])
  const filters = filtersIn(context.given.values)
  const { platform, id } = await projectOf(context)
  const read: Read = query => platform.logs.list({ params: { id }, query })
  const mark = context.given.switches.has('follow') ? await latestId(read) : '0'
  const entries = await readEntries(read, filters, limit)
  print(context, entries)
  if (context.given.switches.has('follow'))
    await follow(context, read, filters, laterOf(mark, entries[0]?.id))
  else if (entries.length === 0) context.screen.hint('No entries.')
  return { data: null, text: () => '', wasStreamed: true }
}

async function projectOf(context: Context): Promise<{ platform: Platform; id: string }> {
  const named = context.given.values['project-id']
  if (named === undefined) return openProject(context)
  const platform = connect(context, resolveTarget(context))
  return { platform, id: await idOf(named, platform) }
}

function limitIn(text = '50'): number {
  if (/^[1-9]\d{0,4}$/.test(text) && Number(text) <= maxEntries) return Number(text)
  throw new Failure(
    'usage_invalid_value',
    `--limit cannot be "${text}": it must be a number from 1 to ${maxEntries}.`,
  )
}

function filtersIn(values: Context['given']['values']): Filters {
  const { source, status, route, from, to, text, 'request-id': requestId } = values
  return {
    ...(source !== undefined && { source: source as NonNullable<Filters['source']> }),
    ...(status !== undefined && { status }),
    ...(route !== undefined && { route }),
    ...(requestId !== undefined && { request_id: requestId }),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(text !== undefined && { text }),
  }
}

/** The latest entries, the latest first, from as many pages as needed. */
async function readEntries(
  read: Read,
  query: LogsQuery,
  limit = Number.POSITIVE_INFINITY,
): Promise<LogEntry[]> {
  const entries: LogEntry[] = []
  let before: string | undefined
  for (;;) {
    const page = await read({
      ...query,
      limit: Math.min(limit - entries.length, maxPage),
      ...(before !== undefined && { before }),
    })
    entries.push(...page.logs)
    if (page.next_before === null || entries.length >= limit) return entries
    before = page.next_before
  }
}

/**
 * Until it is interrupted. Ids ascend in the order in which entries become visible, so that none is skipped. Everything
 * up to the latest entry of any kind is searched once, even if the filters match nothing.
 */
async function follow(context: Context, read: Read, filters: Filters, since: string): Promise<void> {
  let after = since
  await pollUntilInterrupted(context, {
    everyMs: pollMilliseconds,
    async poll() {
      const mark = await latestId(read)
      const entries = await readEntries(read, { ...filters, after })
      print(context, entries)
      after = laterOf(laterOf(after, mark), entries[0]?.id)
      return false
    },
  })
}

async function latestId(read: Read): Promise<string> {
  const { logs: latest } = await read({ limit: 1 })
  return latest[0]?.id ?? '0'
}

const laterOf = (id: string, other = '0') => (Number(other) > Number(id) ? other : id)

/** The oldest first, as in a terminal that scrolls. */
function print({ screen }: Context, entries: readonly LogEntry[]): void {
  for (const entry of entries.toReversed())
    screen.item({ data: entry, text: paint => entryLine(paint, entry) })
}

/** `2026-01-31T09:30:00.000Z  info   GET /v1/rest/{project}/{table} 200 in 1.2 ms, anon, <request id>` */
const entryLine = (paint: Paint, entry: LogEntry): string =>
  `${lineStart(paint, entry.timestamp, entry.level)}  ${contentOf(paint, entry)}`

function contentOf(paint: Paint, entry: LogEntry): string {
  const { message, method, route, role, request_id: id } = entry
  const duration = entry.duration_ms === null ? '' : ` in ${entry.duration_ms} ms`
  if (entry.source === 'function') {
    const name = paint.bold(clean(entry.function ?? 'functions'))
    const start = entry.event === 'start' ? ' started' : ''
    return `${name}: ${cleanMessage(message ?? '(output is shown with deploy scope)')}${start}${duration}`
  }
  if (entry.status === null) return cleanMessage(message ?? '')
  const color = entry.status >= 500 ? paint.red : entry.status >= 400 ? paint.yellow : paint.green
  return `${clean(`${method} ${route}`)} ${color(String(entry.status))}${duration}${paint.dim(clean(`, ${role}, ${id}`))}`
}
