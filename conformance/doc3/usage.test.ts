// 3 §4 "eIDAS configuration, logs, usage", 3 §3 and §8: usage buckets.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CreatedProject, createProject, mintToken, someId } from '../people.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
let project: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it)
})
after(() => it.stop())

const usage = (query = '', token = it.adminToken) =>
  it.call('GET', `/api/v1/projects/${project.id}/usage${query}`, { token })

test('3 §3 a usage bucket has its fields, and requests appear in the bucket of their hour', async () => {
  const startedAt = Date.now()
  for (let sent = 0; sent < 3; sent++)
    await it.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key })
  const buckets = await until('three requests are counted', async () => {
    const { status, body, text } = await usage()
    assert.equal(status, 200, text)
    const requests = body.usage.reduce((sum: number, bucket: any) => sum + bucket.requests, 0)
    return requests === 3 && (body.usage as any[])
  })
  const [newest] = buckets
  assert.deepEqual(Object.keys(newest).sort(), [
    'bucket_start',
    'bytes_in',
    'bytes_out',
    'function_invocations',
    'requests',
    'storage_bytes',
  ])
  assert.ok(newest.bytes_in > 0 && newest.bytes_out > 0)
  assert.deepEqual([newest.function_invocations, newest.storage_bytes], [0, 0])
  const start = Date.parse(newest.bucket_start)
  assert.equal(start % 3_600_000, 0)
  assert.ok(start <= Date.now() && start > startedAt - 3_600_000)
})

test('3 §4 `from` and `to` bound bucket_start', async () => {
  const { body } = await until('a request is counted', async () => {
    await it.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key })
    const reply = await usage()
    return reply.body.usage.length > 0 && reply
  })
  const start: string = body.usage[0].bucket_start
  const next = new Date(Date.parse(start) + 1).toISOString()
  const starts = async (query: string) =>
    (await usage(query)).body.usage.map(({ bucket_start }: any) => bucket_start)
  assert.ok((await starts(`?from=${start}`)).includes(start))
  assert.ok(!(await starts(`?from=${next}`)).includes(start))
  assert.ok(!(await starts(`?to=${start}`)).includes(start))
  assert.deepEqual(await starts(`?from=${start}&to=${next}`), [start])
})

test('3 §8 `limit` is 1 to 5000', async () => {
  assert.equal((await usage('?limit=1')).body.usage.length, 1)
  for (const limit of ['5000', '5001']) assert.equal((await usage(`?limit=${limit}`)).status, 200)
  for (const query of ['?limit=0', '?limit=x', '?from=today', '?to=2026-13-01T00:00:00Z'])
    assertManagementError(await usage(query), 'invalid_request')
})

test('3 §5 usage needs read scope', async () => {
  assert.equal((await usage('', (await mintToken(it, 'read')).token)).status, 200)
  assertManagementError(await usage('', 'wrong'), 'unauthorized')
  const unknown = await it.manage('GET', `/projects/${someId}/usage`)
  assertManagementError(unknown, 'project_not_found')
})
