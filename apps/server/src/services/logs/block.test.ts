import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogEntry } from '@plinth/contract/logs.ts'
import type { Answered } from '#src/kernel/http/observation.ts'
import { atOnce } from '#src/kernel/slices.ts'
import { decodeSliced, encodeSliced, itemsPerBlock } from './block.ts'
import type { LogItem } from './line.ts'

const start = Date.UTC(2026, 0, 1)

const answer = (number: number, more: Partial<Answered> = {}): Answered => ({
  id: `0123456789abcdef-${number.toString(36)}`,
  traceId: null,
  at: start + number,
  method: 'GET',
  project: 'p',
  role: 'anon',
  service: 'rest',
  route: '/v1/rest/{project}/{table}',
  status: 200,
  ms: 1.5,
  bytesIn: 120,
  bytesOut: 340,
  ...more,
})

function decode(position: number, content: string, before = Number.MAX_SAFE_INTEGER): LogEntry[] {
  const entries: LogEntry[] = []
  atOnce(decodeSliced(position, content, before, entry => entries.push(entry) > 0))
  return entries
}

test('block: entries are decoded as they were, the latest first', () => {
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
  const items: LogItem[] = [
    answer(0),
    answer(1, { id: 'id-of-a-proxy', method: 'POST', status: 503, traceId: trace, role: undefined }),
    { at: start + 2, dropped: 7 },
  ]
  const { positions, lines, block } = atOnce(encodeSliced(items))
  assert.deepEqual([positions, lines, block!.firstAt, block!.lastAt], [3, [], start, start + 2])
  const [notice, second, first] = decode(100, block!.content)
  assert.deepEqual(
    [notice!.id, notice!.event, notice!.level, notice!.status],
    ['102', 'dropped', 'warn', null],
  )
  assert.match(notice!.message!, /^7 requests are missing/)
  assert.deepEqual(
    [second!.id, second!.request_id, second!.method, second!.status, second!.level, second!.trace_id],
    ['101', 'id-of-a-proxy', 'POST', 503, 'error', trace],
  )
  assert.equal(second!.role, null)
  assert.deepEqual(first, {
    id: '100',
    source: 'access',
    timestamp: new Date(start).toISOString(),
    method: 'GET',
    route: '/v1/rest/{project}/{table}',
    service: 'rest',
    function: null,
    status: 200,
    duration_ms: 1.5,
    bytes_in: 120,
    bytes_out: 340,
    role: 'anon',
    request_id: '0123456789abcdef-0',
    trace_id: null,
    level: 'info',
    event: 'request',
    message: 'GET /v1/rest/{project}/{table} 200',
  })
  assert.deepEqual(
    decode(100, block!.content, 101).map(({ id }) => id),
    ['100'],
  )
})

test('block: lines keep their rank among the answers', () => {
  const line = {
    source: 'functions',
    name: 'hello',
    at: new Date(start).toISOString(),
    level: 'info',
    event: 'start',
    message: 'GET',
    request_id: null,
    facts: {},
  }
  const { lines, block } = atOnce(encodeSliced([answer(0), line, answer(1)]))
  assert.deepEqual(lines, [{ rank: 1, ...line }])
  assert.deepEqual(
    decode(10, block!.content).map(({ id }) => id),
    ['12', '10'],
  )
  assert.equal(atOnce(encodeSliced([line])).block, undefined)
})

test('block: a full block is small, and is encoded and decoded in slices', () => {
  const items = Array.from({ length: itemsPerBlock }, (_, number) => answer(number))
  const slicesOf = (work: Iterator<void>) => {
    let count = 1
    while (!work.next().done) count++
    return count
  }
  const { content } = atOnce(encodeSliced(items)).block!
  assert.ok(content.length < itemsPerBlock * 45)
  assert.ok(slicesOf(encodeSliced(items) as Iterator<void>) > 4)
  const entries: LogEntry[] = []
  const decoding = decodeSliced(1, content, Number.MAX_SAFE_INTEGER, entry => entries.push(entry) > 0)
  assert.ok(slicesOf(decoding as Iterator<void>) > 4)
  assert.equal(entries.length, itemsPerBlock)
  assert.equal(atOnce(decodeSliced(1, content, 100, () => false)), 99)
})
