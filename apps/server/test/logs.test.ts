// The merged log of a project over HTTP.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { LogEntry } from '@plinth/contract/logs.ts'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { readLogs, readWholeLog } from './logs-reading.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_ANON: '0' } })
})
after(() => platform.stop())

const whoami = (project: CreatedProject, headers: Record<string, string> = {}) =>
  platform.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key, headers })

/** Waits until the log has so many entries. */
const logsOf = (project: CreatedProject, count: number, query = '') =>
  eventually(async () => {
    const logs = await readWholeLog(platform, project.id, query)
    return logs.length >= count ? logs : undefined
  }, `${count} entries`)

test('logs: an admitted request to the data plane is an entry with telemetry only', async () => {
  const project = await platform.createProject()
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
  const reply = await platform.call('GET', `/v1/whoami/${project.id}?secret=hunter2`, {
    apikey: project.anon_key,
    headers: { traceparent: `00-${trace}-00f067aa0ba902b7-01` },
  })
  const [entry] = await logsOf(project, 1)
  const { id, timestamp, duration_ms, bytes_in, bytes_out, ...rest } = entry!
  assert.deepEqual(rest, {
    source: 'access',
    method: 'GET',
    route: '/v1/whoami/{project}',
    service: 'whoami',
    function: null,
    status: 200,
    role: 'anon',
    request_id: reply.headers.get('x-request-id'),
    trace_id: trace,
    level: 'info',
    event: 'request',
    message: 'GET /v1/whoami/{project} 200',
  })
  assert.match(id, /^\d{16}$/)
  assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 3_600_000)
  assert.ok(duration_ms! >= 0 && bytes_in! > 50 && bytes_out! > 50)
  const line = platform.logged.map(each => JSON.parse(each)).find(each => each.id === rest.request_id)
  assert.equal(line.trace_id, trace)
})

test('logs: neither refused callers nor the management API are in the log', async () => {
  const project = await platform.createProject()
  await platform.call('GET', `/v1/whoami/${project.id}`, { apikey: 'wrong' })
  await platform.call('GET', `/v1/whoami/${project.id}`)
  await platform.projects.read({ params: { id: project.id } })
  await whoami(project, { traceparent: 'not a trace' })
  // An answer to an admitted caller is in the log, whatever its status.
  await platform.call('GET', `/v1/rest/${project.id}/absent`, { apikey: project.anon_key })
  const logs = await logsOf(project, 2)
  assert.deepEqual(
    logs.map(({ service, status, trace_id }) => [service, status, trace_id]),
    [
      ['rest', 404, null],
      ['whoami', 200, null],
    ],
  )
})

test('logs: the latest entries come first, and pages neither skip nor repeat while entries come in', async () => {
  const project = await platform.createProject()
  const ids: (string | null)[] = []
  const ask = async () => {
    const reply = await whoami(project)
    ids.unshift(reply.headers.get('x-request-id'))
  }
  for (let count = 0; count < 7; count++) await ask()
  await logsOf(project, 7)
  const seen: LogEntry[] = []
  const expected = [...ids]
  let before: string | null = null
  do {
    const page = await readLogs(platform, project.id, `limit=2${before ? `&before=${before}` : ''}`)
    assert.ok(page.logs.length <= 2)
    seen.push(...page.logs)
    before = page.next_before
    await ask()
    await logsOf(project, ids.length)
  } while (before !== null)
  assert.deepEqual(
    seen.map(each => each.request_id),
    expected,
  )
})

test('logs: filters select entries', async () => {
  const project = await platform.createProject()
  const first = await whoami(project)
  await platform.call('GET', `/v1/rest/${project.id}/absent`, { apikey: project.anon_key })
  await platform.call('POST', `/v1/rest/${project.id}/rpc/absent`, { apikey: project.anon_key, body: {} })
  const all = await logsOf(project, 3)
  const statuses = async (query: string) =>
    (await readWholeLog(platform, project.id, query)).map(each => each.status)
  assert.deepEqual(await statuses('status=4xx'), [404, 404])
  assert.deepEqual(await statuses('status=200'), [200])
  assert.deepEqual(await statuses('status=5xx'), [])
  assert.deepEqual(await statuses('route=/whoami/'), [200])
  assert.deepEqual(await statuses(`request_id=${first.headers.get('x-request-id')}`), [200])
  assert.deepEqual(await statuses('text=WHOAMI'), [200])
  assert.deepEqual(await statuses('text=post'), [404])
  assert.deepEqual(await statuses('source=function'), [])
  assert.deepEqual((await statuses('source=access')).length, 3)
  const [latest, , oldest] = all
  // `from` is inclusive, `to` exclusive.
  assert.equal((await statuses(`from=${oldest!.timestamp}`)).length, 3)
  const later = new Date(Date.parse(latest!.timestamp) + 1).toISOString()
  assert.deepEqual(await statuses(`from=${later}`), [])
  assert.equal((await statuses(`to=${later}`)).length, 3)
  assert.deepEqual(await statuses(`to=${oldest!.timestamp}`), [])
  assert.equal((await statuses(`after=${oldest!.id}`)).length, 2)
  assert.deepEqual(await statuses(`after=${latest!.id}`), [])
})

test('logs: an invalid query is 400 and says what is wrong', async () => {
  const { id } = await platform.createProject()
  const invalid: [query: string, message: RegExp][] = [
    ['before=xyz', /"before" must be the next_before of an earlier answer/],
    ['before=', /"before" must be/],
    [`before=${Buffer.from('0').toString('base64url')}`, /"before" must be/],
    [`before=${Buffer.from('99999999999999999').toString('base64url')}`, /"before" must be/],
    ['source=everything', /"source".*function, access, all/],
    ['limit=0', /"limit"/],
    ['limit=many', /"limit"/],
    ['status=9xx', /"status" must be a status like 404, or a class like 5xx/],
    ['from=yesterday', /"from" must be a time with an offset, such as 2030-/],
    ['from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', /"from" must be earlier than "to"/],
    ['after=-1', /"after" must be the id of an entry/],
    [`text=${'x'.repeat(201)}`, /"text"/],
  ]
  for (const [query, message] of invalid) {
    const { status, body } = await platform.call('GET', `/api/v1/projects/${id}/logs?${query}`, {
      token: platform.adminToken,
    })
    assert.equal(status, 400, query)
    assert.equal(body.error.code, 'invalid_request')
    assert.match(body.error.message, message)
  }
  // Larger limits are clamped.
  assert.deepEqual(await readLogs(platform, id, 'limit=100000'), { logs: [], next_before: null })
})

test('logs: a project never sees entries of another one, and its own are deleted with it', async () => {
  const [mine, other] = [await platform.createProject(), await platform.createProject()]
  await whoami(mine)
  await whoami(other)
  const logs = await logsOf(mine, 1)
  assert.equal(logs.length, 1)
  const cursor = Buffer.from(String(Number(logs[0]!.id) + 1_000_000_000)).toString('base64url')
  const page = await readLogs(platform, mine.id, `before=${cursor}`)
  assert.deepEqual(page.logs, logs)

  const stored = async (id: string) => {
    const found = await platform.app.control.row<{ count: string }>(sql`
      select (select count(*) from access_log_blocks where project_id = ${id})
           + (select count(*) from project_log_state where project_id = ${id}) as count`)
    return Number(found!.count)
  }
  assert.equal(await stored(mine.id), 2)
  await platform.projects.remove({ params: { id: mine.id } })
  const reply = await platform.call('GET', `/api/v1/projects/${mine.id}/logs`, { token: platform.adminToken })
  assert.equal(reply.status, 404)
  assert.equal(await stored(mine.id), 0)
  assert.equal(await stored(other.id), 2)
})
