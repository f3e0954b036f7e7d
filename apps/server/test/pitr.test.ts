// Recovery of a project to a time, beside its neighbours, through the API.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { backedUpProject, richRows, richSchema } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { type PitrPlatform, startPitrPlatform } from './pitr-platform.ts'
import { webhookProject } from './webhook-project.ts'

let platform: PitrPlatform
before(async () => {
  platform = await startPitrPlatform()
})
after(() => platform.stop())

const rows = async (project: { id: string; service_role_key: string }, path: string) =>
  (await platform.call('GET', `/v1/rest/${project.id}/${path}`, { token: project.service_role_key })).body

test('pitr: a project has exactly the state of a time again, beside its neighbours, and the way back works', async () => {
  const project = await backedUpProject(platform)
  const neighbour = await webhookProject(platform)
  const params = { id: project.id }
  await project.sql(`${richSchema}; ${richRows}; create table notes (n int, at timestamptz)`)
  await neighbour.sql('create table notes (n int)')
  await project.signUp('before@example.test')
  await platform.projects.update({ params, body: { settings: { note: 'before' } } })
  await project.sql(`insert into storage.buckets (id, name) values ('papers', 'papers')`)
  const paper = `${platform.url}/v1/${project.id}/storage/v1/object/papers/a.txt`
  const authorization = `Bearer ${project.service_role_key}`
  const uploaded = await fetch(paper, { method: 'POST', headers: { authorization }, body: 'a paper' })
  assert.equal(uploaded.status, 200)
  const jobs = `/v1/cron/${project.id}/jobs`
  const token = project.service_role_key
  const nightly = { name: 'nightly', schedule: '0 3 * * *', command: 'select 1' }
  assert.equal((await platform.call('POST', jobs, { token, body: nightly })).status, 201)
  await platform.untilArchived(project.id)
  // Commits within milliseconds, each a transaction.
  await project.sql(
    `do $$ begin for n in 1..20 loop insert into notes values (n, now()); commit; end loop; end $$`,
  )
  const [third] = await project.rows<{ at: string }>(
    `select to_char(pg_xact_commit_timestamp(xmin) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at from public.notes where n = 7`,
  )
  await neighbour.sql('insert into notes values (1)')
  await project.sql(`drop table things cascade; insert into notes values (100, now())`)
  await project.signUp('after@example.test')
  assert.equal((await platform.call('DELETE', `${jobs}/nightly`, { token })).status, 204)
  assert.equal((await fetch(paper, { method: 'DELETE', headers: { authorization } })).status, 200)
  await platform.projects.update({ params, body: { settings: { note: 'after' } } })

  const preview = await platform.pitr.preview({ params, query: { target_time: third!.at } })
  assert.equal(preview.target_time, third!.at)
  assert.ok(preview.window.from <= third!.at && third!.at < preview.window.to)
  assert.ok(preview.wal.segments >= 1 && preview.wal.bytes > 0 && preview.base_backup.bytes > 0)
  assert.ok(preview.data_loss.seconds > 0 && preview.data_loss.wal_bytes > 0)
  assert.ok(preview.estimated_seconds >= 1 && preview.warnings.length > 0)

  const job = await platform.recover(project.id, third!.at)
  assert.deepEqual([job.error, job.status, job.target_time], [null, 'prepared', third!.at])
  assert.ok(job.expires_at! > job.prepared_at!)
  // At least the rows of `things` and the bytes of the file.
  assert.ok(job.bytes! > 10_000, `${job.bytes}`)
  assert.equal(
    (await rows(project, 'notes?n=eq.100')).length,
    1,
    'the project is unchanged until the cutover',
  )

  const done = await platform.cutOver(project.id, job.id)
  assert.deepEqual([done.error, done.status], [null, 'done'])
  const notes: { n: number }[] = await rows(project, 'notes?select=n&order=n')
  assert.deepEqual(
    notes.map(({ n }) => n),
    [1, 2, 3, 4, 5, 6, 7],
  )
  assert.equal((await rows(project, 'things?select=id&limit=3')).length, 3)
  assert.equal((await project.signIn('before@example.test')).status, 200)
  assert.notEqual((await project.signIn('after@example.test')).status, 200)
  assert.equal((await platform.projects.read({ params })).settings['note'], 'before')
  assert.deepEqual(job.warnings, [], 'the bytes of the deleted file are kept')
  assert.equal(await (await fetch(paper, { headers: { authorization } })).text(), 'a paper')
  const scheduled = (await platform.call('GET', jobs, { token })).body
  assert.deepEqual(
    scheduled.map(({ name }: { name: string }) => name),
    ['nightly'],
  )
  assert.deepEqual(await neighbour.rows('select n from public.notes'), [{ n: 1 }])
  const { points } = await platform.pitr.restorePoints({ params })
  assert.deepEqual(
    points!.map(({ kind }) => kind),
    ['restore'],
  )

  const { restores } = await project.backups.restores({ params, query: {} })
  assert.deepEqual([restores[0]!.id, restores[0]!.backup_id], [done.restore_id, job.id])
  assert.equal(restores[0]!.bytes, job.bytes)
  await project.backups.undo({ params: { ...params, restore_id: done.restore_id! } })
  assert.equal((await project.restoreEnded(done.restore_id!, ['undone'])).error, null)
  assert.equal((await rows(project, 'notes?n=eq.100')).length, 1)
  assert.equal((await platform.projects.read({ params })).settings['note'], 'after')
  const actions = await platform.app.control.rows<{ action: string }>(
    sql`select action from audit where action like 'pitr.%' and (project_id = ${project.id} or project_id is null) order by id`,
  )
  assert.deepEqual(
    actions.map(({ action }) => action),
    [
      'pitr.base_backup_made',
      'pitr.restore_started',
      'pitr.prepared',
      'pitr.cutover_requested',
      'pitr.cut_over',
    ],
  )
  await eventually(async () => {
    const ref = await platform.refOf(project.id)
    const left = await platform.app.control.rows(
      sql`select from pg_database where starts_with(datname, ${ref})`,
    )
    return left.length === 1
  }, 'no other database of the project is left')
})

test('pitr: a branch that was created since the last base backup can be recovered', async () => {
  const parent = await webhookProject(platform)
  await parent.sql('create table notes (n int); insert into notes values (1)')
  await platform.untilArchived(parent.id)
  const path = `/api/v1/projects/${parent.id}/branches`
  const token = platform.adminToken
  const { status, body: branch } = await platform.call('POST', path, { token, body: { name: 'trial' } })
  assert.equal(status, 201)
  await eventually(
    async () => (await platform.call('GET', `${path}/trial`, { token })).body.status === 'active',
    'the branch is active',
  )
  const insert = (n: number) =>
    platform.call('POST', `/v1/rest/${branch.id}/notes`, { token: branch.service_role_key, body: { n } })
  assert.equal((await insert(2)).status, 201)
  const [now] = await parent.rows<{ at: string }>(
    `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
  )
  assert.equal((await insert(3)).status, 201)
  const job = await platform.recover(branch.id, now!.at)
  assert.deepEqual([job.error, job.status], [null, 'prepared'])
  assert.equal((await platform.cutOver(branch.id, job.id)).error, null)
  assert.deepEqual(await rows(branch, 'notes?select=n&order=n'), [{ n: 1 }, { n: 2 }])
})
