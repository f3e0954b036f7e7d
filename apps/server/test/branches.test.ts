// Branches: isolated copies of a project.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Job } from '@plinth/contract/cron.ts'
import { contentsOf, type DumpedObject } from '#src/kernel/postgres/dump/contents.ts'
import { dumpSchema } from '#src/kernel/postgres/dump/schema-dump.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { inSlices } from '#src/kernel/slices.ts'
import { password } from './auth-project.ts'
import { backedUpProject, richRows, richSchema } from './backup-project.ts'
import { anyHoldMs, branchesOf, ownerSession } from './branch-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

/** Objects by name, with the names of roles that the other project would have. */
async function objectsOf(platform: TestPlatform, ref: string, refs: { from: string; to: string }) {
  const dump = await dumpSchema({
    address: platform.address,
    database: ref,
    dataDir: platform.config.dataDir,
    maxBytes: 32 * 1024 * 1024,
    signal: AbortSignal.timeout(120_000),
  })
  const renamed = (text: string) => text.replaceAll(refs.from, refs.to)
  // The order of grants has no meaning.
  const lines = (object: DumpedObject) =>
    object.kind.endsWith('ACL') ? renamed(object.sql).split('\n').toSorted().join('\n') : renamed(object.sql)
  const objects = (await inSlices(contentsOf(dump))).filter(({ kind }) => !kind.startsWith('DATABASE'))
  return new Map(
    objects.map(object => [
      `${object.kind} ${object.schema ?? ''}.${renamed(object.tag)}`,
      `${renamed(object.owner)}\n${lines(object)}`,
    ]),
  )
}

test('branch: has every object, row and right of its parent under its own roles', async t => {
  const platform = await startPlatform({ branchHoldMs: anyHoldMs })
  t.after(() => platform.stop())
  const parent = await backedUpProject(platform)
  const parentRef = await platform.refOf(parent.id)
  await parent.sql(richSchema)
  await parent.sql(`
    create policy own_role on things for update to ${parentRef}_owner, anon using (true);
    create policy own_api on shop.orders for select to ${parentRef}_api using (true);
    grant select (note) on shop.orders to ${parentRef}_svc;
    grant usage on schema shop to ${parentRef}_api with grant option;
    alter default privileges revoke execute on functions from public;
    alter default privileges in schema public revoke select on tables from anon;
    alter default privileges grant select on tables to ${parentRef}_svc`)
  await parent.sql(richRows)
  const branches = branchesOf(platform, parent.id)
  for (const [name, isHeld] of [
    ['whole', false],
    ['by objects', true],
  ] as const) {
    // A session of the owner is in the way of a copy of the whole database.
    const held = isHeld ? await ownerSession(platform, parent.id) : undefined
    const created = await branches.create({ name })
    await held?.end()
    const { method } = await branches.read(created.slug)
    assert.equal(method === 'logical', isHeld, `${name}: ${method}`)
    const ref = await platform.refOf(created.id)
    const refs = { from: ref, to: parentRef }
    const [before, after] = [await objectsOf(platform, parentRef, refs), await objectsOf(platform, ref, refs)]
    assert.deepEqual([...after.keys()].toSorted(), [...before.keys()].toSorted())
    for (const [key, definition] of before) assert.equal(after.get(key), definition, key)
    const left = await platform.asSuperuser(ref, session =>
      session.rows(sql`
        select r.rolname from pg_shdepend s join pg_roles r on r.oid = s.refobjid
         where s.dbid = (select oid from pg_database where datname = ${ref}) and starts_with(r.rolname, ${parentRef})`),
    )
    assert.deepEqual(left, [])
  }
})

const rowsOf = (platform: TestPlatform, id: string, key: string, path = 'notes?select=*&order=id') =>
  platform.call('GET', `/v1/${id}/rest/v1/${path}`, { apikey: key })

test('branch: serves its own keys, and nothing of one reaches the other', async t => {
  const platform = await startPlatform({ branchHoldMs: anyHoldMs })
  t.after(() => platform.stop())
  const parent = await backedUpProject(platform)
  await parent.sql(`
    create table notes (id int primary key, text text, owner uuid default auth.uid());
    insert into notes (id, text) values (1, 'one');
    alter table notes enable row level security;
    create policy own on notes to authenticated using (owner = auth.uid());
    select pgmq.create('work');
    insert into storage.buckets (id, name) values ('papers', 'papers')`)
  const session = await parent.signUp('someone@example.test')
  await parent.sql(`insert into notes values (2, 'mine', '${session.user.id}')`)
  const files = `/v1/${parent.id}/storage/v1/object/papers/a.txt`
  const put = await platform.call('POST', files, {
    token: parent.service_role_key,
    body: 'of the parent',
    headers: { 'content-type': 'text/plain' },
  })
  assert.equal(put.status, 200)
  const webhook = await parent.create('https://example.test/hook')
  const secret = await platform.call('POST', `/api/v1/projects/${parent.id}/secrets`, {
    token: platform.adminToken,
    body: { name: 'SHARED', value: 'a secret' },
  })
  assert.equal(secret.status, 201, JSON.stringify(secret.body))
  const job = await platform.call('POST', `/v1/cron/${parent.id}/jobs`, {
    token: parent.service_role_key,
    body: { name: 'tick', schedule: '* * * * *', command: 'select 1' },
  })
  assert.ok(job.status < 300, JSON.stringify(job.body))
  const branches = branchesOf(platform, parent.id)
  const branch = await branches.create({ name: 'Try it', expires_in: '7d' })
  assert.equal(branch.slug, 'try-it')
  assert.equal(branch.parent_id, parent.id)
  assert.equal(branch.api_url, `${platform.url}/v1/${branch.id}`)
  const { method, size_bytes: size, expires_at: expires } = await branches.read('try-it')
  assert.notEqual(method, 'logical')
  assert.ok(size! > 1_000_000)
  assert.ok(Math.abs(Date.parse(expires!) - Date.now() - 7 * 86_400_000) < 600_000)

  const all = await rowsOf(platform, branch.id, branch.service_role_key)
  assert.deepEqual(
    all.body.map((row: { id: number }) => row.id),
    [1, 2],
  )
  assert.deepEqual((await rowsOf(platform, branch.id, branch.anon_key)).body, [])
  for (const [id, key] of [
    [branch.id, parent.service_role_key],
    [parent.id, branch.service_role_key],
    [branch.id, parent.anon_key],
    [parent.id, branch.anon_key],
  ] as const)
    assert.equal((await rowsOf(platform, id, key)).status, 401)
  // A user must sign in to the branch: neither token of the parent is valid there.
  const asUser = (token: string) =>
    platform.call('GET', `/v1/${branch.id}/rest/v1/notes`, { apikey: branch.anon_key, token })
  assert.equal((await asUser(session.access_token)).status, 401)
  const refreshed = await platform.call('POST', `/v1/${branch.id}/auth/v1/token?grant_type=refresh_token`, {
    apikey: branch.anon_key,
    body: { refresh_token: session.refresh_token },
  })
  assert.equal(refreshed.status, 400, JSON.stringify(refreshed.body))
  const signedIn = await platform.call('POST', `/v1/${branch.id}/auth/v1/token?grant_type=password`, {
    apikey: branch.anon_key,
    body: { email: 'someone@example.test', password },
  })
  assert.equal(signedIn.status, 200, JSON.stringify(signedIn.body))
  const own = await asUser(signedIn.body.access_token)
  assert.deepEqual(
    own.body.map((row: { id: number }) => row.id),
    [2],
  )

  // Writes.
  const write = (id: string, key: string, row: number) =>
    platform.call('POST', `/v1/${id}/rest/v1/notes`, { apikey: key, body: { id: row } })
  assert.equal((await write(branch.id, branch.service_role_key, 10)).status, 201)
  assert.equal((await write(parent.id, parent.service_role_key, 20)).status, 201)
  const ids = async (id: string, key: string) =>
    (await rowsOf(platform, id, key)).body.map((row: { id: number }) => row.id)
  assert.deepEqual(await ids(branch.id, branch.service_role_key), [1, 2, 10])
  assert.deepEqual(await ids(parent.id, parent.service_role_key), [1, 2, 20])

  // Files.
  const object = `/v1/${branch.id}/storage/v1/object/papers/a.txt`
  const read = (path: string, key: string) => platform.call('GET', path, { token: key })
  assert.equal((await read(object, branch.service_role_key)).body, 'of the parent')
  await platform.call('DELETE', files, { token: parent.service_role_key })
  assert.equal((await read(files, parent.service_role_key)).status, 404)
  assert.equal((await read(object, branch.service_role_key)).body, 'of the parent')

  // What has effects outside is switched off.
  const hooks = await parent.hooks.list({ params: { id: branch.id }, query: {} })
  assert.deepEqual(
    hooks.webhooks.map(({ url, is_active }) => [url, is_active]),
    [[webhook.url, false]],
  )
  const jobs = await platform.call('GET', `/v1/cron/${branch.id}/jobs`, { token: branch.service_role_key })
  assert.deepEqual(
    jobs.body.map((each: Job) => [each.active, each.next_run_at]),
    [[false, null]],
  )
  const secrets = await platform.call('GET', `/api/v1/projects/${branch.id}/secrets`, {
    token: platform.adminToken,
  })
  assert.deepEqual(
    secrets.body.secrets.map(({ name }: { name: string }) => name),
    ['SHARED'],
  )

  // The parent stays until its branches are deleted.
  const removal = () =>
    platform.call('DELETE', `/api/v1/projects/${parent.id}`, { token: platform.adminToken })
  const refused = await removal()
  assert.deepEqual([refused.status, refused.body.error.code], [409, 'project_has_branches'])
  assert.match(refused.body.error.message, /try-it; delete them first/)
  const ref = await platform.refOf(branch.id)
  await branches.api.remove({ params: { id: parent.id, slug: 'try-it' } })
  const left = sql`
    select datname as name from pg_database where starts_with(datname, ${ref})
    union all select rolname from pg_roles where starts_with(rolname, ${ref})`
  await eventually(async () => (await platform.app.control.rows(left)).length === 0, 'its removal')
  assert.equal((await removal()).status, 204)
})
