// Executions of POST /admin/platform/upgrade that fail or were killed: what stays, and what the next one continues.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import * as store from '#src/services/backups/store.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { failMigration, failRecord, outdatedProjects } from './outdated-project.ts'
import { settings, upgradesOf, wayBack } from './upgrade-runs.ts'

let here: TestPlatform
before(async () => {
  here = await startPlatform({ settings })
})
after(() => here?.stop())

const { run, read, schemaVersion, isCurrent, rows, storedFiles, removeProjects } = upgradesOf(() => here)
afterEach(removeProjects)

test('upgrade: the backup of a killed upgrade ends as failed, and its files are removed', async () => {
  const [project] = await outdatedProjects(here, 1)
  const interrupted = orderedUuid()
  await here.app.control.transaction(async session => {
    await store.insertBackup(session, interrupted, project!.id, 'upgrade')
    const task = { id: orderedUuid(), projectId: project!.id, kind: 'backup', backupId: interrupted } as const
    await store.insertTask(session, task)
    await store.leaseTask(session, task.id, 3600)
  })
  const folder = join(here.config.dataDir, 'backups', project!.id, interrupted.slice(0, 2))
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${interrupted}-1-0`), 'rows')
  assert.ok(storedFiles().some(name => String(name).includes(interrupted)))
  const { status, body } = await run('?execute=true')
  assert.equal(status, 200, JSON.stringify(body))
  const backups = sql`
    select id, status, error from backups where project_id = ${project!.id} order by created_at`
  assert.deepEqual(await here.app.control.rows(backups), [
    { id: interrupted, status: 'failed', error: 'the platform stopped meanwhile' },
    { id: body.manifest.snapshots[project!.id], status: 'done', error: null },
  ])
  assert.ok(!storedFiles().some(name => String(name).includes(interrupted)))
})

test('upgrade: if one backup fails, nothing is changed anywhere', async () => {
  const [good, bad] = await outdatedProjects(here, 2)
  await here.asSuperuser(bad!.ref, session =>
    session.script('select lo_create(0) from generate_series(1, 10001)'),
  )
  const { status, body } = await run('?execute=true')
  assert.equal(status, 500, JSON.stringify(body))
  assert.equal(body.error.code, 'upgrade_snapshot_failed')
  assert.match(body.error.message, new RegExp(`${bad!.id}.*nothing was changed.*10000 large objects`))
  for (const project of [good!, bad!]) {
    assert.equal(await schemaVersion(project), 'old')
    const applied = await here.asSuperuser(project.ref, session =>
      session.row(sql`select hash from platform.migrations where name = 'auth_claims'`),
    )
    assert.deepEqual(applied, { hash: 'old' })
  }
  assert.equal((await read()).progress, null)

  await here.asSuperuser(bad!.ref, session =>
    session.script('select lo_unlink(oid) from pg_largeobject_metadata'),
  )
  assert.equal((await run('?execute=true')).status, 200, 'a second run completes')
  for (const project of [good!, bad!]) assert.ok(await isCurrent(project))
})

test('upgrade: a project whose migration fails keeps its state, and the others are upgraded', async () => {
  const [first, failing, last] = await outdatedProjects(here, 3)
  await failMigration(here, failing!)
  const { status, body } = await run('?execute=true')
  assert.equal(status, 500, JSON.stringify(body))
  assert.equal(body.error.code, 'upgrade_incomplete')
  const { manifest } = body
  assert.deepEqual([...manifest.done].sort(), [first!.id, last!.id].sort())
  assert.equal(manifest.failed.length, 1)
  assert.equal(manifest.failed[0].project_id, failing!.id)
  assert.match(manifest.failed[0].error, /cannot change return type of existing function/)
  assert.equal(Object.keys(manifest.snapshots).length, 3)
  assert.equal(manifest.status, 'failed')
  assert.equal(await schemaVersion(failing!), 'old')
  await eventually(async () => (await read()).progress === null, 'the upgrade has ended')
  const refused = await rows(failing!)
  assert.deepEqual([refused.status, refused.body.code], [503, 'project_upgrade_failed'])
  for (const project of [first!, last!]) assert.equal((await rows(project)).status, 200)
  await here.asSuperuser(failing!.ref, session => session.script('drop function auth.email()'))
  const files = storedFiles()
  const again = await run('?execute=true')
  assert.equal(again.status, 200, JSON.stringify(again.body))
  assert.equal((await rows(failing!)).status, 200)
  // The platform may have retried it before.
  await eventually(async () => (await read()).manifest.status === 'done', 'the upgrade is complete')
  const complete = (await read()).manifest
  assert.deepEqual([...complete.done].sort(), [first!.id, failing!.id, last!.id].sort())
  assert.deepEqual(wayBack(complete), wayBack(manifest))
  assert.deepEqual(storedFiles(), files, 'no other backup is made')
})

test('upgrade: a project whose second migration fails has the state of before the first one', async () => {
  const [project] = await outdatedProjects(here, 1)
  const inProject = (text: string) =>
    here.asSuperuser(project!.ref, session => session.rows<{ name: string }>(raw(text)))
  const state = () => inProject('select m::text as name from platform.migrations m order by 1')
  await inProject(`update platform.migrations set hash = 'old' where name = 'auth_guard'`)
  await inProject(`
    create function platform.fail() returns trigger language plpgsql as $$ begin raise 'no guard'; end $$`)
  await inProject(`
    create trigger fail before update on platform.migrations for each row
      when (new.name = 'auth_guard') execute function platform.fail()`)
  const unchanged = await state()
  const { status, body } = await run('?execute=true')
  assert.deepEqual([status, body.error?.code], [500, 'upgrade_incomplete'], JSON.stringify(body))
  assert.match(body.manifest.failed[0].error, /no guard/)
  assert.deepEqual(await state(), unchanged)
  const [made] = await inProject(`select proname as name from pg_proc where oid = to_regproc('auth.email')`)
  assert.equal(made, undefined)
  await inProject('drop function platform.fail() cascade')
  assert.equal((await run('?execute=true')).status, 200)
  assert.ok(await isCurrent(project!))
})

test('upgrade: an execution that ends early answers what it has done, and the next one continues it', async () => {
  const [first, last] = await outdatedProjects(here, 2)
  await failRecord(here, last!)
  const { status, body } = await run('?execute=true')
  assert.deepEqual([status, body.error?.code], [500, 'upgrade_incomplete'], JSON.stringify(body))
  assert.match(body.error.message, /ended early: .*no record/)
  assert.deepEqual([body.manifest.status, body.manifest.done], ['failed', [first!.id]])
  assert.deepEqual(body.manifest.pending, [last!.id])
  assert.deepEqual((await read()).manifest, body.manifest)
  await here.app.control.script('drop function fail_record() cascade')
  await here.app.control.run(sql`update projects set schema_version = 'old' where id = ${last!.id}`)
  const again = await run('?execute=true')
  assert.equal(again.status, 200, JSON.stringify(again.body))
  assert.deepEqual([...again.body.manifest.done].sort(), [first!.id, last!.id].sort())
  assert.deepEqual(wayBack(again.body.manifest), wayBack(body.manifest))
})

test('upgrade: row values of a project are neither recorded nor logged', async () => {
  const [project] = await outdatedProjects(here, 1)
  const value = `value of a row ${orderedUuid()}`
  await here.asSuperuser(project!.ref, session =>
    session.script(`
      create function platform.check_value() returns trigger language plpgsql as
        $$ begin perform '${value}'::int; return new; end $$;
      create trigger check_value before insert or update on platform.migrations
        for each row execute function platform.check_value()`),
  )
  const { status, body } = await run('?execute=true')
  assert.equal(status, 500, JSON.stringify(body))
  assert.match(body.manifest.failed[0].error, /22P02/)
  const file = storedFiles().find(name => String(name).endsWith(`${body.manifest.id}.e`))
  const record = readFileSync(join(here.config.dataDir, 'backups', String(file)), 'utf8')
  assert.deepEqual(JSON.parse(record).failed, [{ project_id: project!.id }])
  const recorded = await here.app.control.rows(raw('select error from upgrade_projects'))
  for (const text of [JSON.stringify([body, recorded]), record, here.logged.join()])
    assert.ok(!text.includes(value))
})
