// POST /admin/platform/upgrade on a platform that serves: the plan, the execution, and several nodes.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import type { UpgradeAnswer } from '@plinth/contract/upgrade.ts'
import { controlBackups } from '#src/archive/control-backup.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { openBackupPieces } from '#src/kernel/objects/open-pieces.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { version } from '#src/kernel/version.ts'
import * as store from '#src/services/backups/store.ts'
import { listNeededBackups } from '#src/services/upgrade/store.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform, untilUpgraded } from './harness.ts'
import { backupHeld, holdTable, type OutdatedProject, outdatedProjects } from './outdated-project.ts'
import { settings, upgradesOf } from './upgrade-runs.ts'

let here: TestPlatform
before(async () => {
  here = await startPlatform({ settings })
})
after(() => here?.stop())

const { run, read, schemaVersion, isCurrent, rows, storedFiles, removeProjects } = upgradesOf(() => here)
afterEach(removeProjects)

/** The rows of all tables that an upgrade writes to. */
async function state(projects: readonly OutdatedProject[]) {
  const tables = [
    'projects',
    'migrations',
    'backups',
    'backup_tasks',
    'upgrades',
    'upgrade_projects',
    'audit',
  ]
  const found: unknown[] = [storedFiles()]
  for (const table of tables)
    found.push(await here.app.control.rows(raw(`select t::text as row from ${table} t order by 1`)))
  for (const { ref } of projects)
    found.push(
      await here.asSuperuser(ref, session =>
        session.rows(raw('select * from platform.migrations order by 1')),
      ),
    )
  const databases = sql`select datname from pg_database where datname like ${`${here.control}%`} order by 1`
  found.push(await here.app.control.rows(databases))
  return found
}

test('upgrade: a dry run is the default, returns the plan and changes nothing', async () => {
  const projects = await outdatedProjects(here, 2)
  const unchanged = await state(projects)
  for (const query of ['', '?execute=false', `?target=${version}`]) {
    const { status, body } = await run(query)
    assert.equal(status, 200, JSON.stringify(body))
    const { executed, plan, manifest } = body as UpgradeAnswer
    assert.equal(executed, false)
    assert.equal(manifest, null)
    assert.equal(plan.target_version, version)
    assert.equal(plan.current_version, version)
    assert.deepEqual([plan.images.plinth, plan.images.node], [version, process.versions.node])
    assert.match(plan.images.postgres, /^\d+\.\d+/)
    assert.deepEqual(plan.platform_migrations, [])
    assert.ok(plan.control_snapshot!.database_bytes > 0)
    assert.deepEqual(
      plan.projects.map(({ project_id, migrations, error }) => ({ project_id, migrations, error })),
      projects.map(({ id }) => ({ project_id: id, migrations: ['auth_claims'], error: null })),
    )
    for (const { snapshot } of plan.projects) {
      assert.equal(snapshot!.kind, 'upgrade')
      assert.ok(snapshot!.database_bytes > 1_000_000)
    }
  }
  assert.deepEqual(await state(projects), unchanged)
})

test('upgrade: execution backs everything up, upgrades all projects and returns the manifest', async () => {
  const projects = await outdatedProjects(here, 2)
  const current = await here.createProject()
  const suspended = await here.createProject()
  await here.projects.suspend({ params: { id: suspended.id } })
  const { status, body } = await run('?execute=true')
  assert.equal(status, 200, JSON.stringify(body))
  const { manifest, plan } = body as UpgradeAnswer
  const ids = [...projects, current, suspended].map(({ id }) => id).sort()
  assert.deepEqual(
    plan.projects.map(({ project_id, migrations }) => [project_id, migrations.length]),
    [...projects.map(({ id }) => [id, 1]), [current.id, 0], [suspended.id, 0]],
  )
  assert.deepEqual([...manifest!.done].sort(), ids)
  assert.deepEqual(Object.keys(manifest!.snapshots).sort(), ids)
  assert.deepEqual([manifest!.failed, manifest!.pending], [[], []])
  assert.deepEqual([manifest!.status, manifest!.prior_version], ['done', version])
  assert.equal(manifest!.prior_images!.plinth, version)
  for (const project of projects) {
    assert.ok(await isCurrent(project))
    assert.equal((await rows(project)).status, 200)
    const backups = await here.app.control.rows(
      sql`select id, kind, status, schema_version, bytes::float8 as bytes from backups where project_id = ${project.id}`,
    )
    const [id, bytes] = [manifest!.snapshots[project.id], manifest!.snapshot_bytes[project.id]!]
    assert.ok(bytes > 0)
    assert.deepEqual(backups, [{ id, kind: 'upgrade', status: 'done', schema_version: 'old', bytes }])
  }
  assert.ok(storedFiles().some(name => String(name).includes(`${manifest!.control_backup_id}.c`)))
  assert.ok(storedFiles().some(name => String(name).includes(`${manifest!.id}.e`)))
  assert.deepEqual((await read()).manifest, manifest)
  const points = await here.app.control.rows(sql`select kind, project_id from restore_points`)
  assert.deepEqual(points, [{ kind: 'upgrade', project_id: null }])
  const { entries } = await here.admin.listAudit({ query: { action: 'platform.upgrade_executed' } })
  assert.deepEqual(
    entries.map(({ target, actor, details }) => [target, actor.kind, details]),
    [[manifest!.id, 'admin_token', '4 of 4 projects are up to date']],
  )

  const made = async () => [
    storedFiles(),
    await here.app.control.rows(sql`select id from backups union all select id from upgrades order by 1`),
  ]
  const unchanged = await made()
  const again = await run('?execute=true')
  assert.equal(again.status, 200)
  assert.deepEqual(again.body.plan.projects, [])
  assert.equal(again.body.plan.control_snapshot, null)
  assert.deepEqual([again.body.manifest.snapshots, again.body.manifest.control_backup_id], [{}, null])
  assert.deepEqual([...again.body.manifest.done].sort(), ids)
  assert.deepEqual(await made(), unchanged, 'a no-op')
  const after = await here.admin.listAudit({ query: { action: 'platform.upgrade_executed' } })
  assert.deepEqual(
    after.entries.map(({ target, details }) => [target, details]),
    [
      [null, 'nothing was pending'],
      [manifest!.id, '4 of 4 projects are up to date'],
    ],
    'an execution without an upgrade is audited, too',
  )
})

test('upgrade: what other nodes have upgraded or deleted since the plan was read is not backed up again', async () => {
  const [held, upgraded, deleted] = await outdatedProjects(here, 3)
  const release = await holdTable(here, held!, 'auth.users')
  try {
    const running = run('?execute=true')
    await backupHeld(here, held!)
    const snapshot = orderedUuid()
    await here.app.control.transaction(async session => {
      await store.insertBackup(session, snapshot, upgraded!.id, 'upgrade')
      await session.run(sql`update backups set status = 'done', finished_at = now() where id = ${snapshot}`)
      await session.run(
        sql`update projects set schema_version = ${here.app.cluster.projectVersion} where id = ${upgraded!.id}`,
      )
    })
    await here.projects.remove({ params: { id: deleted!.id } })
    await release()
    const { status, body } = await running
    assert.equal(status, 200, JSON.stringify(body))
    assert.equal(body.manifest.snapshots[upgraded!.id], snapshot)
    assert.deepEqual(Object.keys(body.manifest.snapshots).sort(), [held!.id, upgraded!.id].sort())
    assert.ok(body.manifest.done.includes(held!.id))
  } finally {
    await release()
  }
})

test('upgrade: no node upgrades projects in the background while one is executed', async () => {
  const [held, other] = await outdatedProjects(here, 2)
  const release = await holdTable(here, held!, 'auth.users')
  let node: TestPlatform | undefined
  try {
    const running = run('?execute=true')
    await backupHeld(here, held!)
    node = await startPlatform({ beside: here })
    await here.asSuperuser(here.control, session =>
      eventually(
        async () =>
          (
            await session.rows(
              sql`select from pg_locks where locktype = 'advisory' and mode = 'ShareLock' and not granted`,
            )
          ).length > 0,
        'the other node waits',
      ),
    )
    assert.deepEqual([await schemaVersion(held!), await schemaVersion(other!)], ['old', 'old'])
    await release()
    const { status, body } = await running
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual(Object.keys(body.manifest.snapshots).sort(), [held!.id, other!.id].sort())
    const backups = sql`select schema_version, count(*)::int from backups
      where project_id in (${held!.id}, ${other!.id}) group by 1`
    await untilUpgraded(node)
    assert.deepEqual(await here.app.control.rows(backups), [{ schema_version: 'old', count: 2 }])
  } finally {
    await release()
    await node?.stop()
  }
})

test('upgrade: the backup of the control database that the last upgrade names is kept', async () => {
  await outdatedProjects(here, 1)
  const { body } = await run('?execute=true')
  const needed = await listNeededBackups(here.app.control)
  assert.deepEqual(needed, [body.manifest.control_backup_id])
  const pieces = await openBackupPieces(here.config)
  try {
    const backups = controlBackups(pieces, keyring(here.controlPlaneSecret), createLog('silent'))
    const source = { address: here.address, database: here.control, dataDir: here.config.dataDir }
    const watching = { signal: new AbortController().signal, progress() {} }
    for (let count = 0; count < 6; count++) await backups.make(source, needed, watching)
    const kept = (await backups.list()).backups.map(({ id }) => id)
    assert.deepEqual([kept.length, kept.at(-1)], [6, needed[0]])
  } finally {
    await pieces.close()
  }
})

test('upgrade: a release neither starts nor upgrades on databases of a newer one', async () => {
  const { control } = here.app
  const start = () => startPlatform({ beside: here }).then(node => node.stop())
  await control.run(sql`update installed_release set version = '99.1.0'`)
  try {
    for (const query of ['', '?execute=true']) {
      const { status, body } = await run(query)
      assert.deepEqual([status, body.error.code], [400, 'invalid_target'])
    }
    await assert.rejects(start(), /newer release 99\.1\.0: install that one, or go back .*docs\/upgrades\.md/)
  } finally {
    await control.run(sql`update installed_release set version = ${version}`)
  }
  await control.run(sql`insert into migrations (name, hash) values ('9999_later', 'x')`)
  try {
    assert.match((await run()).body.error.message, /9999_later/)
    await assert.rejects(start(), /migrations of a newer release \(9999_later\)/)
  } finally {
    await control.run(sql`delete from migrations where name = '9999_later'`)
  }
  await start()
})

test('upgrade: only the installed version can be the target', async () => {
  const cases: [target: string, status: number, code: string][] = [
    ['0.0.1', 400, 'invalid_target'],
    ['latest', 400, 'invalid_target'],
    ['999.0.0', 409, 'upgrade_not_installed'],
  ]
  for (const [target, status, code] of cases)
    for (const execute of ['', '&execute=true']) {
      const reply = await run(`?target=${target}${execute}`)
      assert.deepEqual([reply.status, reply.body.error.code], [status, code], target)
    }
  assert.equal((await run('?execute=perhaps')).status, 400)
})

test('upgrade: it needs admin scope on the platform', async () => {
  for (const scope of ['read', 'deploy'] as const) {
    const { token } = await here.platform.mintToken({ body: { name: scope, scope } })
    for (const method of ['GET', 'POST']) {
      const reply = await here.call(method, '/api/v1/admin/platform/upgrade', { token })
      assert.equal(reply.status, 403)
    }
  }
})

test('upgrade: one runs at a time over all nodes, and goes on if its client disconnects', async () => {
  const other = await startPlatform({ beside: here })
  const [project] = await outdatedProjects(here, 1)
  const release = await holdTable(here, project!, 'auth.users')
  try {
    const leaving = new AbortController()
    const left = fetch(`${here.url}/api/v1/admin/platform/upgrade?execute=true`, {
      method: 'POST',
      headers: { authorization: `Bearer ${here.adminToken}` },
      signal: leaving.signal,
    }).then(
      () => false,
      () => true,
    )
    await eventually(async () => (await read()).progress?.step === 'backup', 'a backup is being made')
    assert.equal((await read()).progress.project_id, project!.id)
    for (const node of [here, other]) {
      const second = await node.call('POST', '/api/v1/admin/platform/upgrade?execute=true', {
        token: here.adminToken,
      })
      assert.deepEqual([second.status, second.body.error.code], [409, 'upgrade_running'])
    }
    leaving.abort()
    assert.ok(await left)
    await release()
    await eventually(() => isCurrent(project!), 'the project is upgraded')
    await eventually(async () => (await read()).manifest.status === 'done', 'the upgrade has ended')
  } finally {
    await release()
    await other.stop()
  }
})
