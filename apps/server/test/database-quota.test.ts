// The quota `max_database_size_mb`: over it a project reads and deletes, and the others notice nothing.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
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
  await until(async () => (await insert(full)).status === 413)
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

async function until(holds: () => Promise<boolean>, withinMs = 60_000): Promise<void> {
  for (const end = Date.now() + withinMs; !(await holds()); await sleep(50))
    assert.ok(Date.now() < end, `not within ${withinMs} ms`)
}
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
  test('POST, PATCH and PUT are 413 with the sizes and what to do', async () => {
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

  test('it is refused before the body is read, and after the credential was checked', async () => {
    await refused(rows(full, 'POST', 'notes', '{ this is no JSON'))
    const reply = await call(full, 'POST', 'rest/*/notes', { apikey: 'no key', token: 'no key', body: {} })
    assert.equal(reply.status, 401)
  })

  test('GET, HEAD, DELETE, exec_sql and migrations work', async () => {
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

  test('functions that read are called by GET and POST, volatile ones too; one that writes is 413 and writes nothing', async () => {
    await expect(rows(full, 'GET', 'rpc/count_stable'), 200)
    await expect(rows(full, 'POST', 'rpc/count_stable', {}), 200)
    await expect(rows(full, 'POST', 'rpc/count_notes', {}), 200)
    await refused(rows(full, 'POST', 'rpc/add_note', { note_id: 600 }))
    assert.deepEqual((await rows(full, 'GET', 'notes?id=eq.600')).body, [])
    await expect(rows(other, 'POST', 'rpc/add_note', { note_id: 600 }), 204)
  })

  test('a project without the quota is not affected', async () => {
    await expect(insert(other), 201)
  })
})

test('queues of a project over its quota: send, create and replay are 413, the rest works', async () => {
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

  test('uploads, copies, moves and changes of buckets are 413 in the words of storage', async () => {
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

  test('resumable uploads are neither begun nor continued, and can be given up', async () => {
    const metadata = `bucketName ${Buffer.from('b').toString('base64')},objectName ${Buffer.from('t').toString('base64')}`
    const create = () =>
      file('POST', 'upload/resumable', {
        headers: { ...tus, 'upload-length': '4', 'upload-metadata': metadata },
      })
    await refused(create())
    await setQuota(full, null)
    const begun = await expect(create(), 201)
    await setQuota(full, 1)
    await until(async () => (await insert(full)).status === 413)
    const path = new URL(begun.headers.get('location')!).pathname.replace(/^.*?\/upload\//, 'upload/')
    const bytes = { ...tus, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' }
    await refused(file('PATCH', path, { body: 'text', headers: bytes }))
    const overriding = (method: string) => ({ ...bytes, 'x-http-method-override': method })
    await refused(file('POST', path, { body: 'text', headers: overriding('PATCH') }))
    // A method named there counts nowhere else.
    await refused(
      file('POST', 'object/b/sly', {
        body: 'x',
        headers: { ...overriding('DELETE'), 'content-type': 'text/plain' },
      }),
    )
    assert.equal((await expect(file('HEAD', path, { headers: tus }), 200)).headers.get('upload-offset'), '0')
    await expect(file('POST', path, { headers: overriding('DELETE') }), 204)
  })

  test('downloads, lists, signed URLs and deletions work', async () => {
    await expect(file('GET', 'object/b/a'), 200)
    await expect(file('POST', 'object/list/b', { body: {} }), 200)
    await expect(file('POST', 'object/sign/b/a', { body: { expiresIn: 60 } }), 200)
    await expect(file('DELETE', 'object/b/a'), 200)
    await expect(file('POST', 'bucket/b/empty'), 200)
    await expect(file('DELETE', 'bucket/b'), 200)
  })
})

test('users sign up and in, and jobs can be scheduled, over the quota', async () => {
  const user = { email: 'ada@example.test', password: 'correct horse' }
  await expect(call(full, 'POST', 'auth/*/signup', { body: user }), 200)
  await expect(call(full, 'POST', 'auth/*/token?grant_type=password', { body: user }), 200)
  const job = { name: 'tidy', schedule: '0 0 * * *', command: 'delete from notes' }
  const scheduled = await call(full, 'POST', 'cron/*/jobs', { body: job })
  assert.ok(scheduled.status < 300, JSON.stringify(scheduled.body))
})

test('another node knows it, too', async () => {
  const node = await startPlatform({ beside: platform })
  try {
    await until(async () => {
      const path = `/v1/rest/${full.id}/notes`
      const reply = await node.call('POST', path, { apikey: full.service_role_key, body: { id: nextId++ } })
      return reply.status === 413
    })
  } finally {
    await node.stop()
  }
})

test('writes are taken again soon after space was freed, and at once after the quota was raised or lifted', async () => {
  const project = await platform.createProject()
  await execSql(project, schema)
  // Random text is stored as it is, 1 kB a row.
  const filling = `insert into notes select i, (select string_agg(md5(random()::text), '') from generate_series(1, 32) where i > 0)
    from generate_series(10000, 20000) i`
  const limit = Math.ceil((await sizeOf(project)) / megabyte) + 4
  await setQuota(project, limit)
  await expect(insert(project), 201)
  await execSql(project, filling)
  assert.ok((await sizeOf(project)) > limit * megabyte)
  await until(async () => (await insert(project)).status === 413)

  await execSql(project, 'truncate notes')
  await until(async () => (await insert(project)).status === 201)

  await execSql(project, filling)
  await until(async () => (await insert(project)).status === 413)
  await setQuota(project, limit + 100)
  await expect(insert(project), 201)

  await setQuota(project, 0)
  await until(async () => (await insert(project)).status === 413)
  await setQuota(project, null)
  await expect(insert(project), 201)
})
