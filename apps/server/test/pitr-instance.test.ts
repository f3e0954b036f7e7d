// Recovery of the whole instance to a time, by the operator on the host while the platform is stopped.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { postmastersIn } from './data-dir.ts'
import { eventually } from './eventually.ts'
import {
  ask,
  jobOf,
  notes,
  now,
  pitr,
  projectWithNotes,
  recoveriesIn,
  recoverNow,
  request,
  rest,
  untilMaintained,
  untilOver,
} from './pitr-host.ts'
import {
  createProject,
  exitOf,
  manage,
  platformProcesses,
  type RunningPlatform,
  stop,
} from './platform-process.ts'

const { launch, start, failureOf, dataDirWithProject, root } = platformProcesses()
const env = { PLATFORM_PITR: 'on' }
const dayMs = 86_400_000

async function prepared(platform: RunningPlatform, project: CreatedProject, target: string): Promise<string> {
  const id = await request(platform, project, target)
  const job = await untilOver(platform, project, id)
  assert.deepEqual([job.error, job.status], [null, 'prepared'])
  return id
}

/** Returns the directory of the cluster before. */
async function cutOver(dataDir: string, id: string): Promise<string> {
  const run = launch({ dataDir, env, args: ['pitr-cutover', '--instance', id] })
  assert.equal(await exitOf(run), '0', run.stderr)
  return JSON.parse(run.stdout).kept
}

const baseBackups = async (platform: RunningPlatform, project: CreatedProject): Promise<{ id: string }[]> =>
  // Missing while the archive is not open yet.
  (await pitr(platform, project, 'GET', 'restore-points')).body.base_backups ?? []

async function untilBaseBackups(platform: RunningPlatform, project: CreatedProject, count: number) {
  const isSo = async () => (await baseBackups(platform, project)).length === count
  await eventually(isSo, `there are ${count} base backups`)
  await untilMaintained(platform)
}

async function backUp(platform: RunningPlatform, { id }: CreatedProject): Promise<string> {
  const { status, body } = await manage(platform, 'POST', `/projects/${id}/backups`)
  assert.equal(status, 202, JSON.stringify(body))
  const made = await backupWith(platform, id, body.id, ({ progress }) => progress === null)
  assert.deepEqual([made.status, made.error], ['done', null])
  return body.id
}

/** Waits for a backup in this state. */
const backupWith = (platform: RunningPlatform, project: string, id: string, is: (backup: any) => boolean) =>
  eventually(async () => {
    const { body } = await manage(platform, 'GET', `/projects/${project}/backups?limit=100`)
    return body.backups.find((each: any) => each.id === id && is(each))
  }, 'the backup is in this state')

async function assertIntact(platform: RunningPlatform, { id }: CreatedProject, backup: string) {
  const { status, body } = await manage(platform, 'POST', `/projects/${id}/backups/${backup}/verify`)
  assert.equal(status, 202, JSON.stringify(body))
  const verified = await backupWith(
    platform,
    id,
    backup,
    each => each.progress === null && (each.verified_at ?? each.verify_error) !== null,
  )
  assert.equal(verified.verify_error, null)
}

const objectOf = (platform: RunningPlatform, { id, service_role_key }: CreatedProject, init?: RequestInit) =>
  fetch(`${platform.url}/v1/storage/${id}/object/papers/a.txt`, {
    ...init,
    headers: { apikey: service_role_key },
  })

/** As if two days had passed since everything in this directory was written. */
function age(directory: string): void {
  const time = new Date(Date.now() - 2 * dayMs)
  for (const each of fs.readdirSync(directory, { recursive: true, withFileTypes: true }))
    if (each.isFile()) fs.utimesSync(join(each.parentPath, each.name), time, time)
}

test('pitr: the whole instance is recovered while the platform is stopped, and the old cluster is kept', async () => {
  const dataDir = await dataDirWithProject('pitr-instance')
  let platform = await start({ dataDir, env })
  const { project, target } = await projectWithNotes(platform, 'instance')
  const later = await createProject(platform, 'made later')
  const id = await request(platform, project, target)
  assert.equal((await untilOver(platform, project, id)).status, 'prepared')
  const args = ['pitr-cutover', '--instance', id]
  assert.match(await failureOf({ dataDir, env, args }), /Another platform .* uses/)
  await stop(platform)
  const cutover = launch({ dataDir, env, args })
  assert.equal(await exitOf(cutover), '0', cutover.stderr)
  const answer = JSON.parse(cutover.stdout)
  assert.deepEqual([answer.id, answer.target_time], [id, target])
  assert.ok(fs.existsSync(join(answer.kept, 'PG_VERSION')))
  assert.deepEqual(recoveriesIn(dataDir), [])
  assert.deepEqual(postmastersIn(answer.kept), [])

  platform = await start({ dataDir, env })
  assert.deepEqual(await notes(platform, project), [1])
  assert.equal((await manage(platform, 'GET', `/projects/${later.id}`)).status, 404)
  // The archive goes on with a new base backup.
  await rest(platform, project, 'POST', 'notes', { n: 3 })
  await eventually(async () => {
    const { body } = await pitr(platform, project, 'GET', 'restore-points')
    return body.windows?.length === 2
  }, 'times after the cutover can be recovered')
  // The times between are no loss of WAL. The time before the cutover has a name.
  await untilMaintained(platform)
  const { windows, points } = (await pitr(platform, project, 'GET', 'restore-points')).body
  const previewOf = async (time: string) =>
    (await pitr(platform, project, 'GET', `restore/preview?target_time=${time}`)).body
  const between = await previewOf(windows[0].to)
  assert.equal(between.error.code, 'wal_gap')
  assert.match(between.error.message, /because the instance was recovered to another time then\. Times from/)
  assert.equal(points.length, 1)
  assert.equal(points[0].kind, 'restore')
  const before = await previewOf(points[0].at)
  assert.deepEqual(before.window, windows[0])
  assert.deepEqual(before.warnings.slice(1), [
    'Some times before or after this one cannot be recovered, because the instance was recovered to another time then.',
  ])
  const { body: health } = await manage(platform, 'GET', '/health/services')
  assert.doesNotMatch(health.warnings.join(' '), /can be recovered/)
  assert.match(await (await fetch(`${platform.url}/metrics`)).text(), /^plinth_pitr_gaps 0$/m)
  const again = await request(platform, project, await now(dataDir))
  assert.equal((await untilOver(platform, project, again)).status, 'prepared')
  // A copy that nobody cuts over is dropped after its time.
  await ask(dataDir, 'plinth', 'update pitr_jobs set expires_at = now()')
  await stop(platform)
  platform = await start({ dataDir, env })
  const copies = `select from pg_database where datname like '%_recovered'`
  await eventually(async () => (await ask(dataDir, 'plinth', copies)).length === 0, 'the copy is dropped')
  assert.equal((await jobOf(platform, project, again)).status, 'expired')
  await stop(platform)
})

test('pitr: after a recovery of the instance, backups and files since then are intact, also after the way back', async () => {
  const dataDir = await dataDirWithProject('pitr-way-back')
  let platform = await start({ dataDir, env })
  const { project } = await projectWithNotes(platform, 'way back')
  const bucket = `insert into storage.buckets (id, name) values ('papers', 'papers')`
  await rest(platform, project, 'POST', 'rpc/exec_sql', { sql: bucket })
  const upload = async (body: string) =>
    assert.equal((await objectOf(platform, project, { method: 'PUT', body })).status, 200)
  await upload('an older paper')
  const target = await now(dataDir)
  await rest(platform, project, 'POST', 'notes', { n: 3 })
  const later = await createProject(platform, 'made later')
  await upload('a paper')
  const backup = await backUp(platform, project)
  const ofLater = await backUp(platform, later)
  const id = await prepared(platform, project, target)
  await stop(platform)
  for (const folder of ['objects', 'backups']) age(join(dataDir, folder))
  const kept = await cutOver(dataDir, id)

  platform = await start({ dataDir, env })
  assert.deepEqual(await notes(platform, project), [1, 2])
  assert.equal(await (await objectOf(platform, project)).text(), 'an older paper')
  await assertIntact(platform, project, backup)
  await untilBaseBackups(platform, project, 2)
  const compared = `compared_at = now() - interval '2 days'`
  await ask(dataDir, 'plinth', `update storage_areas set sweep_at = now(), ${compared}`)
  await stop(platform)
  // Without recovery to a time, bytes of removed files are usually not kept.
  platform = await start({ dataDir })
  const uncompared = `select from storage_areas where compared_at < now() - interval '1 day'`
  await eventually(async () => (await ask(dataDir, 'plinth', uncompared)).length === 0, 'files were swept')
  await stop(platform)

  const { clusterDir } = engineFiles(dataDir)
  fs.renameSync(clusterDir, `${clusterDir}-recovered`)
  fs.renameSync(kept, clusterDir)
  platform = await start({ dataDir, env })
  assert.deepEqual(await notes(platform, project), [1, 2, 3])
  assert.equal(await (await objectOf(platform, project)).text(), 'a paper')
  await assertIntact(platform, project, backup)
  await assertIntact(platform, later, ofLater)
  // The archive continues where it was: without a gap, and without a new base backup.
  await untilMaintained(platform)
  assert.equal((await baseBackups(platform, project)).length, 2)
  assert.deepEqual(await ask(dataDir, 'plinth', `select from audit where action = 'pitr.gap'`), [])
  await rest(platform, project, 'POST', 'notes', { n: 4 })
  assert.equal((await recoverNow(platform, project)).status, 'prepared')
  await stop(platform)
})

test('pitr: after two recoveries of the instance to times of the same history, the second state can be recovered', async () => {
  const dataDir = await dataDirWithProject('pitr-twice')
  let platform = await start({ dataDir, env })
  const { project, target } = await projectWithNotes(platform, 'twice')
  const second = await now(dataDir)
  await rest(platform, project, 'POST', 'notes', { n: 3 })
  const first = await prepared(platform, project, second)
  await stop(platform)
  await cutOver(dataDir, first)
  platform = await start({ dataDir, env })
  assert.deepEqual(await notes(platform, project), [1, 2])
  await untilBaseBackups(platform, project, 2)
  await rest(platform, project, 'POST', 'notes', { n: 4 })
  const id = await prepared(platform, project, target)
  await stop(platform)
  await cutOver(dataDir, id)

  platform = await start({ dataDir, env })
  assert.deepEqual(await notes(platform, project), [1])
  const timeline = 'select timeline_id from pg_control_checkpoint()'
  assert.deepEqual(await ask(dataDir, 'plinth', timeline), [{ timeline_id: 3 }])
  await untilBaseBackups(platform, project, 3)
  await rest(platform, project, 'POST', 'notes', { n: 5 })
  const again = await recoverNow(platform, project)
  assert.deepEqual([again.error, again.status], [null, 'prepared'])
  await stop(platform)
  assert.equal(await exitOf(launch({ dataDir, env, args: ['pitr-cutover', '--instance', again.id] })), '0')
  platform = await start({ dataDir, env })
  assert.deepEqual(await notes(platform, project), [1, 5])
  await stop(platform)
})

test('pitr: with another secret or store of backups, the instance is not recovered and no WAL is lost', async () => {
  const dataDir = await dataDirWithProject('pitr-other-settings')
  const given = { ...env, PLATFORM_BACKUP_DIR: join(root, 'backups of other settings') }
  let platform = await start({ dataDir, env: given })
  const { project, target } = await projectWithNotes(platform, 'settings')
  const id = await prepared(platform, project, target)
  await stop(platform)
  const waiting = () =>
    fs
      .readdirSync(join(dataDir, 'wal'))
      .map(name => [name, fs.readFileSync(join(dataDir, 'wal', name), 'base64')])
  const before = waiting()
  assert.ok(before.length > 0, 'WAL waits in the spool')
  const args = ['pitr-cutover', '--instance', id]
  const secret = { CONTROL_PLANE_SECRET: 'another secret that is long enough for the platform' }
  assert.match(
    await failureOf({ dataDir, env: { ...given, ...secret }, args }),
    /CONTROL_PLANE_SECRET is not the one/,
  )
  assert.deepEqual(waiting(), before)
  assert.match(await failureOf({ dataDir, env, args }), /no base backup .* PLATFORM_BACKUP_DIR/)
  assert.deepEqual(waiting(), before)
  platform = await start({ dataDir, env: given })
  assert.deepEqual(await notes(platform, project), [1, 2])
  await untilMaintained(platform)
  assert.equal((await baseBackups(platform, project)).length, 1)
  await stop(platform)
})
