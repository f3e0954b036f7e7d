// Branches: names, limits, expiry, schema only, diff and reset.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { ReplyError } from '@plinth/contract/client.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { anyHoldMs, branchesOf, ownerSession } from './branch-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ branchHoldMs: anyHoldMs })
})
after(() => platform.stop())

const md5 = (text: string) => createHash('md5').update(text).digest('hex')

const refusal = (status: number, code: string) => (error: unknown) =>
  error instanceof ReplyError && error.status === status && error.code === code

const rowsIn = async <T>(id: string, text: string): Promise<T[]> =>
  platform.asSuperuser(await platform.refOf(id), session => session.rows<T>(raw(text)))

async function runIn(project: { id: string; service_role_key: string }, text: string): Promise<void> {
  const { status, body } = await platform.call('POST', `/v1/rest/${project.id}/rpc/exec_sql`, {
    token: project.service_role_key,
    body: { sql: text },
  })
  assert.ok(status < 300, JSON.stringify(body))
}

async function parentWithNotes(): Promise<BackedUpProject> {
  const parent = await backedUpProject(platform)
  await parent.sql(`create table notes (id int primary key, text text); insert into notes values (1, 'one')`)
  return parent
}

test('branch: names become slugs, which are unique, and other sources are refused', async () => {
  const parent = await backedUpProject(platform)
  const { api, ended } = branchesOf(platform, parent.id)
  const params = { id: parent.id }
  const { slug } = await api.create({ params, body: { name: ' Größe & Form! ' } })
  assert.equal(slug, 'gro-e-form')
  for (const name of ['x', 'x!', '日本語'])
    await assert.rejects(api.create({ params, body: { name } }), refusal(400, 'invalid_request'))
  await assert.rejects(api.create({ params, body: { name: 'größe form' } }), refusal(409, 'branch_exists'))
  await assert.rejects(
    api.create({ params, body: { name: 'other', from: '2030-01-01T00:00:00Z' } }),
    refusal(400, 'branch_source_unsupported'),
  )
  await assert.rejects(
    api.create({ params, body: { name: 'other', expires_at: '2020-01-01T00:00:00Z' } }),
    refusal(400, 'invalid_request'),
  )
  const { id } = await ended(slug)
  await assert.rejects(
    api.create({ params: { id }, body: { name: 'nested' } }),
    refusal(400, 'branch_of_branch'),
  )
  await assert.rejects(api.read({ params: { ...params, slug: 'unknown' } }), refusal(404, 'branch_not_found'))
  const { branches, total } = await api.list({ params, query: {} })
  assert.deepEqual([branches.map(branch => branch.slug), total], [[slug], 1])
})

test('branch: the quota max_branches limits them, and a deleted one frees its place', async () => {
  const parent = await backedUpProject(platform)
  await platform.projects.update({ params: { id: parent.id }, body: { quotas: { max_branches: 1 } } })
  const { api } = branchesOf(platform, parent.id)
  const params = { id: parent.id }
  await eventually(async () => {
    const tenant = await platform.app.directory.find(parent.id)
    return tenant?.quotas.max_branches === 1
  }, 'the quota is known')
  await api.create({ params, body: { name: 'first' } })
  await assert.rejects(api.create({ params, body: { name: 'second' } }), refusal(429, 'too_many_branches'))
  // Also while it is being created.
  await api.remove({ params: { ...params, slug: 'first' } })
  await eventually(async () => (await api.list({ params, query: {} })).total === 0, 'it is deleted')
  await api.create({ params, body: { name: 'second' } })
  const tasks = sql`select from branch_tasks where parent_id = ${parent.id}`
  await eventually(async () => !(await platform.app.control.row(tasks)), 'no task is left')
})

test('branch: an expired one is deleted', async () => {
  const parent = await backedUpProject(platform)
  const branches = branchesOf(platform, parent.id)
  const { id } = await branches.create({ name: 'short', expires_in: '1h' })
  await platform.app.control.run(sql`update branches set expires_at = now() where project_id = ${id}`)
  await eventually(async () => {
    const { total } = await branches.api.list({ params: { id: parent.id }, query: {} })
    return total === 0
  }, 'the expired branch is deleted')
  const gone = sql`select from projects where id = ${id} and status = 'deleted'`
  await eventually(async () => (await platform.app.control.row(gone)) !== undefined, 'its project is deleted')
})

test('branch: an expired one that cannot be deleted now does not keep others', async () => {
  const parent = await backedUpProject(platform)
  const branches = branchesOf(platform, parent.id)
  const [first, second] = [
    await branches.create({ name: 'first' }),
    await branches.create({ name: 'second' }),
  ]
  const left = async () => (await branches.api.list({ params: { id: parent.id }, query: {} })).branches
  await platform.asSuperuser(platform.control, async session => {
    // As long as a task works on the first one.
    await session.run(sql`select pg_advisory_lock(hashtextextended(${first.id}, 0))`)
    await platform.app.control.run(sql`
      update branches set expires_at = now() - interval '1 hour' * case when project_id = ${first.id} then 2 else 1 end
       where project_id in (${first.id}, ${second.id})`)
    await eventually(async () => (await left()).length === 1, 'the second one is deleted')
    assert.equal((await left())[0]!.id, first.id)
  })
  await eventually(async () => (await left()).length === 0, 'the first one is deleted')
})

test('branch: schema_only has all definitions, and neither rows nor users nor files', async () => {
  const parent = await backedUpProject(platform)
  await parent.sql(`
    create table notes (id int generated always as identity primary key, text text);
    insert into notes (text) values ('one'), ('two');
    create materialized view counted as select count(*) from notes;
    select pgmq.create('work'); select pgmq.send('work', '{"a": 1}');
    insert into storage.buckets (id, name) values ('papers', 'papers');
    select lo_from_bytea(0, 'a large object'::bytea)`)
  await parent.signUp('someone@example.test')
  const migration = { version: '20300101', name: 'made', sql: 'create table made (id int)' }
  const pushed = await platform.call('POST', `/api/v1/projects/${parent.id}/db/push`, {
    token: platform.adminToken,
    body: { migrations: [migration] },
  })
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const put = await platform.call('POST', `/v1/${parent.id}/storage/v1/object/papers/a.txt`, {
    token: parent.service_role_key,
    body: 'of the parent',
    headers: { 'content-type': 'text/plain' },
  })
  assert.equal(put.status, 200)
  const branches = branchesOf(platform, parent.id)
  const branch = await branches.create({ name: 'empty', schema_only: true })
  const [counts] = await rowsIn<Record<string, number>>(
    branch.id,
    `select (select count(*)::int from public.notes) as notes, (select count(*)::int from auth.users) as users,
            (select count(*)::int from storage.objects) as objects, (select count(*)::int from storage.buckets) as buckets,
            (select count(*)::int from pgmq.q_work) as messages, (select count(*)::int from pgmq.meta) as queues,
            (select count(*)::int from pg_largeobject_metadata) as large,
            (select count(*)::int from supabase_migrations.schema_migrations) as migrations,
            (select count::int from public.counted) as counted`,
  )
  assert.deepEqual(counts, {
    notes: 0,
    users: 0,
    objects: 0,
    buckets: 1,
    messages: 0,
    queues: 1,
    large: 0,
    migrations: 1,
    counted: 0,
  })
  await runIn(branch, `insert into notes (text) values ('first')`)
  assert.deepEqual(await rowsIn(branch.id, 'select id from public.notes'), [{ id: 1 }])
  const uploaded = await platform.call('POST', `/v1/${branch.id}/storage/v1/object/papers/b.txt`, {
    token: branch.service_role_key,
    body: 'of the branch',
    headers: { 'content-type': 'text/plain' },
  })
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
})

test('branch diff: is a migration that gives the parent the schema of the branch', async () => {
  const parent = await parentWithNotes()
  await parent.sql(
    `create table dropped (id int); create policy own on notes for select to anon using (true)`,
  )
  const branches = branchesOf(platform, parent.id)
  const branch = await branches.create({ name: 'change' })
  const params = { id: parent.id, slug: 'change' }
  assert.deepEqual(await branches.api.diff({ params }), { is_destructive: false, sql: '' })
  await runIn(
    branch,
    `alter table notes add column at timestamptz default now(); create index notes_text on notes (text);
     create table added (id int primary key); drop table dropped;
     alter policy own on notes using (id > 0)`,
  )
  const { sql: migration, is_destructive: isDestructive } = await branches.api.diff({ params })
  assert.ok(isDestructive)
  assert.match(migration, /-- destructive\ndrop table public\.dropped/)
  assert.equal(migration.match(/-- destructive/g)?.length, 1)
  const pushed = await platform.call('POST', `/api/v1/projects/${parent.id}/db/push`, {
    token: platform.adminToken,
    body: { migrations: [{ version: '20300101', name: 'change', sql: migration }] },
  })
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  assert.deepEqual(await branches.api.diff({ params }), { is_destructive: false, sql: '' })
})

test('branch reset: gets the present state of the parent, and keeps its keys', async () => {
  const parent = await parentWithNotes()
  const branches = branchesOf(platform, parent.id)
  const branch = await branches.create({ name: 'again' })
  const params = { id: parent.id, slug: 'again' }
  const read = (query: string) =>
    platform.call('GET', `/v1/${branch.id}/rest/v1/${query}`, { apikey: branch.service_role_key })
  await runIn(branch, `insert into notes values (10, 'of the branch'); create table own (id int)`)
  assert.equal((await read('notes')).body.length, 2)
  await parent.sql(`insert into notes values (2, 'two'); alter table notes add column more int default 3`)
  const started = await branches.api.reset({ params })
  assert.deepEqual([started.status, started.progress?.step], ['active', 'waiting'])
  const { error, status } = await branches.ended('again')
  assert.deepEqual([status, error], ['active', null])
  assert.deepEqual((await read('notes?order=id')).body, [
    { id: 1, text: 'one', more: 3 },
    { id: 2, text: 'two', more: 3 },
  ])
  assert.equal((await read('own')).status, 404)
  const ref = await platform.refOf(branch.id)
  const databases = sql`select datname from pg_database where starts_with(datname, ${ref})`
  await eventually(
    async () => (await platform.app.control.rows(databases)).length === 1,
    'the state before the reset is dropped',
  )
})

test('branch: a creation that fails says why, leaves nothing, and can be tried again or deleted', async () => {
  const parent = await parentWithNotes()
  const ref = await platform.refOf(parent.id)
  // Rows that are valid only in the database of the parent.
  await parent.sql(`
    create function is_here() returns boolean language sql as $$ select md5(current_database()) = '${md5(ref)}' $$;
    create table bound (id int check (is_here())); insert into bound values (1)`)
  const session = await ownerSession(platform, parent.id)
  const { api, ended } = branchesOf(platform, parent.id)
  const params = { id: parent.id, slug: 'bound' }
  const { id } = await api.create({ params, body: { name: 'bound' } })
  const failed = await ended('bound')
  assert.equal(failed.status, 'failed')
  assert.match(failed.error!, /bound/)
  const branchRef = await platform.refOf(id)
  const left = sql`
    select datname as name from pg_database where starts_with(datname, ${branchRef})
    union all select rolname from pg_roles where starts_with(rolname, ${branchRef})`
  assert.deepEqual(await platform.app.control.rows(left), [])
  await assert.rejects(api.diff({ params }), refusal(409, 'branch_not_ready'))
  await session.end()
  // The platform notices the end of the session.
  await eventually(async () => {
    await api.reset({ params })
    return (await ended('bound')).status === 'active'
  }, 'the branch is copied as a whole')
  await api.remove({ params })
  await platform.projects.remove({ params: { id: parent.id } })
  await eventually(async () => (await platform.app.control.rows(left)).length === 0, 'the removal of both')
})

for (const isWhole of [true, false])
  test(`branch: its parent can be deleted after it, copied ${isWhole ? 'as a whole' : 'by objects'}`, async () => {
    const parent = await parentWithNotes()
    const ref = await platform.refOf(parent.id)
    const session = isWhole ? undefined : await ownerSession(platform, parent.id)
    const branches = branchesOf(platform, parent.id)
    const branch = await branches.create({ name: 'first' })
    await session?.end()
    assert.equal((await branches.read('first')).method === 'logical', !isWhole)
    // Nothing of the branch names a role of the parent.
    const shared = sql`
      select pg_describe_object(s.classid, s.objid, s.objsubid) as what
        from pg_shdepend s join pg_roles r on s.refclassid = 'pg_authid'::regclass and r.oid = s.refobjid
       where starts_with(r.rolname, ${ref})
         and s.dbid not in (select oid from pg_database where datname = ${ref})
         and not (s.classid = 'pg_database'::regclass and s.objid = (select oid from pg_database where datname = ${ref}))`
    assert.deepEqual(await platform.app.control.rows(shared), [])
    await branches.api.remove({ params: { id: parent.id, slug: 'first' } })
    await platform.projects.remove({ params: { id: parent.id } })
    for (const each of [ref, await platform.refOf(branch.id)]) {
      const left = sql`
        select datname as name from pg_database where starts_with(datname, ${each})
        union all select rolname from pg_roles where starts_with(rolname, ${each})`
      await eventually(async () => (await platform.app.control.rows(left)).length === 0, 'nothing is left')
    }
  })
