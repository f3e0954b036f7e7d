// Queues with supabase-js: rpc in schema pgmq_public, which a project has to expose first.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient } from '@supabase/supabase-js'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type QueueProject, queueProject } from './queue-database.ts'

let platform: TestPlatform
let project: QueueProject

before(async () => {
  platform = await startPlatform()
  project = await queueProject(platform)
  await project.rows(`select pgmq.create('jobs')`)
})
after(async () => {
  await project?.close()
  await platform.stop()
})

const queues = (key: string, token?: string) =>
  createClient<any>(`${platform.url}/v1/${project.id}`, key, {
    auth: { persistSession: false, autoRefreshToken: false },
    ...(token !== undefined && { accessToken: async () => token }),
  }).schema('pgmq_public')

test('pgmq, supabase-js: pgmq_public is not served by default', async () => {
  const { error, status } = await queues(project.serviceRoleKey).rpc('pop', { queue_name: 'jobs' })
  assert.deepEqual([status, error?.code], [406, 'PGRST106'])
})

test('pgmq, supabase-js: once exposed, all six calls work with the service_role key', async () => {
  await platform.projects.update({
    params: { id: project.id },
    body: { settings: { exposed_schemas: ['public', 'pgmq_public'] } },
  })
  const service = queues(project.serviceRoleKey)
  const call = async (name: string, given: object) => {
    const { data, error } = await service.rpc(name, { queue_name: 'jobs', ...given })
    assert.equal(error, null, `${name}: ${JSON.stringify(error)}`)
    return data
  }
  assert.deepEqual(await call('send', { message: { a: 1 }, sleep_seconds: 0 }), [1])
  assert.deepEqual(await call('send', { message: { b: 1 } }), [2])
  assert.deepEqual(await call('send_batch', { messages: [{ c: 1 }, { d: 1 }], sleep_seconds: 0 }), [3, 4])
  assert.deepEqual(await call('send_batch', { messages: [{ e: 1 }], sleep_seconds: 3600 }), [5])
  const read: any = await call('read', { sleep_seconds: 3600, n: 2 })
  assert.deepEqual(
    read.map(({ msg_id, read_ct, message, headers }: any) => ({ msg_id, read_ct, message, headers })),
    [
      { msg_id: 1, read_ct: 1, message: { a: 1 }, headers: null },
      { msg_id: 2, read_ct: 1, message: { b: 1 }, headers: null },
    ],
  )
  assert.ok(!Number.isNaN(Date.parse(read[0].vt)) && !Number.isNaN(Date.parse(read[0].enqueued_at)))
  const popped: any = await call('pop', {})
  assert.deepEqual([popped.length, popped[0].msg_id, popped[0].message], [1, 3, { c: 1 }])
  assert.equal(await call('archive', { message_id: 1 }), true)
  assert.equal(await call('archive', { message_id: 1 }), false)
  assert.equal(await call('delete', { message_id: 2 }), true)
  assert.equal(await call('delete', { message_id: 2 }), false)
  assert.deepEqual(await project.values('select msg_id from pgmq.q_jobs order by 1'), ['4', '5'])
  assert.deepEqual(await project.values('select msg_id from pgmq.a_jobs'), ['1'])
})

test('pgmq, supabase-js: a missing queue is 404, and an invalid name is 400', async () => {
  const service = queues(project.serviceRoleKey)
  const missing = await service.rpc('pop', { queue_name: 'nowhere' })
  assert.deepEqual([missing.status, missing.error?.code], [404, '42P01'])
  const impossible = await service.rpc('pop', { queue_name: 'a;b' })
  assert.deepEqual([impossible.status, impossible.error?.code], [400, '22023'])
})

test('pgmq, supabase-js: the anon key and signed-in users have no access', async () => {
  const user = signJwt({ sub: crypto.randomUUID(), role: 'authenticated' }, project.jwtSecret)
  const clients = { anon: queues(project.anonKey), authenticated: queues(project.anonKey, user) }
  for (const [role, client] of Object.entries(clients))
    for (const [name, given] of [
      ['send', { message: {}, sleep_seconds: 0 }],
      ['send_batch', { messages: [{}], sleep_seconds: 0 }],
      ['read', { sleep_seconds: 0, n: 1 }],
      ['pop', {}],
      ['archive', { message_id: 4 }],
      ['delete', { message_id: 4 }],
    ] as const) {
      const { status, error } = await client.rpc(name, { queue_name: 'jobs', ...given })
      assert.deepEqual([status, error?.code], [403, '42501'], `${role}: ${name}`)
    }
  assert.deepEqual(await project.values('select msg_id from pgmq.q_jobs order by 1'), ['4', '5'])
})

test('pgmq, supabase-js: the API documentation contains the calls', async () => {
  for (const path of ['types/typescript?schemas=pgmq_public', 'docs?schema=pgmq_public']) {
    const { status, body } = await platform.call('GET', `/api/v1/projects/${project.id}/${path}`, {
      token: platform.adminToken,
    })
    assert.equal(status, 200, path)
    assert.match(typeof body === 'string' ? body : JSON.stringify(body), /send_batch.*sleep_seconds/s, path)
  }
})
