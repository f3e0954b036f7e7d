// kill -9 of the platform and of Postgres while a new release upgrades an old data directory at its start.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { connectAsSuperuser, postmasterPid } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { assertAnswersAsBefore } from './fixtures/answers.ts'
import { baseUrl, unpackOldDataDirectory } from './fixtures/old-data-directory.ts'
import { heldIn, holdLogins, letIn } from './held-logins.ts'
import {
  crash,
  exitOf,
  limitFiles,
  manage,
  type PlatformProcess,
  platformProcesses,
  stop,
} from './platform-process.ts'

const { start, launch, newDataDir } = platformProcesses()
const env = { PLATFORM_BASE_URL: baseUrl }
const dataDir = newDataDir('crash')

async function query(text: string, database?: string): Promise<any[]> {
  const client = await connectAsSuperuser(dataDir, database)
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

/** A role is visible in every database, and in a running transaction. */
const makeHold = (name: string, table: string, database?: string) =>
  query(
    `create role ${name};
     create function ${table}_${name}() returns trigger language plpgsql as
       $$ begin while exists (select from pg_roles where rolname = '${name}') loop perform pg_sleep(0.02); end loop; return new; end $$;
     create trigger ${name} before insert or update on ${table} for each row execute function ${table}_${name}()`,
    database,
  )

/** Runs a statement as superuser in a transaction that stays open. */
async function lock(statement: string, database = 'plinth') {
  const client = await connectAsSuperuser(dataDir, database)
  const { rows } = await client.query('select pg_backend_pid() as pid')
  await client.query(`begin; ${statement}`)
  const waiting = `select from pg_stat_activity where ${rows[0].pid} = any(pg_blocking_pids(pid))`
  return {
    untilAwaited: () => eventually(async () => (await query(waiting)).length > 0, 'a session waits'),
    release: () => client.end().catch(() => {}),
  }
}

/** Waits until a statement in the database waits for the hold. */
const untilHeld = (run: PlatformProcess, database: string) =>
  eventually(async () => {
    assert.ok(!run.hasEnded, run.stderr + run.stdout)
    // Before, the Postgres of a killed platform may still run.
    if (!run.stdout.includes('the database is running')) return false
    return (await query(heldIn(database)).catch(() => [])).length > 0
  }, 'a statement waits')

const killPostgres = () => process.kill(postmasterPid(dataDir), 'SIGKILL')

const platformMigrations = () => query('select name, hash from migrations order by name')

test('upgrade at the start: after kill -9 of the platform or of Postgres the next start completes it, and nothing is left', async () => {
  const facts = unpackOldDataDirectory(dataDir)
  const waiting = await start({ dataDir, env: { ...env, PLATFORM_UPGRADE: 'manual' } })
  const { id } = facts.projects.shop
  const [{ ref }] = await query(`select ref from projects where id = '${id}'`)
  await makeHold('hold_control', 'migrations')
  await makeHold('hold_project', 'platform.migrations', ref)
  const before = await platformMigrations()
  await lock(letIn)
  await query(holdLogins)
  await stop(waiting)

  // The control database is being backed up: there is no space, or Postgres is killed.
  const notUpgraded = 'The control database could not be backed up, so this release has not upgraded it: '
  const full = launch({ dataDir, env })
  await untilHeld(full, 'plinth')
  if (process.platform === 'linux') {
    limitFiles(full.child.pid!, 0)
    await lock(letIn)
    assert.equal(await exitOf(full), '1', full.stdout)
    assert.ok(full.stderr.includes(`${notUpgraded}there is no space left for files`), full.stderr)
  } else await crash(full)
  const cut = launch({ dataDir, env })
  await untilHeld(cut, 'plinth')
  assert.deepEqual(await platformMigrations(), before)
  await query('drop event trigger hold_logins; drop function hold_logins')
  const audit = await lock(`lock table audit in access exclusive mode; ${letIn}`)
  await audit.untilAwaited()
  killPostgres()
  assert.equal(await exitOf(cut), '1', cut.stdout)
  assert.ok(cut.stderr.includes(notUpgraded), cut.stderr)

  // The control database is backed up and being migrated.
  const first = launch({ dataDir, env })
  await untilHeld(first, 'plinth')
  await crash(first)
  const second = launch({ dataDir, env })
  await untilHeld(second, 'plinth')
  assert.deepEqual(await platformMigrations(), before)
  killPostgres()
  assert.equal(await exitOf(second), '1', second.stdout)

  // A project is being backed up.
  const third = launch({ dataDir, env })
  await untilHeld(third, 'plinth')
  const reading = await lock('lock table auth.users in access exclusive mode', ref)
  await query('drop role hold_control')
  await reading.untilAwaited()
  // The next attempt waits in the control database until the table is locked again.
  await makeHold('hold_backup', 'backups')
  killPostgres()
  await untilHeld(third, 'plinth')
  const readingAgain = await lock('lock table auth.users in access exclusive mode', ref)
  await query('drop role hold_backup')
  await readingAgain.untilAwaited()
  await crash(third)
  await readingAgain.release()

  // A project is being migrated.
  const fourth = await start({ dataDir, env })
  await untilHeld(fourth, ref)
  const begun = await query(
    `select u.id, control_backup_id, backup_id from upgrades u, upgrade_projects where upgrade_id = u.id and project_id = '${id}'`,
  )
  assert.ok(begun.length === 1 && begun[0].control_backup_id !== null && begun[0].backup_id !== null)
  killPostgres()
  await untilHeld(fourth, ref)
  await crash(fourth)

  // A project is migrated, and that is being recorded.
  const platform = await start({ dataDir, env })
  await untilHeld(platform, ref)
  const recording = await lock(`select from projects where id = '${id}' for no key update`)
  await query('drop role hold_project')
  await recording.untilAwaited()
  killPostgres()
  let manifest: any
  await eventually(async () => {
    ;({ manifest } = (await manage(platform, 'GET', '/admin/platform/upgrade')).body)
    return manifest?.status === 'done'
  }, 'every project is upgraded')
  assert.equal(manifest.id, begun[0].id)
  assert.equal(manifest.control_backup_id, begun[0].control_backup_id)
  assert.equal(manifest.snapshots[id], begun[0].backup_id, 'the backup of before the first migration')
  const made = await query(`select id, project_id from backups where kind = 'upgrade' and status = 'done'`)
  const of = (project: string) => made.filter(({ project_id }) => project_id === project).map(({ id }) => id)
  assert.deepEqual(of(id), [manifest.snapshots[id]], 'the project is backed up once')
  assert.deepEqual(Object.keys(manifest.snapshots).sort(), [...manifest.done].sort())
  // Another project has a second one if its backup ended when Postgres was killed.
  for (const project of manifest.done) assert.ok(of(project).includes(manifest.snapshots[project]))
  const versions = `select distinct schema_version from projects where status in ('active', 'suspended')`
  assert.equal((await query(versions)).length, 1)
  const stored = fs.readdirSync(join(dataDir, 'backups'), { recursive: true })
  assert.ok(stored.some(name => String(name).endsWith(`${manifest.control_backup_id}.c`)))
  await assertAnswersAsBefore({ facts, platform })
  await assertNothingLeft()
})

async function assertNothingLeft(): Promise<void> {
  const live = await query(`select ref as datname from projects where status <> 'deleted'`)
  const names = [...live, { datname: 'plinth' }, { datname: 'postgres' }].map(({ datname }) => datname).sort()
  // The new backups may be verified meanwhile.
  await eventually(async () => {
    const databases = await query('select datname from pg_database where not datistemplate')
    const tasks = await query('select from backup_tasks')
    return tasks.length === 0 && isDeepStrictEqual(databases.map(({ datname }) => datname).sort(), names)
  }, 'no other database is left')
  const backups = await query('select id, project_id, status from backups')
  assert.ok(backups.every(({ status }) => status !== 'running'))
  const done = backups.filter(({ status }) => status === 'done')
  assert.ok(live.length > 0 && done.length >= live.length)
  await eventually(
    () =>
      [...new Set(backups.map(({ project_id }) => project_id))]
        .flatMap(project => storedFiles(project))
        .filter(name => /^[0-9a-f-]{36}-/.test(name))
        .every(name => done.some(({ id }) => name.startsWith(id))),
    'no file of an interrupted backup is left',
  )
}

const storedFiles = (project: string) =>
  fs
    .readdirSync(join(dataDir, 'backups', project), { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(({ name }) => name)
