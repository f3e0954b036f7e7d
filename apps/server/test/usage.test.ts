// What counts as usage, and reading it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { total, usageOf } from './usage-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_ANON: '5' } })
})
after(() => platform.stop())

const whoami = (project: CreatedProject, apikey = project.service_role_key) =>
  platform.call('GET', `/v1/whoami/${project.id}`, { apikey })

const requestsBecome = (id: string, count: number) =>
  eventually(async () => {
    const requests = total(await usageOf(platform, id), 'requests')
    assert.ok(requests <= count, `${requests} requests are counted`)
    return requests === count
  }, `${count} requests are counted`)

/** Fixed, because the tests may run across the end of an hour. */
const thisHour = Math.floor(Date.now() / 3_600_000)
/** A whole hour, some hours ago. */
const hour = (ago: number) => new Date((thisHour - ago) * 3_600_000)
const insertHour = (id: string, start: Date, requests: number, storage = 0) =>
  platform.app.control.run(sql`
    insert into usage_hours (project_id, bucket_start, requests, bytes_in, bytes_out, function_invocations, storage_bytes)
    values (${id}, ${start}, ${requests}, 1, 2, 3, ${storage})`)

test('usage: admitted requests count with their bytes, whatever their status', async () => {
  const project = await platform.createProject()
  assert.deepEqual(await usageOf(platform, project.id), [])
  assert.equal((await whoami(project)).status, 200)
  assert.equal(
    (await platform.call('GET', `/v1/nothing/${project.id}`, { apikey: project.anon_key })).status,
    404,
  )
  const upload = await platform.call('POST', `/v1/${project.id}/rest/v1/rpc/nothing`, {
    apikey: project.service_role_key,
    body: { text: 'x'.repeat(5000) },
  })
  assert.equal(upload.status, 404)
  await requestsBecome(project.id, 3)
  const usage = await usageOf(platform, project.id)
  assert.ok(total(usage, 'bytes_in') > 5000 && total(usage, 'bytes_in') < 10_000)
  assert.ok(total(usage, 'bytes_out') > 300)
  assert.equal(total(usage, 'function_invocations'), 0)
  assert.match(usage[0]!.bucket_start, /^\d{4}-\d\d-\d\dT\d\d:00:00\.000Z$/)
  assert.equal(usage[0]!.storage_bytes, 0)
})

test('usage: requests that were not admitted and management requests do not count', async () => {
  const project = await platform.createProject()
  assert.equal((await whoami(project, 'wrong')).status, 401)
  const anon = await Promise.all(Array.from({ length: 20 }, () => whoami(project, project.anon_key)))
  const admitted = anon.filter(({ status }) => status === 200).length
  assert.ok(admitted >= 5 && admitted < 20, `${admitted} were admitted`)
  await platform.call('GET', `/api/v1/projects/${project.id}`, { token: platform.adminToken })
  assert.equal((await whoami(project)).status, 200)
  await requestsBecome(project.id, admitted + 1)
})

test('usage: stored files are in the bucket of the hour, and in later ones until they are removed', async () => {
  const project = await platform.createProject()
  const bucket = `/v1/storage/${project.id}/object/files/a.txt`
  const apikey = project.service_role_key
  const put = await platform.call('POST', bucket, { apikey, body: { text: 'x'.repeat(3000) } })
  assert.equal(put.status, 200, JSON.stringify(put.body))
  await requestsBecome(project.id, 1)
  const stored = async () => (await usageOf(platform, project.id))[0]?.storage_bytes ?? 0
  const first = await stored()
  assert.ok(first >= 3000, `${first} bytes`)
  const second = await platform.call('POST', `${bucket}.txt`, { apikey, body: { text: 'x'.repeat(2000) } })
  assert.equal(second.status, 200)
  await requestsBecome(project.id, 2)
  const storage_bytes = await stored()
  assert.ok(storage_bytes >= first + 2000, `${storage_bytes} bytes`)
  // As if the upload was three hours ago.
  await platform.app.control.run(sql`delete from usage_hours where project_id = ${project.id}`)
  await insertHour(project.id, hour(3), 2, storage_bytes)
  const carried = await usageOf(platform, project.id, `?to=${hour(-1).toISOString()}`)
  assert.deepEqual(
    carried.map(bucket => [bucket.bucket_start, bucket.requests, bucket.storage_bytes]),
    [0, 1, 2, 3].map(ago => [hour(ago).toISOString(), ago === 3 ? 2 : 0, storage_bytes]),
  )
  for (const path of [bucket, `${bucket}.txt`])
    assert.equal((await platform.call('DELETE', path, { apikey })).status, 200)
  await requestsBecome(project.id, 4)
  await eventually(async () => (await stored()) === 0, 'the files are not counted any more')
})

test('usage: `from` is inclusive, `to` is exclusive, and the newest bucket is the first', async () => {
  const { id } = await platform.createProject()
  for (const ago of [1, 2, 3, 5]) await insertHour(id, hour(ago), ago)
  const starts = async (query: string) => (await usageOf(platform, id, query)).map(({ requests }) => requests)
  const at = (ago: number, ms = 0) => encodeURIComponent(new Date(hour(ago).getTime() + ms).toISOString())
  assert.deepEqual(await starts(''), [1, 2, 3, 5])
  assert.deepEqual(await starts(`?from=${at(3)}`), [1, 2, 3])
  assert.deepEqual(await starts(`?from=${at(3, 1)}`), [1, 2])
  assert.deepEqual(await starts(`?to=${at(2)}`), [3, 5])
  assert.deepEqual(await starts(`?to=${at(2, 1)}`), [2, 3, 5])
  assert.deepEqual(await starts(`?from=${at(3)}&to=${at(1)}`), [2, 3])
  assert.deepEqual(await starts(`?from=${at(3)}&to=${at(3)}`), [])
  assert.deepEqual(await starts('?limit=2'), [1, 2])
  assert.deepEqual(await starts('?from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z'), [1, 2, 3, 5])
  assert.deepEqual(await starts(`?to=0001-01-01T00:00:00Z`), [])
  const inZone = `${new Date(hour(3).getTime() + 2 * 3_600_000).toISOString().slice(0, -1)}+02:00`
  assert.deepEqual(await starts(`?from=${encodeURIComponent(inZone)}`), [1, 2, 3])
})

test('usage: an answer has 168 buckets, or up to 5000', async () => {
  const { id } = await platform.createProject()
  await platform.app.control.run(sql`
    insert into usage_hours (project_id, bucket_start, storage_bytes) values (${id}, ${hour(2000)}, 1)`)
  await platform.app.control.run(sql`
    insert into usage_days (project_id, bucket_start, requests, bytes_in, bytes_out, function_invocations, storage_bytes)
    values (${id}, '2000-01-01T00:00:00Z', 7, 0, 0, 0, 1)`)
  assert.equal((await usageOf(platform, id)).length, 168)
  assert.equal((await usageOf(platform, id, '?limit=5000')).length, 5000)
  assert.equal((await usageOf(platform, id, '?limit=100000')).length, 5000)
  const [oldest] = await usageOf(platform, id, '?to=2000-01-02T00:00:00Z')
  assert.deepEqual([oldest?.bucket_start, oldest?.requests], ['2000-01-01T00:00:00.000Z', 7])
})

for (const [query, message] of [
  ['limit=0', /limit/],
  ['limit=-1', /limit/],
  ['limit=1.5', /limit/],
  ['limit=many', /limit/],
  ['from=yesterday', /from/],
  ['from=2026-02-30T00:00:00Z', /from/],
  ['from=2016-12-31T23:59:60Z', /from/],
  ['to=2026-01-01', /to/],
  ['to=', /to/],
  ['from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', /from/],
] as const)
  test(`usage: ${query} is 400 and the message names the parameter`, async () => {
    const { id } = await sharedProject()
    const reply = await platform.call('GET', `/api/v1/projects/${id}/usage?${query}`, {
      token: platform.adminToken,
    })
    assert.deepEqual([reply.status, reply.body.error?.code], [400, 'invalid_request'], query)
    assert.match(reply.body.error.message, message)
  })

let shared: Promise<CreatedProject> | undefined
function sharedProject(): Promise<CreatedProject> {
  shared ??= platform.createProject()
  return shared
}

test('usage: an unknown project is 404, and without a credential it is 401', async () => {
  const path = `/api/v1/projects/${crypto.randomUUID()}/usage`
  assert.equal((await platform.call('GET', path, { token: platform.adminToken })).status, 404)
  assert.equal((await platform.call('GET', path)).status, 401)
})
