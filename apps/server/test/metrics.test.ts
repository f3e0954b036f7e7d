// GET /metrics: who may read it, what it contains, and that the dashboard names what exists.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { createMetrics, type Metric } from '#src/kernel/metrics.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { type Family, parseExposition } from './exposition.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

async function scrape(node = platform): Promise<Map<string, Family>> {
  const { status, headers, body } = await node.call('GET', '/metrics')
  assert.equal(status, 200)
  assert.equal(headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  return parseExposition(body)
}

/** The value of the only series with these labels. */
function seriesValue(
  families: Map<string, Family>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ''))
  const found = family?.samples.filter(
    sample =>
      sample.name === name && Object.entries(labels).every(([key, text]) => sample.labels[key] === text),
  )
  assert.equal(found?.length, 1, `one series ${name} ${JSON.stringify(labels)}`)
  return found![0]!.value
}

test('metrics: requests are counted by service, plane and class of status', async () => {
  const project = await platform.createProject()
  const whoami = { service: 'whoami', plane: 'data' }
  const call = (apikey: string) => platform.call('GET', `/v1/whoami/${project.id}`, { apikey })
  for (let sent = 0; sent < 3; sent++) assert.equal((await call(project.anon_key)).status, 200)
  assert.equal((await call('wrong')).status, 401)
  await platform.call('GET', '/nothing')
  const families = await eventually(async () => {
    const found = await scrape()
    const has = found
      .get('plinth_http_requests_total')
      ?.samples.some(({ labels }) => labels['plane'] === 'none')
    return has ? found : undefined
  }, 'the last request is counted')
  const requests = (labels: Record<string, string>) =>
    seriesValue(families, 'plinth_http_requests_total', labels)
  assert.equal(requests({ ...whoami, status: '2xx' }), 3)
  assert.equal(requests({ ...whoami, status: '4xx' }), 1)
  assert.ok(requests({ service: 'projects', plane: 'management', status: '2xx' }) >= 1)
  assert.equal(requests({ service: 'none', plane: 'none', status: '4xx' }), 1)
  assert.equal(seriesValue(families, 'plinth_http_request_duration_seconds_count', whoami), 4)
  // Times have a precision of 0.1 ms.
  const projects = { service: 'projects', plane: 'management' }
  assert.ok(seriesValue(families, 'plinth_http_request_duration_seconds_sum', projects) > 0)
  assert.ok(seriesValue(families, 'plinth_http_received_bytes_total', whoami) > 100)
  assert.ok(seriesValue(families, 'plinth_http_sent_bytes_total', whoami) > 100)
})

test('metrics: pools, workers, queues, sockets and the process have values', async () => {
  const families = await scrape()
  const value = (name: string, labels?: Record<string, string>) => seriesValue(families, name, labels)
  assert.equal(value('plinth_postgres_up'), 1)
  for (const pool of ['control', 'projects']) {
    assert.ok(
      value('plinth_database_connections', { pool }) <= value('plinth_database_connections_max', { pool }),
    )
    assert.ok(value('plinth_database_connections_busy', { pool }) >= 0)
    assert.equal(value('plinth_database_waiting', { pool }), 0)
  }
  assert.equal(value('plinth_database_connections_max', { pool: 'projects' }), 200)
  for (const queue of ['mail', 'cron', 'outbox', 'unused_files'])
    assert.equal(value('plinth_queue_depth', { queue }), 0, queue)
  for (const worker of ['mail', 'cron', 'outbox', 'storage']) {
    assert.equal(value('plinth_worker_jobs', { worker }), 0, worker)
    assert.ok(value('plinth_worker_slots', { worker }) > 0, worker)
  }
  assert.equal(value('plinth_outbox_lag_seconds'), 0)
  for (const kind of ['realtime', 'function']) assert.equal(value('plinth_sockets', { kind }), 0)
  assert.equal(value('plinth_function_workers'), 0)
  assert.equal(value('plinth_function_workers_max'), 16)
  assert.ok(value('process_cpu_seconds_total') > 0)
  assert.ok(value('process_resident_memory_bytes') > 1e7)
  assert.ok(value('plinth_heap_bytes') > 1e6)
  assert.ok(value('process_start_time_seconds') < Date.now() / 1000)
  for (const quantile of ['0.5', '0.99', '1'])
    assert.ok(value('plinth_event_loop_delay_seconds', { quantile }) >= 0)
})

test('metrics: depths of queues are those of the control database', async () => {
  const { id } = await platform.createProject()
  // Suspended, so that no worker takes the mail.
  await platform.app.control.run(sql`update projects set status = 'suspended' where id = ${id}`)
  await platform.app.control.run(sql`
    insert into mail_queue (id, project_id, content) select gen_random_uuid(), ${id}, 'sealed' from generate_series(1, 3)`)
  await eventually(
    async () => seriesValue(await scrape(), 'plinth_queue_depth', { queue: 'mail' }) === 3,
    'the queue has three mails',
  )
  await platform.app.control.run(sql`delete from mail_queue where project_id = ${id}`)
})

test('metrics: the lag of the outbox is that of the oldest mark of an active project', async () => {
  const { id } = await platform.createProject()
  const lag = platform.app.outbox.metrics.find(({ name }) => name === 'plinth_outbox_lag_seconds')!
  const undone = new Error('undone, so that no worker relays')
  const seconds: number[] = []
  const measuring = platform.app.control.transaction(async session => {
    await session.run(sql`
      insert into outbox_marks (project_id, check_at) values (${id}, now() - interval '1 hour')`)
    seconds.push(await lag.poll!(session))
    await session.run(sql`update projects set status = 'suspended' where id = ${id}`)
    seconds.push(await lag.poll!(session))
    throw undone
  })
  await assert.rejects(measuring, undone)
  assert.deepEqual(seconds, [3600, 0])
})

test('metrics: no label contains what callers send', async () => {
  const project = await platform.createProject()
  await platform.call('GET', `/v1/rest/${project.id}/nothing-of-the-kind?token=hunter2`, {
    apikey: project.anon_key,
  })
  const { body } = await platform.call('GET', '/metrics')
  for (const text of [project.id, 'hunter2', 'nothing-of-the-kind']) assert.ok(!body.includes(text), text)
})

test('metrics: without a token they are for this machine only, and only at the root', async () => {
  const forwarded = await platform.call('GET', '/metrics', { headers: { 'x-forwarded-for': '203.0.113.7' } })
  assert.deepEqual([forwarded.status, forwarded.body.error.code], [404, 'route_not_found'])
  assert.equal((await platform.call('GET', '/api/v1/metrics')).status, 401)
})

test('metrics: with PLATFORM_METRICS_TOKEN they need it', async () => {
  const token = 'f3b1c09d7e5a42468f7c0a9be1d25d3b'
  const other = await startPlatform({ beside: platform, settings: { PLATFORM_METRICS_TOKEN: token } })
  try {
    const refused = await other.call('GET', '/metrics', { token: platform.adminToken })
    assert.deepEqual([refused.status, refused.body.error.code], [401, 'unauthorized'])
    assert.equal((await other.call('GET', '/metrics')).status, 401)
    const reply = await other.call('GET', '/metrics', {
      token,
      headers: { 'x-forwarded-for': '203.0.113.7' },
    })
    assert.equal(reply.status, 200)
    parseExposition(reply.body)
  } finally {
    await other.stop()
  }
})

test('metrics: while the control database does not answer, a scrape says so', async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  // All connections of the pool.
  const busy = Array.from({ length: 10 }, () => platform.app.control.transaction(() => released))
  const down = await eventually(async () => {
    const families = await scrape()
    return seriesValue(families, 'plinth_postgres_up') === 0 ? families : undefined
  }, 'the database counts as down')
  assert.equal(down.has('plinth_queue_depth'), false)
  assert.ok(seriesValue(down, 'plinth_database_connections', { pool: 'control' }) > 0)
  release()
  await Promise.all(busy)
  await eventually(
    async () => seriesValue(await scrape(), 'plinth_postgres_up') === 1,
    'the database counts as up again',
  )
})

const quiet = { debug() {} } as never

test('metrics: scrapes at the same time read the database once, and one that fails hides no other', async () => {
  const metrics = createMetrics(platform.app.control, quiet)
  let polls = 0
  const gauge = { type: 'gauge', help: 'Help.' } as const
  const failing: Metric = {
    ...gauge,
    name: 'failing',
    poll: async session => Number(await session.run(sql`select 1 / 0`)),
  }
  const slow: Metric = {
    ...gauge,
    name: 'slow',
    poll: async session => Number(await session.run(sql`select pg_sleep(600)`)),
  }
  const working: Metric = {
    ...gauge,
    name: 'working',
    labels: { text: 'a "quoted"\\\n text' },
    poll: async () => ++polls,
  }
  metrics.add([failing, working])
  const texts = await Promise.all(Array.from({ length: 50 }, () => metrics.text()))
  assert.equal(polls, 1)
  for (const text of texts) {
    const families = parseExposition(text)
    assert.equal(seriesValue(families, 'working', { text: 'a "quoted"\\\n text' }), 1)
    assert.equal(families.has('failing'), false)
  }
  const others = createMetrics(platform.app.control, quiet)
  others.add([slow, working])
  await eventually(
    async () => parseExposition(await others.text()).has('working'),
    'the statement timeout ends the slow one',
  )
})

interface Panel {
  title: string
  targets?: { expr: string }[]
  panels?: Panel[]
}

test('metrics: the dashboard names only metrics that exist', async () => {
  const dashboard = JSON.parse(
    readFileSync(new URL('../../../docs/grafana-dashboard.json', import.meta.url), 'utf8'),
  ) as { panels: Panel[] }
  const targets = (panels: Panel[]): string[] =>
    panels.flatMap(({ targets: own = [], panels: inner = [] }) => [
      ...own.map(({ expr }) => expr),
      ...targets(inner),
    ])
  const named = new Set(
    targets(dashboard.panels).flatMap(expr => expr.match(/\b(?:plinth|process)_\w+/g) ?? []),
  )
  // Ages of backups exist when there is a verified one. A node that runs already would notice it only after a while.
  const project = await backedUpProject(platform)
  const { id } = await project.backUp()
  assert.equal((await project.verify(id)).verify_error, null)
  const looking = await startPlatform({ beside: platform })
  const withAges = await eventually(async () => {
    const found = await scrape(looking)
    return found.has('plinth_backup_verified_age_seconds') ? found : undefined
  }, 'the ages of backups are read').finally(() => looking.stop())
  const families = [...(await scrape()).values(), ...withAges.values()]
  const exposed = new Set(families.flatMap(({ samples }) => samples.map(({ name }) => name)))
  assert.ok(named.size >= 15)
  assert.deepEqual(
    [...named].filter(name => !exposed.has(name)),
    [],
  )
  assert.deepEqual(
    [...exposed].filter(name => name.startsWith('plinth_backup') && !named.has(name)),
    [],
  )
})
