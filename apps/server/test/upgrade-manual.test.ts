// PLATFORM_UPGRADE=manual on a data directory of an old release, also when the platform is killed meanwhile.
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { connectAsSuperuser } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { baseUrl, type Facts, unpackOldDataDirectory } from './fixtures/old-data-directory.ts'
import { call, type Reply } from './harness.ts'
import {
  crash,
  createProject,
  manage,
  platformProcesses,
  type RunningPlatform,
  stop,
} from './platform-process.ts'

const { start, newDataDir, dataDirWithProject, existingProject } = platformProcesses()
const env = { PLATFORM_BASE_URL: baseUrl, PLATFORM_UPGRADE: 'manual' }

/** What backups have stored. */
const storedIn = (dataDir: string) =>
  existsSync(join(dataDir, 'backups'))
    ? readdirSync(join(dataDir, 'backups'), { recursive: true, withFileTypes: true })
        .filter(each => each.isFile())
        .map(({ name }) => name)
        // The files of projects are removed by the sweep of the next day.
        .filter(name => /-|\.[ce]$/.test(name.slice(36, 38)))
    : []

const upgrade = (platform: RunningPlatform, query = '?execute=true') =>
  manage(platform, 'POST', `/admin/platform/upgrade${query}`)
const progressOf = async (platform: RunningPlatform) =>
  (await manage(platform, 'GET', '/admin/platform/upgrade')).body.progress

async function waiting(name: string): Promise<{ facts: Facts; dataDir: string; platform: RunningPlatform }> {
  const dataDir = newDataDir(name)
  const facts = unpackOldDataDirectory(dataDir)
  return { facts, dataDir, platform: await start({ dataDir, env }) }
}

/** The databases, and the migrations of the control database and of every project. */
async function state(dataDir: string): Promise<unknown> {
  const control = await connectAsSuperuser(dataDir)
  const migrations = 'select name, hash, applied_at from migrations order by name'
  const found: Record<string, unknown[]> = {
    databases: (await control.query('select datname from pg_database order by 1')).rows,
    migrations: (await control.query(migrations)).rows,
    projects: (await control.query('select id, ref, schema_version from projects order by id')).rows,
  }
  const { rows } = await control.query(`select ref from projects where status <> 'deleted'`)
  await control.end()
  for (const { ref } of rows) {
    const project = await connectAsSuperuser(dataDir, ref)
    found[ref] = (await project.query(`select * from platform.migrations order by name`)).rows
    await project.end()
  }
  return found
}

async function refOf(dataDir: string, id: string): Promise<string> {
  const control = await connectAsSuperuser(dataDir)
  const { rows } = await control.query('select ref from projects where id = $1', [id])
  await control.end()
  return rows[0].ref
}

async function assertServes({ facts, platform }: { facts: Facts; platform: RunningPlatform }): Promise<void> {
  for (const name of ['shop', 'club'] as const) {
    const { id, service_role_key } = facts.projects[name]
    const reply = await call(`${platform.url}/v1/rest/${id}/`, 'GET', { apikey: service_role_key })
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    const { backups } = (await manage(platform, 'GET', `/projects/${id}/backups`)).body
    assert.deepEqual([backups[0].kind, backups[0].status], ['upgrade', 'done'])
  }
  const control = await connectAsSuperuser(platform.dataDir)
  const { rows } = await control.query(`select datname from pg_database where datname = 'plinth_upgrade'`)
  await control.end()
  assert.deepEqual(rows, [], 'no copy of the control database is left')
}

test('manual upgrade: serves health and the upgrade until the operator executes it, then everything', async () => {
  const { facts, dataDir, platform } = await waiting('manual')
  const before = await state(dataDir)
  const { shop } = facts.projects
  assert.equal((await call(`${platform.url}/health`, 'GET', {})).status, 200)
  assert.match((await manage(platform, 'GET', '/health/services')).body.warnings[0], /plinth upgrade --yes/)
  const refused = [
    await manage(platform, 'GET', '/projects'),
    await call(`${platform.url}/v1/rest/${shop.id}/notes`, 'GET', { apikey: shop.anon_key }),
    await call(`${platform.url}/v1/auth/${shop.id}/sign-in`, 'POST', { body: {} }),
  ]
  for (const { status, body } of refused) {
    assert.equal(status, 503)
    assert.equal(body.error?.code ?? body.code, 'upgrade_pending')
    assert.match(body.error?.message ?? body.message, /plinth upgrade --yes/)
  }
  assert.equal((await call(`${platform.url}/api/v1/admin/platform/upgrade`, 'POST', {})).status, 401)
  const dry = await upgrade(platform, '')
  assert.equal(dry.status, 200, JSON.stringify(dry.body))
  assert.ok(dry.body.plan.platform_migrations.includes('0021_upgrades'))
  assert.equal(dry.body.plan.current_version, null)
  const planned = dry.body.plan.projects.map(({ project_id }: { project_id: string }) => project_id)
  assert.ok(planned.includes(shop.id))
  assert.deepEqual(await state(dataDir), before, 'a dry run changes nothing')

  const ref = await refOf(dataDir, shop.id)
  const project = await connectAsSuperuser(dataDir, ref)
  await project.query('select lo_create(0) from generate_series(1, 10001)')
  const failed = await upgrade(platform)
  assert.deepEqual([failed.status, failed.body.error.code], [500, 'upgrade_snapshot_failed'])
  assert.ok(failed.body.error.message.includes(shop.id))
  assert.deepEqual(await state(dataDir), before, 'after a failed backup nothing is changed')
  assert.deepEqual(storedIn(dataDir), [])
  await project.query('select lo_unlink(oid) from pg_largeobject_metadata')
  await project.end()

  // The migration of the copy fails.
  const control = await connectAsSuperuser(dataDir)
  await control.query('create table branch_tasks ()')
  const unrehearsed = await upgrade(platform)
  assert.deepEqual([unrehearsed.status, unrehearsed.body.error.code], [500, 'upgrade_snapshot_failed'])
  assert.match(unrehearsed.body.error.message, /nothing was changed: .*on the copy.*branch_tasks/)
  assert.deepEqual(await state(dataDir), before)
  assert.deepEqual(storedIn(dataDir), [])
  await control.query('drop table branch_tasks')
  await control.end()

  const done = await upgrade(platform)
  assert.equal(done.status, 200, JSON.stringify(done.body))
  assert.deepEqual([...done.body.manifest.done].sort(), [...planned].sort())
  await assertServes({ facts, platform })
  const entries = (await manage(platform, 'GET', '/admin/audit?action=platform.upgrade_executed')).body
    .entries
  assert.equal(entries[0].target, done.body.manifest.id)
  assert.deepEqual((await upgrade(platform)).body.manifest.snapshots, {}, 'a no-op')
})

test('manual upgrade: after kill -9 during backups nothing is changed, and a second run completes', async () => {
  const { facts, dataDir, platform } = await waiting('killed-backup')
  const before = await state(dataDir)
  const project = await connectAsSuperuser(dataDir, await refOf(dataDir, facts.projects.shop.id))
  await project.query('begin; lock table auth.users in access exclusive mode')
  const cut = upgrade(platform).catch(() => undefined)
  await eventually(async () => {
    const progress = await progressOf(platform)
    return progress?.step === 'backup' && progress.project_id === facts.projects.shop.id
  }, 'a project is being backed up')
  await crash(platform)
  await cut
  await project.query('rollback')
  await project.end()
  const again = await start({ dataDir, env })
  assert.deepEqual(await state(dataDir), before, 'the gate has dropped the copy of the control database')
  assert.equal((await upgrade(again)).status, 200)
  await assertServes({ facts, platform: again })
})

test('manual upgrade: after kill -9 during migrations a second run completes', async () => {
  const { facts, dataDir, platform } = await waiting('killed-migration')
  const { id } = facts.projects.club
  const project = await connectAsSuperuser(dataDir, await refOf(dataDir, id))
  await project.query(`select pg_advisory_lock(hashtext('plinth: upgrade'))`)
  const cut = upgrade(platform).catch(() => undefined)
  await eventually(async () => {
    const progress = await progressOf(platform)
    return progress?.step === 'migration' && progress.project_id === id
  }, 'a project is being migrated')
  await crash(platform)
  await cut
  await project.end()
  const again = await start({ dataDir, env })
  assert.equal((await manage(again, 'GET', '/projects')).body.error.code, 'upgrade_pending')
  const first = (await manage(again, 'GET', '/admin/platform/upgrade')).body.manifest
  assert.ok(first.pending.includes(id) && first.snapshots[id] && first.control_backup_id)
  const { status, body } = await upgrade(again)
  assert.equal(status, 200, JSON.stringify(body))
  assert.ok(body.manifest.done.includes(id))
  for (const kept of ['id', 'prior_version', 'control_backup_id', 'snapshots'])
    assert.deepEqual(body.manifest[kept], first[kept], 'the way back stays that of the first run')
  await assertServes({ facts, platform: again })
})

test('manual upgrade: a task that the older release has left does not hold it up, and stays to be done', async () => {
  const dataDir = await dataDirWithProject('left-task')
  const { id } = await existingProject()
  const before = await start({ dataDir, env })
  const control = await connectAsSuperuser(dataDir)
  await control.query(`update projects set schema_version = 'old'`)
  const backup = crypto.randomUUID()
  // A node that was killed: the lease has not ended, so no worker begins the task before the stop.
  await control.query(
    `with made as (insert into backups (id, project_id, kind, schema_version) values ($1, $2, 'scheduled', 'old'))
     insert into backup_tasks (id, project_id, kind, backup_id, attempts, leased_until)
     values (gen_random_uuid(), $2, 'backup', $1, 1, now() + interval '1 hour')`,
    [backup, id],
  )
  await control.end()
  await stop(before)
  const platform = await start({ dataDir, env })
  let answer: Reply | undefined
  upgrade(platform).then(
    reply => {
      answer = reply
    },
    () => {},
  )
  await eventually(() => answer !== undefined, 'the upgrade has ended')
  const { status, body } = answer!
  assert.equal(status, 200, JSON.stringify(body))
  assert.notEqual(body.manifest.snapshots[id], backup)
  const after = await connectAsSuperuser(dataDir)
  const { rows } = await after.query('select backup_id from backup_tasks where project_id = $1', [id])
  assert.deepEqual(rows, [{ backup_id: backup }])
  await after.end()
})

test('manual upgrade: if the platform cannot begin to serve, the answer has the manifest and the audit entry is written', async () => {
  const { facts, dataDir, platform } = await waiting('unserved')
  const control = await connectAsSuperuser(dataDir)
  await control.query(`update secret_proof set proof = proof || '\\x00'`)
  const { status, body } = await upgrade(platform)
  assert.deepEqual([status, body.error?.code], [500, 'upgrade_incomplete'], JSON.stringify(body))
  assert.match(body.error.message, /could not begin to serve: CONTROL_PLANE_SECRET/)
  assert.equal(body.manifest.status, 'done')
  const { rows } = await control.query(`select target from audit where action = 'platform.upgrade_executed'`)
  assert.deepEqual(rows, [{ target: body.manifest.id }])
  await control.query('update secret_proof set proof = substr(proof, 1, length(proof) - 1)')
  await control.end()
  await eventually(
    async () => (await manage(platform, 'GET', '/projects').catch(() => undefined))?.status === 200,
    'it serves',
  )
  await assertServes({ facts, platform })
})

test('manual upgrade: one in which a project fails has ended, its plan has the reason, and a retry completes it', async () => {
  const dataDir = await dataDirWithProject('failed-project')
  const failing = await existingProject()
  const before = await start({ dataDir })
  assert.doesNotMatch(before.stderr, /^Next: /m, 'there is a project')
  const other = await createProject(before, 'other')
  const control = await connectAsSuperuser(dataDir)
  await control.query(`update projects set schema_version = 'old'`)
  await control.end()
  for (const { id } of [failing, other]) {
    const project = await connectAsSuperuser(dataDir, await refOf(dataDir, id))
    await project.query(
      `drop function auth.email(); update platform.migrations set hash = 'old' where name = 'auth_claims'`,
    )
    if (id === failing.id)
      await project.query('create function auth.email() returns int language sql as $$ select 1 $$')
    await project.end()
  }
  await stop(before)

  const platform = await start({ dataDir, env })
  assert.match(platform.stderr, /^Next: npx plinth upgrade$/m)
  const { status, body } = await upgrade(platform)
  assert.deepEqual([status, body.error?.code], [500, 'upgrade_incomplete'], JSON.stringify(body))
  const reason = /cannot change return type/
  const { manifest } = body
  assert.deepEqual([manifest.status, manifest.done, manifest.pending], ['failed', [other.id], []])
  assert.match(manifest.failed[0].error, reason)
  const { backups } = (await manage(platform, 'GET', `/projects/${failing.id}/backups`)).body
  assert.equal(backups[0].id, manifest.snapshots[failing.id])
  assert.ok(manifest.started_at < backups[0].created_at, 'it began before the backups')
  const [entry] = (await manage(platform, 'GET', '/admin/audit?action=platform.upgrade_executed')).body
    .entries
  assert.equal(entry.details, '1 of 2 projects are up to date, 1 failed')

  const assertFailed = async (serving: RunningPlatform) => {
    await eventually(
      async () =>
        /could not be upgraded; npx plinth upgrade has the reasons/.test(
          (await manage(serving, 'GET', '/health/services')).body.warnings.join(),
        ),
      'the platform has tried it again',
    )
    const { manifest: found } = (await manage(serving, 'GET', '/admin/platform/upgrade')).body
    assert.deepEqual(found, manifest)
  }
  await assertFailed(platform)
  const { plan } = (await upgrade(platform, '')).body
  assert.equal(plan.control_snapshot, null)
  const planned = plan.projects.find((each: { project_id: string }) => each.project_id === failing.id)
  assert.deepEqual([plan.projects.length, planned.snapshot, planned.migrations], [2, null, ['auth_claims']])
  assert.match(planned.error, reason)
  const branch = await manage(platform, 'POST', `/projects/${failing.id}/branches`, { name: 'copied' })
  assert.deepEqual([branch.status, branch.body.error?.code], [503, 'project_upgrade_failed'])
  assert.match(branch.body.error.message, reason)
  await crash(platform)

  const again = await start({ dataDir, env })
  assert.doesNotMatch(again.stderr, /^Next: /m)
  await assertFailed(again)
  const project = await connectAsSuperuser(dataDir, await refOf(dataDir, failing.id))
  await project.query('drop function auth.email()')
  await project.end()
  let complete: any
  await eventually(async () => {
    complete = (await manage(again, 'GET', '/admin/platform/upgrade')).body.manifest
    return complete.status === 'done'
  }, 'a retry has succeeded')
  assert.deepEqual([...complete.done].sort(), [failing.id, other.id].sort())
  assert.deepEqual([complete.id, complete.failed], [manifest.id, []])
  assert.ok(complete.finished_at > manifest.finished_at)
})
