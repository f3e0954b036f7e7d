// 3 §2 "Backup settings", §4 "Backups": the schedule, the list, restores in place and as a new project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { auditOf, type CreatedProject, createProject, mintToken, someId, unique, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope, type Reply } from '../wire.ts'

let it: Target
let project: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it)
  await sql(`create table notes (id int primary key); insert into notes values (1), (2)`)
})
after(() => it.stop())

const call = (method: string, path: string, body?: unknown, token = it.adminToken): Promise<Reply> =>
  it.call(method, `/api/v1/projects/${project.id}${path}`, { token, body })

async function sql(text: string, { id, service_role_key: apikey } = project): Promise<any> {
  const reply = await it.call('POST', `/v1/rest/${id}/rpc/exec_sql`, { apikey, body: { sql: text } })
  assert.ok(reply.status < 300, reply.text)
  return reply.body
}

const count = async (of = project) => (await sql('select count(*)::int as count from notes', of))[0].count

/** Waits until no task works on the entry of this list. */
async function ended(plural: 'backups' | 'restores', id: string): Promise<any> {
  for (;;) {
    const { body } = await call('GET', `/${plural}`)
    const found = body[plural].find((entry: { id: string }) => entry.id === id)
    if (found.progress === null) return found
    await sleep(50)
  }
}

/** A verification gives way to the request, so only another request can be in the way. */
async function backUp(): Promise<any> {
  const made = await call('POST', '/backups')
  assert.equal(made.status, 202, made.text)
  const backup = await ended('backups', made.body.id)
  assert.deepEqual([backup.status, backup.error], ['done', null])
  return backup
}

const fields = [
  'bytes',
  'created_at',
  'error',
  'files',
  'finished_at',
  'id',
  'kind',
  'progress',
  'schema_version',
  'status',
  'stored_bytes',
  'verified_at',
  'verify_error',
]

test('3 §2 backup settings have defaults, and PUT changes the fields that it has', async () => {
  const usual = {
    enabled: false,
    interval_minutes: 1440,
    retain_days: null,
    retain_count: null,
    verify_enabled: true,
    verify_interval_minutes: 10_080,
  }
  assert.deepEqual((await call('GET', '/backups/settings')).body, usual)
  const changed = await call('PUT', '/backups/settings', { interval_minutes: 15, retain_count: 3 })
  assert.deepEqual(
    [changed.status, changed.body],
    [200, { ...usual, interval_minutes: 15, retain_count: 3 }],
    changed.text,
  )
  await auditOf(it, 'backups.configured', changed)
  assert.deepEqual((await call('PUT', '/backups/settings', usual)).body, usual)
})

test('3 §2 backup settings that are out of range, of another type or unknown are 400 and change nothing', async () => {
  const before = await call('GET', '/backups/settings')
  for (const body of [
    { enabled: 'true' },
    { enabled: null },
    { interval_minutes: 14 },
    { interval_minutes: 60.5 },
    { interval_minutes: 525_601 },
    { retain_days: 0 },
    { retain_count: '5' },
    { verify_interval_minutes: 14 },
    { retention_days: 30 },
    [],
  ])
    assertManagementError(await call('PUT', '/backups/settings', body), 'invalid_request')
  assertManagementError(await call('PUT', '/backups/settings', '{"enabled":'), 'invalid_json')
  assert.deepEqual((await call('GET', '/backups/settings')).body, before.body)
})

test('3 §4 a backup is 202 and running, and the list has it with all its fields', async () => {
  const made = await call('POST', '/backups')
  assert.equal(made.status, 202, made.text)
  assert.match(made.body.id, uuid)
  assert.deepEqual(Object.keys(made.body).sort(), fields)
  assert.deepEqual([made.body.status, made.body.kind, made.body.finished_at], ['running', 'manual', null])
  assert.equal((await auditOf(it, 'backups.created', made)).target, made.body.id)
  const backup = await ended('backups', made.body.id)
  assert.deepEqual([backup.status, backup.error, backup.verify_error], ['done', null, null])
  assert.ok(backup.bytes > 0 && backup.stored_bytes > 0)
  const { body } = await call('GET', '/backups?limit=1000')
  assert.deepEqual([body.backups[0].id, body.total, body.limit, body.offset], [backup.id, 1, 100, 0])
  const next = await call('GET', '/backups?limit=1&offset=1')
  assert.deepEqual(next.body, { backups: [], total: 1, limit: 1, offset: 1 })
})

test('3 §4 a restore is 202, puts the rows back and can be undone once; of two at once one is 409', async () => {
  const { id } = await backUp()
  await sql('insert into notes values (3)')
  const path = `/backups/${id}/restore`
  const replies = await Promise.all([call('POST', path), call('POST', path)])
  const [asked, refused] = replies.sort((a, b) => a.status - b.status)
  assertManagementError(refused!, 'project_busy')
  assert.equal(asked!.status, 202, asked!.text)
  const { restore } = asked!.body
  assert.deepEqual([restore.status, restore.backup_id, restore.undo_until], ['running', id, null])
  const done = await ended('restores', restore.id)
  assert.deepEqual([done.status, done.error, await count()], ['done', null, 2])
  assert.ok(Date.parse(done.undo_until) > Date.now())
  assert.equal((await call('POST', `/restores/${restore.id}/undo`)).status, 202)
  assert.equal((await ended('restores', restore.id)).status, 'undone')
  assert.equal(await count(), 3)
  const again = await call('POST', `/restores/${restore.id}/undo`)
  assertManagementError(again, 'restore_not_undoable', /undone already/)
})

test('3 §4 the backup of a deleted project can be restored only as a new project', async () => {
  const parent = project
  project = await createProject(it)
  try {
    await sql('create table notes (id int primary key); insert into notes values (1)')
    const { id } = await backUp()
    assert.equal((await it.manage('DELETE', `/projects/${project.id}`)).status, 204)
    const inPlace = await call('POST', `/backups/${id}/restore`)
    assertManagementError(inPlace, 'project_not_found', /deleted.*as a new project/)
    const asked = await call('POST', `/backups/${id}/restore`, { new_project: { name: unique('again') } })
    assert.equal(asked.status, 202, asked.text)
    const { status, jwt_secret } = asked.body.project
    assert.deepEqual([status, typeof jwt_secret], ['creating', 'string'])
    const done = await ended('restores', asked.body.restore.id)
    assert.deepEqual([done.status, done.new_project_id], ['done', asked.body.project.id])
    assert.equal(await count(asked.body.project), 1)
    const read = await it.manage('GET', `/projects/${done.new_project_id}`)
    assert.ok(read.body.status === 'active' && !read.text.includes(jwt_secret))
  } finally {
    project = parent
  }
})

test('3 §4 a malformed id is 400, and an unknown one or that of another project 404', async () => {
  const { id } = (await call('GET', '/backups')).body.backups[0]
  const other = await createProject(it)
  for (const path of ['restore', 'verify']) {
    assertManagementError(await call('POST', `/backups/nonsense/${path}`), 'invalid_request')
    assertManagementError(await call('POST', `/backups/${someId}/${path}`), 'backup_not_found')
    const theirs = await it.manage('POST', `/projects/${other.id}/backups/${id}/${path}`)
    assertManagementError(theirs, 'backup_not_found')
  }
  assertManagementError(await call('POST', `/restores/nonsense/undo`), 'invalid_request')
  assertManagementError(await call('POST', `/restores/${someId}/undo`), 'restore_not_found')
  assertManagementError(await it.manage('GET', '/projects/nonsense/backups'), 'invalid_request')
  for (const path of ['backups', 'backups/settings', 'restores'])
    assertManagementError(await it.manage('GET', `/projects/${someId}/${path}`), 'project_not_found')
})

test('3 §4 backups and their settings can be read with read scope, and need admin scope otherwise', async () => {
  for (const scope of ['read', 'deploy']) {
    const { token } = await mintToken(it, scope)
    for (const path of ['/backups', '/backups/settings'])
      assert.equal((await call('GET', path, undefined, token)).status, 200)
    assertNeedsScope(await call('POST', '/backups', undefined, token), 'admin')
    assertNeedsScope(await call('PUT', '/backups/settings', { enabled: true }, token), 'admin')
    assertNeedsScope(await call('POST', `/backups/${someId}/restore`, undefined, token), 'admin')
  }
})
