// Files of projects and backups in S3, which fails while branches, projects from backups and upgrades are made.
import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { after, afterEach, before, test } from 'node:test'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { openS3Pieces, usualTimeouts } from '#src/kernel/objects/s3.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { anyHoldMs, branchesOf } from './branch-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { outdatedProjects } from './outdated-project.ts'
import { type Mode, type S3Proxy, startS3Proxy } from './s3-proxy.ts'
import { type S3Server, startS3 } from './s3-server.ts'

/** No test waits for them. */
const timeouts = { ...usualTimeouts, requestMs: 600_000 }
const [filesFailed, backupsFailed] = ['files', 'backups'].map(
  what => `The S3 service for ${what} cannot be reached, or has failed.`,
)
let s3: S3Server
let proxy: S3Proxy
let platform: TestPlatform
let files: Pieces
let backups: Pieces
let settings: Record<string, string>
before(async () => {
  s3 = await startS3()
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3.settings
  proxy = await startS3Proxy(endpoint!)
  const settingsOf = (prefix: string, name: string) => ({
    [`${prefix}S3_BUCKET`]: name,
    [`${prefix}S3_ENDPOINT`]: proxy.url,
    [`${prefix}S3_ACCESS_KEY_ID`]: accessKeyId,
    [`${prefix}S3_SECRET_ACCESS_KEY`]: secretAccessKey,
  })
  settings = { ...settingsOf('', bucket), ...settingsOf('BACKUP_', s3.backupBucket) }
  platform = await startPlatform({
    settings,
    s3Timeouts: timeouts,
    branchHoldMs: anyHoldMs,
  })
  // Not through the proxy.
  files = await openS3Pieces(s3.settings)
  backups = await openS3Pieces({ ...s3.settings, bucket: s3.backupBucket })
})
after(async () => {
  await platform?.stop()
  await files?.close()
  await backups?.close()
  proxy?.close()
  await s3?.stop()
})
/** An execution of an upgrade backs up all projects. */
afterEach(async () => {
  proxy.modeOf = undefined
  const found = sql`select p.id from projects p where p.status = 'active' order by p.id in (select project_id from branches) desc`
  for (const { id } of await platform.app.control.rows<{ id: string }>(found))
    await manage('DELETE', `/projects/${id}`)
})

async function works(reply: ReturnType<TestPlatform['call']>): Promise<any> {
  const { status, body } = await reply
  assert.ok(status < 300, `${status} ${JSON.stringify(body)}`)
  return body
}
const manage = (method: string, path: string, body?: unknown) =>
  works(platform.call(method, `/api/v1${path}`, { token: platform.adminToken, ...(body ? { body } : {}) }))

const names = ['a', 'b', 'c']
const object = (method: string, project: { id: string; service_role_key: string }, name: string) =>
  works(
    platform.call(method, `/v1/${project.id}/storage/v1/object/papers/${name}`, {
      token: project.service_role_key,
      ...(method === 'POST' && { body: name, headers: { 'content-type': 'text/plain' } }),
    }),
  )
async function projectWithFiles(): Promise<BackedUpProject> {
  const project = await backedUpProject(platform)
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  await project.sql(`
    create table notes (id int primary key); insert into notes values (1);
    insert into storage.buckets (id, name) values ('papers', 'papers')`)
  for (const name of names) await object('POST', project, name)
  return project
}
async function assertHasFiles(project: { id: string; service_role_key: string }): Promise<void> {
  for (const name of names) assert.equal(await object('GET', project, name), name)
}

/** All requests from the nth selected one on. */
function failFrom(mode: Mode, n: number, selects: (request: IncomingMessage) => boolean): void {
  let count = 0
  proxy.modeOf = request => {
    if (count < n && selects(request)) count++
    return count < n ? 'forwarding' : mode
  }
}
const toFiles = ({ url }: IncomingMessage) => url!.startsWith(`/${s3.settings.bucket}/`)

const inFolder = async (pieces: Pieces, folder: string) => {
  const found: string[] = []
  for await (const { name } of pieces.list(folder)) found.push(name)
  return found
}
/** Its databases, sessions of them and roles. */
const leftOf = (ref: string) =>
  platform.app.control.rows(sql`
    select datname as name from pg_database where starts_with(datname, ${ref})
    union all select rolname from pg_roles where starts_with(rolname, ${ref})`)
const untilNothingOf = (ref: string) =>
  eventually(async () => (await leftOf(ref)).length === 0, 'no database and no role is left')

for (const mode of ['failing', 'refusing'] as const)
  test(`branch: one whose files are copied while S3 is ${mode} fails and says so, and can be made when S3 is back`, async () => {
    const parent = await projectWithFiles()
    const { api, create, ended } = branchesOf(platform, parent.id)
    failFrom(mode, 2, ({ headers }) => headers['x-amz-copy-source'] !== undefined)
    const { id } = await api.create({ params: { id: parent.id }, body: { name: 'unlucky' } })
    const { status, error } = await ended('unlucky')
    assert.deepEqual([status, error], ['failed', filesFailed])
    await untilNothingOf(await platform.refOf(id))
    assert.equal((await inFolder(files, id)).length, 1, 'the first file was copied')

    proxy.modeOf = undefined
    const slug = { id: parent.id, slug: 'unlucky' }
    await platform.app.control.run(sql`update branch_tasks set leased_until = now()`)
    if (mode === 'failing') {
      await api.reset({ params: slug })
      assert.deepEqual((({ status, error }) => [status, error])(await ended('unlucky')), ['active', null])
      assert.equal((await inFolder(files, id)).length, names.length)
    }
    await api.remove({ params: slug })
    await untilNothingOf(await platform.refOf(id))
    assert.deepEqual(await inFolder(files, id), [])
    await assertHasFiles(await create({ name: 'unlucky' }))
    const tasks = sql`select from branch_tasks`
    await eventually(async () => !(await platform.app.control.row(tasks)), 'no task is left')
    const known = new Set(
      (await platform.app.control.rows<{ id: string }>(sql`select id from projects`)).map(each => each.id),
    )
    for await (const folder of files.folders())
      assert.ok(known.has(folder), 'the archives of tasks are removed')
  })

test('branch: while S3 does not answer the removal of files of one branch, another one of the parent is made', async () => {
  const parent = await projectWithFiles()
  const { api, create, ended } = branchesOf(platform, parent.id)
  let removed: string | undefined
  proxy.modeOf = ({ method, url }) => {
    if (method === 'PUT') removed ??= /^\/[^/]+\/([0-9a-f-]{36})\/\1-/.exec(url!)?.[1]
    const isRemoval = removed !== undefined && url!.includes(`prefix=${removed}`)
    return isRemoval ? 'silent' : 'forwarding'
  }
  await api.create({ params: { id: parent.id }, body: { name: 'first' } })
  await create({ name: 'second' })
  assert.equal((await ended('first')).status, 'active')
  const task = sql`select from branch_tasks where id = ${removed!}`
  assert.ok(await platform.app.control.row(task), 'the task remembers its files')
  await platform.app.control.run(sql`update branch_tasks set leased_until = now()`)
  await eventually(() => proxy.open > 0, 'the files are being removed')
  await create({ name: 'third' })
  assert.ok((await inFolder(files, removed!)).length > 0)

  proxy.modeOf = undefined
  proxy.drop()
  await eventually(async () => {
    await platform.app.control.run(
      sql`update branch_tasks set leased_until = now() where leased_until > now()`,
    )
    return !(await platform.app.control.row(task))
  }, 'the task is over')
  assert.deepEqual(await inFolder(files, removed!), [])
})

for (const [mode, kind] of [
  ['failing', 'files'],
  ['refusing', 'backups'],
] as const)
  test(`new project: one that is made from a backup while S3 for ${kind} is ${mode} fails and says so, and can be made when S3 is back`, async () => {
    const project = await projectWithFiles()
    const backup = await project.backUp()
    assert.equal(backup.error, null)
    const path = `/projects/${project.id}/backups/${backup.id}/restore`
    const begin = () => manage('POST', path, { new_project: { name: 'again' } })
    // The second file is being copied.
    const selects: (request: IncomingMessage) => boolean =
      kind === 'files'
        ? request => request.method === 'PUT' && toFiles(request)
        : ({ method, url }) =>
            method === 'GET' && /\/[0-9a-f-]{36}\.0/.test(url!) && !toFiles({ url } as IncomingMessage)
    failFrom(mode, 2, selects)
    const { restore, project: made } = await begin()
    const ref = await platform.refOf(made.id)
    const { status, error } = await project.restoreEnded(restore.id, ['failed', 'done'])
    assert.deepEqual([status, error], ['failed', kind === 'files' ? filesFailed : backupsFailed])

    proxy.modeOf = undefined
    await untilNothingOf(ref)
    await eventually(async () => (await inFolder(files, made.id)).length === 0, 'no file is left')
    const tasks = sql`select from backup_tasks where project_id in (${project.id}, ${made.id})`
    await eventually(async () => !(await platform.app.control.row(tasks)), 'no task is left')
    const again = await begin()
    const { error: none } = await project.restoreEnded(again.restore.id)
    assert.equal(none, null)
    await assertHasFiles(again.project)
  })

for (const mode of ['failing', 'refusing'] as const)
  test(`upgrade: while S3 is ${mode} it changes nothing anywhere, and it succeeds when S3 is back`, async () => {
    const [first, second] = await outdatedProjects(platform, 2)
    const run = () =>
      platform.call('POST', '/api/v1/admin/platform/upgrade?execute=true', { token: platform.adminToken })
    const state = async () => {
      const found = [
        await platform.app.control.rows(
          raw(`
        select p::text from projects p union all select m::text from migrations m
        union all select u::text from upgrades u union all select u::text from upgrade_projects u order by 1`),
        ),
      ]
      for (const { ref } of [first!, second!])
        found.push(
          await platform.asSuperuser(ref, session =>
            session.rows(raw('select * from platform.migrations order by 1')),
          ),
        )
      return found
    }
    const stored = () => inFolder(backups, second!.id)
    const unchanged = await state()
    failFrom(mode, 3, ({ method, url }) => method === 'PUT' && url!.includes(second!.id))
    const { status, body } = await run()
    assert.deepEqual([status, body.error?.code], [500, 'upgrade_snapshot_failed'], JSON.stringify(body))
    assert.match(body.error.message, new RegExp(`${second!.id}.*nothing was changed: ${backupsFailed}`))
    assert.deepEqual(await state(), unchanged)

    await eventually(async () => (await stored()).length > 0, 'an object of the failed backup is stored')
    const left = await stored()
    proxy.modeOf = undefined
    const again = await run()
    assert.equal(again.status, 200, JSON.stringify(again.body))
    for (const { id } of [first!, second!]) assert.ok(again.body.manifest.done.includes(id))

    // A node sweeps when it starts, and again soon if that fails.
    proxy.modeOf = ({ url }) => (url!.includes('delimiter=') ? mode : 'forwarding')
    const node = await startPlatform({ beside: platform, settings })
    try {
      await eventually(
        () => node.logged.some(line => line.includes('backups: sweep')),
        'the sweep has failed',
      )
      proxy.modeOf = undefined
      const isGone = async () => new Set(await stored()).isDisjointFrom(new Set(left))
      await eventually(isGone, 'no object of the failed backup is left')
      assert.ok((await stored()).length > 0, 'the other backup is kept')
    } finally {
      await node.stop()
    }
  })
