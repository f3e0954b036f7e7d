// Backups that are restored as new projects, also those of deleted projects.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { password } from './auth-project.ts'
import { type BackedUpProject, backedUpProject, richRows, richSchema } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { allowLoopback, startReceiver } from './webhook-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: allowLoopback })
})
after(() => platform?.stop())

const file = Buffer.alloc(200_000, 'a file that is larger than a frame ')

async function works(reply: ReturnType<TestPlatform['call']>): Promise<any> {
  const { status, body } = await reply
  assert.ok(status < 300, `${status} ${JSON.stringify(body)}`)
  return body
}
const manage = (method: string, path: string, body?: unknown) =>
  works(
    platform.call(method, `/api/v1${path}`, {
      token: platform.adminToken,
      ...(body !== undefined && { body }),
    }),
  )

async function filledProject(): Promise<BackedUpProject> {
  const project = await backedUpProject(platform)
  await project.sql(richSchema)
  await project.sql(richRows)
  await project.sql(`insert into storage.buckets (id, name) values ('papers', 'papers')`)
  const key = project.service_role_key
  const headers = { 'content-type': 'text/plain' }
  const upload = { token: key, apikey: key, body: file.toString(), headers }
  await works(platform.call('POST', `/v1/storage/${project.id}/object/papers/a.txt`, upload))
  await project.signUp('ada@example.test')
  await manage('POST', `/projects/${project.id}/secrets`, { name: 'GREETING', value: 'hello' })
  const code = `Deno.serve(() => new Response(Deno.env.get('GREETING')))`
  await manage('POST', `/projects/${project.id}/functions`, { name: 'greet', code })
  const job = { name: 'nightly', schedule: '0 3 * * *', command: 'select 1' }
  await works(platform.call('POST', `/v1/cron/${project.id}/jobs`, { token: key, apikey: key, body: job }))
  return project
}

async function untilMade(source: string, restoreId: string) {
  let found: { status: string; error: string | null } | undefined
  await eventually(async () => {
    const { restores } = await manage('GET', `/projects/${source}/restores`)
    found = restores.find(({ id }: { id: string }) => id === restoreId)
    return found !== undefined && found.status !== 'running'
  }, 'the restore is over')
  return found!
}

const databasesOf = async (id: string) => {
  const ref = (await platform.app.control.row<{ ref: string }>(
    sql`select ref from projects where id = ${id}`,
  ))!.ref
  return platform.app.control.rows(sql`
    select datname as name from pg_database where starts_with(datname, ${ref})
    union all select rolname from pg_roles where starts_with(rolname, ${ref})`)
}

test('new project: the backup of a deleted project gives a project with its rows, users, files and functions', async t => {
  const receiver = await startReceiver()
  t.after(() => receiver.close())
  const project = await filledProject()
  const webhook = await project.create(receiver.url, ['db.public.things.*'])
  await project.attach(webhook.id, 'things', ['INSERT'])
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  assert.ok(backup.files >= 2, 'the file and the code of the function')
  await manage('DELETE', `/projects/${project.id}`)

  const { projects } = await manage('GET', '/admin/deleted-projects?limit=100')
  const kept = projects.find(({ id }: { id: string }) => id === project.id)
  assert.deepEqual([kept.backups, kept.newest_backup_id], [1, backup.id])
  const listed = await manage('GET', `/projects/${project.id}/backups`)
  assert.equal(listed.backups[0].id, backup.id)

  const path = `/projects/${project.id}/backups/${backup.id}/restore`
  const begun = await manage('POST', path, { new_project: { name: 'Back Again' } })
  assert.equal(begun.project.status, 'creating')
  assert.equal(begun.restore.new_project_id, begun.project.id)
  assert.deepEqual(
    await untilMade(project.id, begun.restore.id).then(({ status, error }) => [status, error]),
    ['done', null],
  )

  const { id, service_role_key: key } = begun.project
  const call = (method: string, path: string, options = {}) =>
    works(platform.call(method, path.replace('*', id), { token: key, apikey: key, ...options }))
  assert.deepEqual(await call('GET', '/v1/rest/*/things?select=id&id=gte.2000'), [{ id: 2000 }])
  assert.equal(await call('GET', '/v1/storage/*/object/papers/a.txt'), file.toString())
  await eventually(
    async () => (await call('POST', '/v1/functions/*/greet')) === 'hello',
    'the function greets',
  )
  const { anon_key: anon } = begun.project
  const signedIn = await platform.call('POST', `/v1/auth/${id}/token?grant_type=password`, {
    apikey: anon,
    body: { email: 'ada@example.test', password },
  })
  assert.equal(signedIn.status, 200)
  const { jobs } = await manage('GET', `/projects/${id}/cron/jobs`)
  assert.deepEqual(
    jobs.map((job: { name: string; active: boolean }) => [job.name, job.active]),
    [['nightly', false]],
  )
  const { webhooks } = await manage('GET', `/projects/${id}/webhooks`)
  assert.deepEqual(
    webhooks.map((each: { is_active: boolean }) => each.is_active),
    [false],
  )
  const before = receiver.received.length
  await manage('PATCH', `/projects/${id}/webhooks/${webhooks[0].id}`, { is_active: true })
  await call('POST', '/v1/rest/*/things', { body: { name: 'newer', size: 3 } })
  await receiver.until(before + 1)
  assert.equal(receiver.received.at(-1)!.body.record.name, 'newer')
  // It is a project like any other one: it can be backed up and deleted.
  await manage('POST', `/projects/${id}/backups`)
  await eventually(
    async () => (await manage('GET', `/projects/${id}/backups`)).backups[0].status === 'done',
    'a backup of the new project',
  )
  await manage('DELETE', `/projects/${id}`)
  await eventually(async () => (await databasesOf(id)).length === 0, 'nothing of it is left')
})

test('new project: the project of the backup is not touched, and its keys do not open the new one', async () => {
  const project = await backedUpProject(platform)
  await project.sql('create table notes (id int primary key); insert into notes values (1)')
  const backup = await project.backUp()
  await project.sql('insert into notes values (2)')
  const path = `/projects/${project.id}/backups/${backup.id}/restore`
  const { restore, project: made } = await manage('POST', path, {
    new_project: { name: 'Copy', slug: 'copy-of-notes' },
  })
  assert.equal(made.slug, 'copy-of-notes')
  assert.equal((await untilMade(project.id, restore.id)).error, null)
  const ids = async (id: string, key: string) => {
    const { status, body } = await platform.call('GET', `/v1/rest/${id}/notes?select=id`, {
      token: key,
      apikey: key,
    })
    return status === 200 ? body.map(({ id }: { id: number }) => id) : status
  }
  assert.deepEqual(await ids(made.id, made.service_role_key), [1])
  assert.deepEqual(await ids(project.id, project.service_role_key), [1, 2])
  assert.equal(await ids(made.id, project.service_role_key), 401)
  assert.equal(await ids(project.id, made.service_role_key), 401)
  const origin = await platform.refOf(project.id)
  const owners = await platform.asSuperuser(await platform.refOf(made.id), session =>
    session.rows(sql`
      select distinct pg_get_userbyid(refobjid) as name from pg_shdepend d
       where refclassid = 'pg_authid'::regclass and dbid = (select oid from pg_database where datname = current_database())
         and starts_with(pg_get_userbyid(refobjid), ${origin})`),
  )
  assert.deepEqual(owners, [], 'nothing in it belongs to roles of the other project')
  const undo = await platform.call('POST', `/api/v1/projects/${project.id}/restores/${restore.id}/undo`, {
    token: platform.adminToken,
  })
  assert.deepEqual([undo.status, undo.body.error.code], [409, 'restore_not_undoable'])
})

test('new project: one that cannot be made, or is deleted meanwhile, leaves nothing', async () => {
  const project = await backedUpProject(platform)
  await project.sql(`create table slow (id int generated always as identity, n int);
    create function slowly(n int) returns int language plpgsql immutable as $$ begin
      if current_database() not like '%' || '${await platform.refOf(project.id)}' || '%' then perform pg_sleep(0.05); end if; return n; end $$;
    alter table slow add column m int generated always as (slowly(n)) stored;
    insert into slow (n) select generate_series(1, 2000)`)
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  const path = `/projects/${project.id}/backups/${backup.id}/restore`
  const { restore, project: made } = await manage('POST', path, { new_project: { name: 'Deleted' } })
  await eventually(async () => (await databasesOf(made.id)).length === 5, 'its database and logins')
  await manage('DELETE', `/projects/${made.id}`)
  const { status, error } = await untilMade(project.id, restore.id)
  assert.equal(status, 'failed')
  assert.match(error!, /deleted meanwhile/)
  await eventually(async () => (await databasesOf(made.id)).length === 0, 'nothing of it is left')
})

test('new project: bad names, taken slugs and missing rights are refused', async () => {
  const project = await backedUpProject(platform)
  const backup = await project.backUp()
  const ask = async (body: unknown, id = backup.id, token = platform.adminToken) => {
    const path = `/api/v1/projects/${project.id}/backups/${id}/restore`
    const answer = await platform.call('POST', path, { token, body })
    return [answer.status, answer.body.error?.code]
  }
  assert.deepEqual(await ask({ new_project: { name: ' ' } }), [400, 'invalid_request'])
  assert.deepEqual(await ask({ new_project: { name: 'ok', slug: 'No!' } }), [400, 'invalid_request'])
  assert.deepEqual(await ask({ new: {} }), [400, 'invalid_request'])
  const taken = await platform.createProject()
  assert.deepEqual(await ask({ new_project: { name: 'ok', slug: taken.slug } }), [409, 'slug_taken'])
  assert.deepEqual(await ask({ new_project: { name: 'ok' } }, crypto.randomUUID()), [404, 'backup_not_found'])
})
