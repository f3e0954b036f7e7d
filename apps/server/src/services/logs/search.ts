// Reads the log of a project from the latest entry to the oldest. Lines of functions and blocks of the access log are two
// streams in one order of positions. Each is read in slices of bounded size, and a request reads a bounded number of them:
// an answer may be incomplete, with a cursor to continue.
import type { LogEntry } from '@plinth/contract/logs.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import { decodeSliced, noFields } from './block.ts'
import type { EntryFilter } from './filter.ts'
import type { StoredLine } from './line.ts'
import * as store from './store.ts'

export interface Search {
  readonly projectId: string
  readonly filter: EntryFilter
  /** Entries before this position, and after that one. */
  readonly before: number
  readonly after: number
  readonly limit: number
  /** Whether the output of functions is shown. */
  readonly showsOutput: boolean
}

export interface SearchLimits {
  /** Slices that one request reads. */
  reads: number
  slice: store.Slice
}

export const usualSearchLimits: SearchLimits = {
  reads: 16,
  slice: { rows: 2000, bytes: 512 * 1024 },
}

interface Found {
  readonly entries: LogEntry[]
  /** The position to continue before, or undefined at the end of the log. */
  readonly next: number | undefined
}

interface Positioned {
  readonly entry: LogEntry
  readonly position: number
}

interface Stream {
  /** Entries found and not returned yet, the latest first. */
  found: Positioned[]
  /** Every entry from here on has been read. 0 at the end. */
  reached: number
  read(): Promise<void>
}

export async function search(
  control: Database,
  wanted: Search,
  limits: SearchLimits = usualSearchLimits,
): Promise<Found> {
  const { filter, after, limit } = wanted
  const streams: Stream[] = []
  if (filter.hasAccess) streams.push(accessStream(control, wanted, limits.slice))
  if (filter.hasFunctions) streams.push(functionStream(control, wanted, limits.slice))
  const page: Positioned[] = []
  // Every stream is read at least once, so that the cursor moves.
  for (let reads = 0; ; reads++) {
    const horizon = Math.max(0, ...streams.map(({ reached }) => reached))
    page.push(...takeFrom(streams, horizon))
    if (page.length > limit)
      return { entries: page.slice(0, limit).map(({ entry }) => entry), next: page[limit - 1]!.position }
    if (horizon <= after + 1) return { entries: page.map(({ entry }) => entry), next: undefined }
    if (reads >= Math.max(limits.reads, streams.length))
      return { entries: page.map(({ entry }) => entry), next: horizon }
    await streams.find(({ reached }) => reached === horizon)!.read()
  }
}

/** Takes the entries that no unread one can come before. */
function takeFrom(streams: readonly Stream[], horizon: number): Positioned[] {
  const taken = streams.flatMap(stream => {
    const end = stream.found.findIndex(({ position }) => position < horizon)
    return stream.found.splice(0, end < 0 ? stream.found.length : end)
  })
  return taken.sort((a, b) => b.position - a.position)
}

/** A stream stops when it has found enough for the page. */
function accessStream(
  control: Database,
  { projectId, filter, before, after, limit }: Search,
  most: store.Slice,
): Stream {
  const sliceFor = growingSlices(most)
  const stream: Stream = {
    found: [],
    reached: before,
    async read() {
      const range = { ...filter, before: stream.reached, after }
      const add = (entry: LogEntry, position: number) => {
        if (position > after && filter.matches(entry)) stream.found.push({ entry, position })
        return stream.found.length <= limit
      }
      const { rows, isEnd } = await store.readBlocks(control, projectId, range, sliceFor())
      const stoppedAt = await inSlices(decodeRows(rows, range.before, add))
      stream.reached = stoppedAt ?? (isEnd ? 0 : rows.at(-1)!.position)
    },
  }
  return stream
}

function* decodeRows(
  rows: readonly { position: number; content: string }[],
  before: number,
  add: (entry: LogEntry, position: number) => boolean,
): Sliced<number | undefined> {
  for (const { position, content } of rows) {
    const stoppedAt = yield* decodeSliced(position, content, before, add)
    if (stoppedAt !== undefined) return stoppedAt
    yield
  }
  return undefined
}

function functionStream(control: Database, wanted: Search, most: store.Slice): Stream {
  const { projectId, filter, before, after, showsOutput } = wanted
  const sliceFor = growingSlices(most)
  const stream: Stream = {
    found: [],
    reached: before,
    async read() {
      const range = { ...filter, before: stream.reached, after }
      const { rows, isEnd } = await store.readAllLines(control, projectId, range, sliceFor())
      for (const line of rows) {
        const entry = functionEntry(line, showsOutput)
        if (filter.matches(entry)) stream.found.push({ entry, position: Number(line.id) })
      }
      stream.reached = isEnd ? 0 : Number(rows.at(-1)!.id)
    },
  }
  return stream
}

/** The first slice is small, because it has a whole page if most entries match. */
function growingSlices({ rows, bytes }: store.Slice): () => store.Slice {
  let next = { rows: Math.min(64, rows), bytes: Math.min(16 * 1024, bytes) }
  return () => {
    const slice = next
    next = { rows: Math.min(slice.rows * 4, rows), bytes: Math.min(slice.bytes * 4, bytes) }
    return slice
  }
}

function functionEntry(
  { id, name, at, level, event, message, request_id, facts }: StoredLine,
  showsOutput: boolean,
) {
  const number = (field: string) => (typeof facts[field] === 'number' ? (facts[field] as number) : null)
  const text = (field: string) => (typeof facts[field] === 'string' ? (facts[field] as string) : null)
  return {
    ...noFields,
    id,
    source: 'function',
    timestamp: at,
    method: text('method'),
    service: 'functions',
    function: name === '' ? null : name,
    status: number('status'),
    duration_ms: number('duration_ms'),
    request_id,
    trace_id: text('trace_id'),
    level: level as LogEntry['level'],
    event: event as LogEntry['event'],
    message: event === 'output' && !showsOutput ? null : message,
  } satisfies LogEntry
}
