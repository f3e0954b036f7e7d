// What a reset of a branch keeps, and what tasks leave.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { dropLeft } from '#src/services/branches/left-databases.ts'
import { dropCopy, replacedOf, resetOf } from '#src/tenancy/provision.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { anyHoldMs, branchesOf, ownerSession } from './branch-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ branchHoldMs: anyHoldMs })
})
after(() => platform?.stop())

interface Keys {
  id: string
  service_role_key: string
}

async function parentWithBucket(): Promise<BackedUpProject> {
  const parent = await backedUpProject(platform)
  await parent.sql(`
    create table notes (id int primary key); insert into notes values (1);
    insert into storage.buckets (id, name) values ('papers', 'papers')`)
  return parent
}
const object = (method: string, { id, service_role_key: token }: Keys, name: string, body?: string) =>
  platform.call(method, `/v1/${id}/storage/v1/object/papers/${name}`, {
    token,
    ...(body !== undefined && { body, headers: { 'content-type': 'text/plain' } }),
  })
async function put(project: Keys, name: string, body: string): Promise<void> {
  const { status } = await object('POST', project, name, body)
  assert.equal(status, 200)
}
async function resetOnce(parent: Keys, slug: string): Promise<void> {
  const { api, ended } = branchesOf(platform, parent.id)
  await api.reset({ params: { id: parent.id, slug } })
  assert.equal((await ended(slug)).error, null)
}

test('branch reset: works if parent and branch got their first files after the branch was made', async () => {
  const parent = await parentWithBucket()
  const branch = await branchesOf(platform, parent.id).create({ name: 'again' })
  await put(parent, 'a', 'of the parent')
  await put(branch, 'b', 'of the branch')
  await resetOnce(parent, 'again')
  assert.equal((await object('GET', branch, 'a')).body, 'of the parent')
  assert.notEqual((await object('GET', branch, 'b')).status, 200)
  await put(branch, 'c', 'another one')
  assert.equal((await object('GET', branch, 'c')).body, 'another one')
})

test('branch reset: the branch keeps its quotas', async () => {
  const parent = await parentWithBucket()
  const { id } = await branchesOf(platform, parent.id).create({ name: 'again' })
  await platform.projects.update({ params: { id }, body: { quotas: { max_storage_size_mb: 3 } } })
  await platform.projects.update({
    params: { id: parent.id },
    body: { quotas: { max_storage_size_mb: 50 }, settings: { site_url: 'https://example.test' } },
  })
  await resetOnce(parent, 'again')
  const { quotas, settings } = await platform.projects.read({ params: { id } })
  assert.equal(quotas['max_storage_size_mb'], 3)
  assert.equal(settings['site_url'], 'https://example.test')
})

test('branch reset: jobs and webhooks of the branch are switched off again', async () => {
  const parent = await parentWithBucket()
  const jobsOf = ({ id, service_role_key: token }: Keys, body?: object) =>
    platform.call(body ? 'POST' : 'GET', `/v1/cron/${id}/jobs`, { token, ...(body && { body }) })
  const job = { name: 'tick', schedule: '0 0 1 1 *', command: 'select 1' }
  assert.equal((await jobsOf(parent, job)).status, 201)
  await parent.create('https://example.test/hook')
  const branch = await branchesOf(platform, parent.id).create({ name: 'quiet' })
  const params = { id: branch.id }
  const areActive = async (of: Keys) => {
    const { webhooks } = await parent.hooks.list({ params: { id: of.id }, query: {} })
    const { body: jobs } = await jobsOf(of)
    return [webhooks.map(each => each.is_active), jobs.map((each: { active: boolean }) => each.active)]
  }
  assert.deepEqual(await areActive(branch), [[false], [false]])
  const { webhooks } = await parent.hooks.list({ params, query: {} })
  await parent.hooks.update({ params: { ...params, wid: webhooks[0]!.id }, body: { is_active: true } })
  await jobsOf(branch, job)
  assert.deepEqual(await areActive(branch), [[true], [true]])
  await resetOnce(parent, 'quiet')
  assert.deepEqual(await areActive(branch), [[false], [false]])
  assert.deepEqual(await areActive(parent), [[true], [true]])
})

test('branch reset: the sweeper leaves files that nothing refers to yet', async () => {
  const parent = await parentWithBucket()
  const { api, create, ended } = branchesOf(platform, parent.id)
  await put(parent, 'a', 'first')
  const branch = await create({ name: 'swept' })
  await put(parent, 'b', 'second')
  const folder = join(platform.config.dataDir, 'objects', parent.id)
  const old = new Date(Date.now() - 2 * 3_600_000)
  for (const each of fs.readdirSync(folder, { recursive: true, withFileTypes: true }))
    if (each.isFile()) fs.utimesSync(join(each.parentPath, each.name), old, old)

  const holder = await ownerSession(platform, parent.id)
  await holder.query('begin; lock table notes in access exclusive mode')
  await api.reset({ params: { id: parent.id, slug: 'swept' } })
  const ref = await platform.refOf(parent.id)
  const waiting = sql`select from pg_stat_activity where datname = ${ref} and wait_event_type = 'Lock'`
  await eventually(() => platform.app.control.row(waiting), 'the parent is read, after its files were copied')
  const deleted = await object('DELETE', parent, 'b')
  assert.equal(deleted.status, 200)
  await platform.app.control.run(sql`
    update storage_areas set sweep_at = now(), compared_at = now() - interval '2 days' where project_id = ${branch.id}`)
  const isOver = sql`
    select from storage_areas where project_id = ${branch.id}
       and (compared_at > now() - interval '1 day' or sweep_at between now() and now() + interval '1 minute')`
  const node = await startPlatform({ beside: platform })
  await eventually(() => platform.app.control.row(isOver), 'the sweeper has looked at the branch')
  await holder.query('rollback')
  await holder.end()
  await node.stop()
  assert.equal((await ended('swept')).error, null)
  assert.equal((await object('GET', branch, 'b')).body, 'second')
})

function dropAllLeft(signal: AbortSignal): Promise<void> {
  const { cluster } = platform.app
  return dropLeft({ cluster, dropCopy: database => dropCopy(cluster, database) }, signal)
}

test('branch reset: what looks for databases that resets have left ends with the platform, also while it waits', async () => {
  const stopping = new AbortController()
  const { control } = platform.app
  await platform.asSuperuser(platform.control, async session => {
    await session.script('begin; lock table public.branches in access exclusive mode')
    const ended = assert.rejects(dropAllLeft(stopping.signal), /canceling statement/)
    const waiting = sql`
      select from pg_locks l join pg_stat_activity a on a.pid = l.pid
       where not l.granted and a.datname = ${platform.control} and a.query like '%from branches b join projects p%datname%'`
    await eventually(async () => (await control.row(waiting)) !== undefined, 'it waits for the table')
    stopping.abort()
    await ended
    await session.script('rollback')
  })
})

test('branch reset: succeeds if the state before cannot be dropped, which is dropped later', async () => {
  const parent = await parentWithBucket()
  const branch = await branchesOf(platform, parent.id).create({ name: 'kept' })
  const ref = await platform.refOf(branch.id)
  // Postgres drops no template.
  const mark = (database: string, is: boolean) =>
    platform.app.control.script(`alter database ${identifier(database)} is_template ${is}`)
  await mark(ref, true)
  await parent.sql('insert into notes values (2)')
  await resetOnce(parent, 'kept')
  const { body } = await platform.call('GET', `/v1/${branch.id}/rest/v1/notes?select=id&order=id`, {
    apikey: branch.service_role_key,
  })
  assert.deepEqual(body, [{ id: 1 }, { id: 2 }])
  const left = sql`select datname from pg_database where datname in (${resetOf(ref)}, ${replacedOf(ref)})`
  assert.deepEqual(await platform.app.control.rows(left), [{ datname: replacedOf(ref) }])
  await mark(replacedOf(ref), false)
  await dropAllLeft(new AbortController().signal)
  await eventually(async () => (await platform.app.control.rows(left)).length === 0, 'it is dropped')
})

test('branch: files of a task that cannot be removed at its end delay no other task, and are removed later', async () => {
  const parent = await parentWithBucket()
  const { api, create, ended } = branchesOf(platform, parent.id)
  const holder = await ownerSession(platform, parent.id)
  await holder.query('begin; lock table notes in access exclusive mode')
  const { id } = await api.create({ params: { id: parent.id }, body: { name: 'stuck' } })
  const ref = await platform.refOf(parent.id)
  const waiting = sql`select from pg_stat_activity where datname = ${ref} and wait_event_type = 'Lock'`
  await eventually(() => platform.app.control.row(waiting), 'the parent is read')
  const find = () =>
    platform.app.control.row<{ id: string }>(sql`select id from branch_tasks where branch_id = ${id}`)
  const folder = join(platform.config.dataDir, 'objects', (await find())!.id)
  // Neither written nor read: a link to itself.
  fs.renameSync(folder, `${folder}-aside`)
  fs.symlinkSync(folder, folder)
  await holder.query('rollback')
  await holder.end()
  assert.equal((await ended('stuck')).status, 'failed')
  assert.ok(await find(), 'the task remembers its files')
  await create({ name: 'next' })
  await resetOnce(parent, 'stuck')
  assert.ok(await find(), 'the task still remembers its files')
  fs.unlinkSync(folder)
  fs.renameSync(`${folder}-aside`, folder)
  await platform.app.control.run(sql`update branch_tasks set leased_until = now() where branch_id = ${id}`)
  await eventually(async () => !(await find()), 'the task is over')
  assert.equal(fs.existsSync(folder), false)
  assert.equal((await ended('stuck')).status, 'active')
})

test('branch reset: works although users of the branch have changed the password and settings of its login', async () => {
  const parent = await parentWithBucket()
  const branch = await branchesOf(platform, parent.id).create({ name: 'changed' })
  const session = await ownerSession(platform, branch.id)
  const login = identifier(`${await platform.refOf(branch.id)}_owner`)
  await session.query(`alter role ${login} set default_transaction_read_only = on`)
  await session.query(`alter role ${login} password 'another one'`)
  await session.end()
  // A session of a program: the parent is copied object by object, with the login of the branch.
  const holder = await ownerSession(platform, parent.id)
  await resetOnce(parent, 'changed')
  await holder.end()
})
