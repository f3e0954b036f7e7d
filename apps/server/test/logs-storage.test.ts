// Bounds of the logs of projects: waiting entries, age, size, and the work of one search.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { LogsQuery } from '@plinth/contract/logs.ts'
import type { Answered } from '#src/kernel/http/observation.ts'
import { createLog } from '#src/kernel/log.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type LogsDeps, type LogsService, logsService } from '#src/services/logs/service.ts'
import { usualLimits } from '#src/services/logs/waiting.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

/** A log service with its own bounds, on the control database of the platform. */
async function logsWith(limits: LogsDeps['limits'], work: (logs: LogsService) => Promise<void>) {
  const { directory, control } = platform.app
  const logs = logsService({
    control,
    owner: { tenant: async id => (await directory.find(id))! },
    log: createLog('silent'),
    retentionDays: 7,
    ...(limits && { limits }),
  })
  try {
    await work(logs)
  } finally {
    await logs.close()
  }
}

let answers = 0
const answer = (project: string, more: Partial<Answered> = {}): Answered => ({
  id: `0123456789abcdef-${++answers}`,
  traceId: null,
  at: Date.now(),
  method: 'GET',
  project,
  role: 'anon',
  service: 'rest',
  route: '/v1/rest/{project}/{table}',
  status: 200,
  ms: 1,
  bytesIn: 1,
  bytesOut: 1,
  ...more,
})

async function pagesOf(logs: LogsService, id: string, query: LogsQuery) {
  const pages = []
  let before: string | undefined
  do {
    const page = await logs.list(id, { ...query, ...(before && { before }) }, { showsOutput: true })
    pages.push(page.logs)
    before = page.next_before ?? undefined
  } while (before !== undefined)
  return pages
}

const blocksOf = (id: string) =>
  platform.app.control.rows<{ position: string; bytes: number }>(
    sql`select position, octet_length(content) as bytes from access_log_blocks where project_id = ${id}`,
  )
const countedBytes = async (id: string) => {
  const row = await platform.app.control.row<{ block_bytes: string }>(
    sql`select block_bytes from project_log_state where project_id = ${id}`,
  )
  return Number(row!.block_bytes)
}

test('logs: a notice says how many requests were dropped', async () => {
  const { id } = await platform.createProject()
  await logsWith({ waiting: { ...usualLimits, answers: 10 } }, async logs => {
    for (let count = 0; count < 25; count++) logs.answered(answer(id))
    await logs.flush()
    const [entries] = await pagesOf(logs, id, {})
    assert.equal(entries!.length, 11)
    assert.deepEqual(
      [entries![0]!.event, entries![0]!.level, entries![0]!.source],
      ['dropped', 'warn', 'access'],
    )
    assert.match(entries![0]!.message!, /^15 requests are missing/)
  })
})

test('logs: the entries of a flush are one row, up to 2000 of them', async () => {
  const { id } = await platform.createProject()
  await logsWith({}, async logs => {
    for (let count = 0; count < 2000; count++) logs.answered(answer(id))
    await logs.flush()
    assert.equal((await blocksOf(id)).length, 1)
    for (let count = 0; count < 2001; count++) logs.answered(answer(id))
    await logs.flush()
    assert.equal((await blocksOf(id)).length, 3)
    const pages = await pagesOf(logs, id, { limit: 500 })
    assert.deepEqual(new Set(pages.flat().map(entry => entry.request_id)).size, 4001)
  })
})

test('logs: one request searches a bounded part, and the cursor continues behind it', async () => {
  const { id } = await platform.createProject()
  const search = { reads: 2, slice: { rows: 3, bytes: 1024 * 1024 } }
  await logsWith({ search }, async logs => {
    for (let count = 0; count < 20; count++) {
      logs.answered(answer(id, { status: count === 0 ? 500 : 200 }))
      await logs.flush()
    }
    const pages = await pagesOf(logs, id, { status: '5xx', source: 'access' })
    assert.deepEqual(
      pages.map(page => page.length),
      [0, 0, 0, 1],
    )
    // Both streams are searched, and each request makes progress.
    assert.equal((await pagesOf(logs, id, {})).flat().length, 20)
    assert.equal((await pagesOf(logs, id, { limit: 1 })).flat().length, 20)
  })
  const byBytes = { reads: 1, slice: { rows: 100, bytes: 1 } }
  await logsWith({ search: byBytes }, async logs => {
    const pages = await pagesOf(logs, id, { source: 'access' })
    assert.ok(pages.length >= 20)
    assert.equal(pages.flat().length, 20)
  })
})

test('logs: lines of functions and requests are merged in the order of time', async () => {
  const { id } = await platform.createProject()
  const line = (message: string) => ({
    source: 'functions',
    name: 'hello',
    at: new Date().toISOString(),
    level: 'log',
    event: 'output',
    message,
    request_id: null,
    facts: {},
  })
  const search = { reads: 2, slice: { rows: 2, bytes: 1024 * 1024 } }
  await logsWith({ search }, async logs => {
    const expected: string[] = []
    for (let count = 0; count < 12; count++) {
      const at = Date.now() + count
      if (count % 3 === 0) {
        logs.append(id, () => ({ ...line(`line ${count}`), at: new Date(at).toISOString() }))
        expected.unshift(`line ${count}`)
      } else {
        const { id: request } = answer(id)
        logs.answered(answer(id, { id: request, at }))
        expected.unshift(request)
      }
      if (count % 4 === 3) await logs.flush()
    }
    const all = (await pagesOf(logs, id, { limit: 5 })).flat()
    assert.deepEqual(
      all.map(entry => (entry.source === 'function' ? entry.message : entry.request_id)),
      expected,
    )
    const hidden = await logs.list(id, { source: 'function' }, { showsOutput: false })
    assert.deepEqual(
      hidden.logs.map(entry => [entry.function, entry.event, entry.message]),
      Array.from({ length: 4 }, () => ['hello', 'output', null]),
    )
    assert.deepEqual((await logs.list(id, { text: 'line 3' }, { showsOutput: false })).logs, [])
  })
})

test('logs: old blocks are removed, and no others', async () => {
  const [old, current] = [await platform.createProject(), await platform.createProject()]
  await logsWith({}, async logs => {
    for (const { id } of [old, current])
      for (const at of [Date.now(), Date.now()]) {
        logs.answered(answer(id, { at }))
        await logs.flush()
      }
  })
  await platform.app.control.run(sql`
    update access_log_blocks set last_at = now() - interval '7 days 1 minute'
     where project_id = ${old.id}
       and position = (select min(position) from access_log_blocks where project_id = ${old.id})`)
  await logsWith({}, async () => {
    await eventually(async () => (await blocksOf(old.id)).length === 1, 'the old block is removed')
  })
  assert.equal((await blocksOf(current.id)).length, 2)
  const [left] = await blocksOf(old.id)
  assert.equal(await countedBytes(old.id), left!.bytes + 150)
})

test('logs: the oldest blocks of a large access log are removed', async () => {
  const { id } = await platform.createProject()
  const storage = { maxProjectBytes: 10_000, trimEveryMs: 20, pruneEveryMs: 3_600_000 }
  await logsWith({}, async logs => {
    for (let block = 0; block < 30; block++) {
      for (let count = 0; count < 20; count++) logs.answered(answer(id))
      await logs.flush()
    }
  })
  const before = await blocksOf(id)
  await logsWith({ storage }, async logs => {
    await eventually(async () => (await countedBytes(id)) <= 9000, 'it is trimmed')
    const [latest] = (await logs.list(id, { limit: 1 }, { showsOutput: true })).logs
    assert.equal(latest!.request_id, `0123456789abcdef-${answers}`)
  })
  const left = await blocksOf(id)
  const bytes = left.reduce((sum, block) => sum + block.bytes + 150, 0)
  assert.equal(await countedBytes(id), bytes)
  assert.ok(bytes > 7000 && left.length < before.length)
  const positions = before.map(block => block.position).toSorted()
  assert.deepEqual(left.map(block => block.position).toSorted(), positions.slice(-left.length))
})
