// The quota `max_database_size_mb`: above it a project can only read and delete, and other projects are not affected.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { eventually } from './eventually.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'

const megabyte = 1024 * 1024
let platform: TestPlatform
let full: CreatedProject
let other: CreatedProject

const schema = `
  create table notes (id int primary key, text text default '');
  insert into notes select i from generate_series(1, 20) i;
  create policy everybody on notes using (true) with check (true);
  create function count_notes() returns bigint language sql as 'select count(*) from notes';
  create function count_stable() returns bigint language sql stable as 'select count(*) from notes';
  create function add_note(note_id int) returns void language sql as 'insert into notes values (note_id)';`

before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0' } })
  ;[full, other] = await Promise.all([platform.createProject(), platform.createProject()])
  for (const project of [full, other]) await execSql(project, schema)
  assert.equal((await queue('POST', '', { name: 'mail' })).status, 201)
  await expect(queue('POST', '/mail/send_batch', { messages: [1, 2, 3, 4] }), 200)
  assert.equal((await file('POST', 'bucket', { body: { id: 'b', name: 'b' } })).status, 200)
  for (const name of ['a', 'c']) assert.equal((await upload(name)).status, 200)
  await setQuota(full, 1)
  await eventually(async () => (await insert(full)).status === 413, 'inserts are rejected')
})
after(() => platform?.stop())

const call = (project: CreatedProject, method: string, path: string, options: CallOptions = {}) =>
  platform.call(method, `/v1/${path.replace('*', project.id)}`, {
    apikey: project.service_role_key,
    token: project.service_role_key,
    ...options,
  })
const rows = (project: CreatedProject, method: string, path: string, body?: unknown) =>
  call(project, method, `rest/*/${path}`, body === undefined ? {} : { body })
const execSql = async (project: CreatedProject, sql: string) => {
  const reply = await rows(project, 'POST', 'rpc/exec_sql', { sql })
  assert.equal(reply.status, 200, JSON.stringify(reply.body))
  return reply.body
}
const queue = (method: string, path: string, body?: unknown) =>
  call(full, method, `queue/*/queues${path}`, body === undefined ? {} : { body })
const file = (method: string, path: string, options: CallOptions = {}) =>
  call(full, method, `storage/*/${path}`, options)
const upload = (name: string) =>
  file('POST', `object/b/${name}`, { body: 'some text', headers: { 'content-type': 'text/plain' } })
let nextId = 1000
const insert = (project: CreatedProject) => rows(project, 'POST', 'notes', { id: nextId++ })
const setQuota = async (project: CreatedProject, max_database_size_mb: number | null) => {
  await platform.projects.update({ params: { id: project.id }, body: { quotas: { max_database_size_mb } } })
}
const sizeOf = async (project: CreatedProject) =>
  (await platform.projects.read({ params: { id: project.id } })).database_bytes!
const manage = (method: string, path: string, body?: unknown) =>
  platform.call(method, `/api/v1/projects/${full.id}${path}`, { token: platform.adminToken, body })

async function expect(reply: Promise<Reply>, status: number): Promise<Reply> {
  const got = await reply
  assert.equal(got.status, status, JSON.stringify(got.body))
  return got
}
async function refused(reply: Promise<Reply>): Promise<void> {
  const { status, body } = await reply
  assert.deepEqual([status, body.code], [413, 'database_quota_exceeded'], JSON.stringify(body))
}

describe('rows of a project over its quota', () => {
  test('database quota: POST, PATCH and PUT are 413 with sizes and a hint', async () => {
    await refused(rows(full, 'POST', 'notes', { id: 500 }))
    await refused(rows(full, 'PATCH', 'notes?id=eq.1', { text: 'x' }))
    await refused(rows(full, 'PUT', 'notes?id=eq.1', { id: 1, text: 'x' }))
    const { body } = await rows(full, 'POST', 'notes', { id: 500 })
    const { details, hint, message, ...rest } = body
    assert.deepEqual(rest, { code: 'database_quota_exceeded', error: message, statusCode: 413 })
    const { used_bytes, limit_bytes } = JSON.parse(details)
    assert.ok(used_bytes > limit_bytes)
    assert.equal(limit_bytes, megabyte)
    assert.match(hint, /VACUUM FULL.*max_database_size_mb/)
    assert.deepEqual((await rows(full, 'GET', 'notes?id=in.(1,500)')).body, [{ id: 1, text: '' }])
  })

  test('database quota: the check runs after the credential and before the body', async () => {
    await refused(rows(full, 'POST', 'notes', '{ this is no JSON'))
    const reply = await call(full, 'POST', 'rest/*/notes', { apikey: 'no key', token: 'no key', body: {} })
    assert.equal(reply.status, 401)
  })

  test('database quota: GET, HEAD, DELETE, exec_sql and migrations work', async () => {
    await expect(rows(full, 'GET', 'notes?limit=1'), 200)
    await expect(rows(full, 'HEAD', 'notes'), 200)
    await expect(rows(full, 'DELETE', 'notes?id=eq.20'), 204)
    assert.deepEqual(await execSql(full, 'select count(*) from notes where id = 20'), [{ count: 0 }])
    await execSql(full, 'vacuum full notes')
    const pushed = await manage('POST', '/db/push', {
      migrations: [{ version: '1', name: 'more', sql: 'create table more (id int)' }],
    })
    assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  })

  test('database quota: functions that only read work, and one that writes is 413', async () => {
    await expect(rows(full, 'GET', 'rpc/count_stable'), 200)
    await expect(rows(full, 'POST', 'rpc/count_stable', {}), 200)
    await expect(rows(full, 'POST', 'rpc/count_notes', {}), 200)
    await refused(rows(full, 'POST', 'rpc/add_note', { note_id: 600 }))
    assert.deepEqual((await rows(full, 'GET', 'notes?id=eq.600')).body, [])
    await expect(rows(other, 'POST', 'rpc/add_note', { note_id: 600 }), 204)
  })

  test('database quota: a project without the quota is not affected', async () => {
    await expect(insert(other), 201)
  })
})

test('database quota: send, create and replay of queues are 413, other queue routes work', async () => {
  await refused(queue('POST', '', { name: 'another' }))
  await refused(queue('POST', '/mail/send', { message: 1 }))
  await refused(queue('POST', '/mail/send_batch', { messages: [1] }))
  const [first] = (await expect(queue('POST', '/mail/read', { vt: 0, qty: 1 }), 200)).body
  await expect(queue('POST', '/mail/archive', { msg_id: first.msg_id }), 200)
  await refused(queue('POST', '/mail/replay', { msg_id: first.msg_id }))
  await expect(queue('POST', '/mail/pop'), 200)
  const [second] = (await expect(queue('POST', '/mail/read', { vt: 0, qty: 1 }), 200)).body
  assert.equal((await expect(queue('POST', '/mail/ack', { msg_id: second.msg_id }), 200)).body.acked, true)
  await expect(queue('GET', '/mail/metrics'), 200)
  await expect(queue('DELETE', '/mail'), 204)
})

describe('files of a project over its quota', () => {
  const tus = { 'tus-resumable': '1.0.0' }

  test('database quota: uploads, copies, moves and bucket changes are 413 in the format of storage', async () => {
    const carry = { bucketId: 'b', sourceKey: 'a', destinationKey: 'z' }
    await refused(upload('new'))
    await refused(file('PUT', 'object/b/a', { body: 'x', headers: { 'content-type': 'text/plain' } }))
    await refused(file('POST', 'object/copy', { body: carry }))
    await refused(file('POST', 'object/move', { body: carry }))
    await refused(file('POST', 'bucket', { body: { name: 'new' } }))
    await refused(file('PUT', 'bucket/b', { body: { public: true } }))
    const signed = await expect(file('POST', 'object/upload/sign/b/signed', { body: {} }), 200)
    await refused(
      file('PUT', `object/upload/sign/b/signed?token=${signed.body.token}`, {
        body: 'x',
        headers: { 'content-type': 'text/plain' },
      }),
    )
    const { body } = await upload('new')
    assert.equal(body.error, 'database_quota_exceeded')
    assert.equal(body.limit_bytes, megabyte)
    assert.ok(body.used_bytes > megabyte)
    assert.equal(body.details, '')
  })

  test('database quota: resumable uploads cannot be created or continued, but deleted', async () => {
    const metadata = `bucketName ${Buffer.from('b').toString('base64')},objectName ${Buffer.from('t').toString('base64')}`
    const create = () =>
      file('POST', 'upload/resumable', {
        headers: { ...tus, 'upload-length': '4', 'upload-metadata': metadata },
      })
    await refused(create())
    await setQuota(full, null)
    const begun = await expect(create(), 201)
    await setQuota(full, 1)
    await eventually(async () => (await insert(full)).status === 413, 'inserts are rejected')
    const path = new URL(begun.headers.get('location')!).pathname.replace(/^.*?\/upload\//, 'upload/')
    const bytes = { ...tus, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' }
    await refused(file('PATCH', path, { body: 'text', headers: bytes }))
    const overriding = (method: string) => ({ ...bytes, 'x-http-method-override': method })
    await refused(file('POST', path, { body: 'text', headers: overriding('PATCH') }))
    // X-HTTP-Method-Override applies to resumable uploads only.
    await refused(
      file('POST', 'object/b/sly', {
        body: 'x',
        headers: { ...overriding('DELETE'), 'content-type': 'text/plain' },
      }),
    )
    assert.equal((await expect(file('HEAD', path, { headers: tus }), 200)).headers.get('upload-offset'), '0')
    await expect(file('POST', path, { headers: overriding('DELETE') }), 204)
  })

  test('database quota: downloads, lists, signed URLs and deletes work', async () => {
    await expect(file('GET', 'object/b/a'), 200)
    await expect(file('POST', 'object/list/b', { body: {} }), 200)
    await expect(file('POST', 'object/sign/b/a', { body: { expiresIn: 60 } }), 200)
    await expect(file('DELETE', 'object/b/a'), 200)
    await expect(file('POST', 'bucket/b/empty'), 200)
    await expect(file('DELETE', 'bucket/b'), 200)
  })
})

test('database quota: sign-up, sign-in and job scheduling work over the quota', async () => {
  const user = { email: 'ada@example.test', password: 'correct horse' }
  await expect(call(full, 'POST', 'auth/*/signup', { body: user }), 200)
  await expect(call(full, 'POST', 'auth/*/token?grant_type=password', { body: user }), 200)
  const job = { name: 'tidy', schedule: '0 0 * * *', command: 'delete from notes' }
  const scheduled = await call(full, 'POST', 'cron/*/jobs', { body: job })
  assert.ok(scheduled.status < 300, JSON.stringify(scheduled.body))
})

test('database quota: another node enforces it as well', async () => {
  const node = await startPlatform({ beside: platform })
  try {
    await eventually(async () => {
      const path = `/v1/rest/${full.id}/notes`
      const reply = await node.call('POST', path, { apikey: full.service_role_key, body: { id: nextId++ } })
      return reply.status === 413
    }, 'the other node rejects inserts')
  } finally {
    await node.stop()
  }
})

test('database quota: writes work again soon after space is freed, and at once after the quota is raised or removed', async () => {
  const project = await platform.createProject()
  await execSql(project, schema)
  // Random text is not compressed: 1 kB per row.
  const filling = `insert into notes select i, (select string_agg(md5(random()::text), '') from generate_series(1, 32) where i > 0)
    from generate_series(10000, 20000) i`
  const limit = Math.ceil((await sizeOf(project)) / megabyte) + 4
  await setQuota(project, limit)
  await expect(insert(project), 201)
  await execSql(project, filling)
  assert.ok((await sizeOf(project)) > limit * megabyte)
  await eventually(async () => (await insert(project)).status === 413, 'inserts are rejected')

  await execSql(project, 'truncate notes')
  await eventually(async () => (await insert(project)).status === 201, 'inserts are accepted again')

  await execSql(project, filling)
  await eventually(async () => (await insert(project)).status === 413, 'inserts are rejected')
  await setQuota(project, limit + 100)
  await expect(insert(project), 201)

  await setQuota(project, 0)
  await eventually(async () => (await insert(project)).status === 413, 'inserts are rejected')
  await setQuota(project, null)
  await expect(insert(project), 201)
})
