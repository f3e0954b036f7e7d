// Export, restore and copy of service data outside the project database, as for backups and branches.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sealer as createSealer } from '#src/kernel/crypto/sealed.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import type { ServiceExport } from '#src/tenancy/project-data.ts'
import { settingsContext } from '#src/tenancy/settings-secrets.ts'
import { backupDepsOf } from '#src/upgrade-backups.ts'
import { copyData } from './copied-data.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let origin: CreatedProject
let target: CreatedProject

before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())
beforeEach(async () => {
  ;[origin, target] = await Promise.all([platform.createProject(), platform.createProject()])
  await fill(origin)
})

async function works(reply: Promise<Reply>): Promise<any> {
  const { status, body } = await reply
  assert.ok(status < 300, `${status} ${JSON.stringify(body)}`)
  return body
}
const manage = (method: string, { id }: CreatedProject, path: string, body?: unknown) =>
  works(
    platform.call(method, `/api/v1/projects/${id}${path}`, {
      token: platform.adminToken,
      ...(body !== undefined && { body }),
    }),
  )
const call = (method: string, { id, service_role_key: key }: CreatedProject, path: string, options = {}) =>
  platform.call(method, path.replace('*', id), { token: key, apikey: key, ...options })

const bytes = 'x'.repeat(200_000)
const greeting = `Deno.serve(() => new Response(Deno.env.get('GREETING')))`
const smtp = {
  host: 'mail.example.test',
  port: 587,
  from_email: 'a@example.test',
  username: 'ada',
  password: 'hunter2',
}

async function fill(project: CreatedProject): Promise<void> {
  await manage('PATCH', project, '', { settings: { smtp }, quotas: { max_storage_size_mb: 7 } })
  await manage('PUT', project, '/email/templates/welcome', {
    subject: 'Hello',
    body_html: '<p>Hello</p>',
    body_text: 'Hello',
  })
  await manage('POST', project, '/queries/saved', { name: 'all', sql: 'select 1' })
  await manage('POST', project, '/secrets', { name: 'GREETING', value: 'hello' })
  await manage('POST', project, '/functions', { name: 'greet', code: greeting })
  await works(
    call('POST', project, '/v1/cron/*/jobs', {
      body: { name: 'nightly', schedule: '0 3 * * *', command: 'select 1' },
    }),
  )
  await works(call('POST', project, '/v1/storage/*/bucket', { body: { name: 'b' } }))
  await works(
    call('POST', project, '/v1/storage/*/object/b/a', {
      body: bytes,
      headers: { 'content-type': 'text/plain' },
    }),
  )
}

/** The data as a client reads it, without ids and times that differ between projects. */
async function shown(project: CreatedProject) {
  const { settings, quotas } = await manage('GET', project, '')
  const { templates } = await manage('GET', project, '/email/templates')
  const { queries } = await manage('GET', project, '/queries/saved')
  const { jobs } = await manage('GET', project, '/cron/jobs')
  return {
    settings,
    quotas,
    templates,
    queries,
    jobs: jobs.map(({ jobid, next_run_at, ...job }: Record<string, unknown>) => job),
  }
}

/** Copies the names and versions of files, like a copy of the project database. */
async function copyObjects(from: CreatedProject, to: CreatedProject): Promise<void> {
  const [origin, copy] = await Promise.all([platform.refOf(from.id), platform.refOf(to.id)])
  for (const [name, columns] of [
    ['storage.buckets', 'id, name'],
    ['storage.objects', 'bucket_id, name, version, metadata'],
  ] as const) {
    const [table, list] = [raw(name), raw(columns)]
    const rows = await platform.asSuperuser(origin, session =>
      session.rows(sql`select ${list} from ${table}`),
    )
    await platform.asSuperuser(copy, session =>
      session.run(sql`
        insert into ${table} (${list})
        select ${list} from jsonb_populate_recordset(null::${table}, ${JSON.stringify(rows)})`),
    )
  }
}

const usedBytes = ({ id }: CreatedProject) =>
  platform.app.control.row<{ bytes: string }>(sql`select bytes from storage_areas where project_id = ${id}`)

async function download(project: CreatedProject): Promise<unknown> {
  const { status, body } = await call('GET', project, '/v1/storage/*/object/b/a')
  return status === 200 ? body : `${status} ${JSON.stringify(body)}`
}

/** Nodes learn of restored functions and secrets within a moment. */
const greets = (project: CreatedProject) =>
  eventually(async () => (await call('POST', project, '/v1/functions/*/greet')).body === 'hello', 'it greets')

/** Reads an export to its end and passes it through JSON, as a backup does. */
async function exported({ id }: CreatedProject): Promise<ServiceExport[]> {
  const files: ServiceExport[] = []
  await platform.app.control.transaction(async session => {
    for (const { service, rows } of platform.app.projectData.export(session, id))
      files.push({ service, rows: parsed(JSON.stringify(await collect(rows))) })
  })
  return files
}
async function collect<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const row of rows) all.push(row)
  return all
}
async function* parsed(text: string) {
  yield* JSON.parse(text)
}

/** As a backup puts them back. */
const copyFiles = (from: CreatedProject, to: CreatedProject) =>
  platform.app.projectData.copyFiles(platform.app.pieces, platform.app.control, from.id, to.id)
const restore = (to: CreatedProject, from: CreatedProject, files: readonly ServiceExport[]) =>
  platform.app.control.transaction(session =>
    platform.app.projectData.restore(session, to.id, from.id, files),
  )
async function copy(from: CreatedProject, to: CreatedProject): Promise<void> {
  await copyFiles(from, to)
  await platform.app.control.transaction(session => copyData(platform, session, from.id, to.id))
}

test('project data: backups before an upgrade, when no service is open, have the data of every service', async () => {
  const { app } = platform
  const names = (data: typeof app.projectData) =>
    data.export(app.control, origin.id).map(each => each.service)
  const deriveKey = keyring(platform.controlPlaneSecret)
  const { cluster, pieces } = app
  const stores = { cluster, deriveKey, sealer: createSealer(deriveKey('sealed')), pieces }
  const { projectData } = backupDepsOf(app.control, stores as Parameters<typeof backupDepsOf>[1])
  assert.deepEqual(names(projectData).sort(), names(app.projectData).sort())
})

test('project data: a restore reverts changes since the export', async () => {
  const before = await shown(origin)
  const files = await exported(origin)
  await manage('PATCH', origin, '', { settings: { smtp: null, site_url: 'https://example.test' } })
  await manage('DELETE', origin, '/email/templates/welcome')
  await manage('POST', origin, '/queries/saved', { name: 'another', sql: 'select 2' })
  await works(call('DELETE', origin, '/v1/cron/*/jobs/nightly'))
  await manage('DELETE', origin, '/functions/greet')
  await manage('POST', origin, '/secrets', { name: 'GREETING', value: 'good bye' })
  await restore(origin, origin, files)
  assert.deepEqual(await shown(origin), before)
  assert.equal(await download(origin), bytes)
  await greets(origin)
})

test('project data: data restored to another project is usable there, with inactive jobs', async () => {
  await copyFiles(origin, target)
  await restore(target, origin, await exported(origin))
  const { jobs, ...rest } = await shown(target)
  const { jobs: active, ...original } = await shown(origin)
  assert.deepEqual(rest, original)
  assert.deepEqual(
    jobs,
    active.map((job: object) => ({ ...job, active: false })),
  )
  assert.deepEqual(await usedBytes(target), await usedBytes(origin))
  const { settings } = (await platform.app.control.row<{ settings: { smtp: { password: string } } }>(
    sql`select settings from projects where id = ${target.id}`,
  ))!
  const sealer = createSealer(keyring(platform.controlPlaneSecret)('sealed'))
  assert.equal(sealer.open(settings.smtp.password, settingsContext(target.id)), smtp.password)
  await greets(target)
})

test('project data: a copy has all data and files, with inactive jobs', async () => {
  await copyObjects(origin, target)
  await copy(origin, target)
  const { jobs, ...rest } = await shown(target)
  const { jobs: active, ...original } = await shown(origin)
  assert.deepEqual(rest, original)
  assert.deepEqual(
    jobs,
    active.map((job: object) => ({ ...job, active: false })),
  )
  await works(
    call('POST', target, '/v1/cron/*/jobs', {
      body: { name: 'nightly', schedule: '0 3 * * *', command: 'select 1' },
    }),
  )
  assert.equal((await shown(target)).jobs[0].active, true)

  assert.equal(await download(target), bytes)
  await works(call('DELETE', origin, '/v1/storage/*/object/b/a'))
  await works(platform.call('DELETE', `/api/v1/projects/${origin.id}`, { token: platform.adminToken }))
  assert.equal(await download(target), bytes, 'the copy does not depend on the original')
  await greets(target)
})

test('project data: an inactive job does not run', async () => {
  await copy(origin, target)
  const due = (id: string) => sql`update jobs set next_run_at = now() where project_id = ${id}`
  await platform.app.control.run(due(target.id))
  await platform.app.control.run(due(origin.id))
  // Saving a job wakes the worker, which claims all due jobs at once.
  await works(
    call('POST', origin, '/v1/cron/*/jobs', {
      body: { name: 'another', schedule: '* * * * *', command: 'select 1' },
    }),
  )
  const runs = async (project: CreatedProject) =>
    (await manage('GET', project, '/cron/jobs/nightly/runs')).runs.length
  await eventually(() => runs(origin), 'the job of the original runs')
  assert.equal(await runs(target), 0)
})

test('project data: the key of existing files is never replaced', async () => {
  await fill(target)
  await assert.rejects(copy(origin, target), /encrypted with another key/)
  assert.equal(await download(target), bytes)
})

test('project data: a restore with an unknown service is rejected before it changes anything', async () => {
  const before = await shown(origin)
  const unknown = [...(await exported(target)), { service: 'telepathy', rows: parsed('[]') }]
  await assert.rejects(restore(origin, target, unknown), /no service "telepathy"/)
  assert.deepEqual(await shown(origin), before)
})
