// Encodes log items for storage. Answers and notices become the text of a block, about 40 bytes each, because most of an
// answer is equal in many of them: method, route, service, role and the start of the request id. Lines stay as they are.
import type { LogEntry } from '@plinth/contract/logs.ts'
import type { Answered } from '#src/kernel/http/observation.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import { isLine, isNotice, type LogItem, type LogLine } from './line.ts'

/** A block has at most so many entries. Decoding it takes a few milliseconds. */
export const itemsPerBlock = 2000
const perSlice = 500

export interface Encoded {
  /** How many positions the items take. */
  positions: number
  lines: (LogLine & { rank: number })[]
  block: { content: string; firstAt: number; lastAt: number } | undefined
}

/** `[method, route, service, role]` */
type Shape = [string, string, string, string | null]
/** `[rank, milliseconds, shape, status, duration, bytes in, bytes out, request id, trace id]` */
type AnswerRow = [number, number, number, number, number, number, number, string, string?]
/** `[rank, milliseconds, -1, count]` */
type NoticeRow = [number, number, -1, number]

interface Content {
  at: number
  prefix: string
  shapes: Shape[]
  rows: (AnswerRow | NoticeRow)[]
}

const noticeShape = -1
/** In place of the prefix. No request id contains it. */
const prefixMark = '~'

export const encode = (items: readonly LogItem[]): Promise<Encoded> => inSlices(encodeSliced(items))

/** The rank of an item is its index. */
export function* encodeSliced(items: readonly LogItem[]): Sliced<Encoded> {
  const lines: Encoded['lines'] = []
  const shapes = new Map<string, { index: number; shape: Shape }>()
  let rows = ''
  let prefix: string | undefined
  let firstAt = Number.POSITIVE_INFINITY
  let lastAt = 0
  let base = 0

  function shapeOf({ method, route, service, role }: Answered): number {
    const key = `${method} ${route} ${role} ${service}`
    const known = shapes.get(key)
    if (known) return known.index
    const index = shapes.size
    shapes.set(key, { index, shape: [method, route, service, role ?? null] })
    return index
  }

  for (let rank = 0; rank < items.length; rank++) {
    if (rank % perSlice === perSlice - 1) yield
    const item = items[rank]!
    if (isLine(item)) {
      lines.push({ rank, ...item })
      continue
    }
    if (rows === '') base = item.at
    else rows += ','
    if (item.at < firstAt) firstAt = item.at
    if (item.at > lastAt) lastAt = item.at
    if (isNotice(item)) {
      rows += `[${rank},${item.at - base},${noticeShape},${item.dropped}]`
      continue
    }
    prefix ??= item.id.slice(0, item.id.lastIndexOf('-') + 1)
    const id =
      prefix !== '' && item.id.startsWith(prefix) ? prefixMark + item.id.slice(prefix.length) : item.id
    const trace = item.traceId === null ? '' : `,"${item.traceId}"`
    rows += `[${rank},${item.at - base},${shapeOf(item)},${item.status},${item.ms},${item.bytesIn},${item.bytesOut},"${id}"${trace}]`
  }
  if (rows === '') return { positions: items.length, lines, block: undefined }
  const used = JSON.stringify([...shapes.values()].map(({ shape }) => shape))
  const content = `{"at":${base},"prefix":${JSON.stringify(prefix ?? '')},"shapes":${used},"rows":[${rows}]}`
  return { positions: items.length, lines, block: { content, firstAt, lastAt } }
}

/**
 * Passes the entries of a block with positions below `before`, the latest first, until `add` returns false. Returns the
 * position at which it has stopped, or undefined at the end of the block.
 */
export function* decodeSliced(
  position: number,
  text: string,
  before: number,
  add: (entry: LogEntry, position: number) => boolean,
): Sliced<number | undefined> {
  const content = JSON.parse(text) as Content
  const { rows } = content
  for (let at = rows.length - 1; at >= 0; at--) {
    if (at % perSlice === perSlice - 1) yield
    const row = rows[at]!
    const own = position + row[0]
    if (own >= before) continue
    const entry = isNoticeRow(row) ? noticeEntry(content, row, own) : accessEntry(content, row, own)
    if (!add(entry, own)) return own
  }
  return undefined
}

const isNoticeRow = (row: AnswerRow | NoticeRow): row is NoticeRow => row[2] === noticeShape

function accessEntry(content: Content, row: AnswerRow, position: number): LogEntry {
  const [, after, index, status, duration, bytesIn, bytesOut, id, trace = null] = row
  const [method, route, service, role] = content.shapes[index]!
  return {
    id: String(position),
    source: 'access',
    timestamp: new Date(content.at + after).toISOString(),
    method,
    route,
    service,
    function: null,
    status,
    duration_ms: duration,
    bytes_in: bytesIn,
    bytes_out: bytesOut,
    role,
    request_id: id.startsWith(prefixMark) ? content.prefix + id.slice(1) : id,
    trace_id: trace,
    level: status >= 500 ? 'error' : 'info',
    event: 'request',
    message: `${method} ${route} ${status}`,
  }
}

function noticeEntry(content: Content, [, after, , count]: NoticeRow, position: number): LogEntry {
  return {
    ...noFields,
    id: String(position),
    source: 'access',
    timestamp: new Date(content.at + after).toISOString(),
    level: 'warn',
    event: 'dropped',
    message: `${count} requests are missing here, because more were answered than could be written`,
  }
}

/** Null where a field does not apply. */
export const noFields = {
  method: null,
  route: null,
  service: null,
  function: null,
  status: null,
  duration_ms: null,
  bytes_in: null,
  bytes_out: null,
  role: null,
  request_id: null,
  trace_id: null,
} as const
