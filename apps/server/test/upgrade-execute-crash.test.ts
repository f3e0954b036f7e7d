// POST /admin/platform/upgrade?execute=true on a platform that serves, which is killed meanwhile, or its Postgres is, or its
// disk is full.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type pg from 'pg'
import { connectAsSuperuser, postmasterPid } from './data-dir.ts'
import { eventually } from './eventually.ts'
import {
  crash,
  createProject,
  limitFiles,
  manage,
  platformProcesses,
  type RunningPlatform,
  stop,
  whoami,
} from './platform-process.ts'

const { start, dataDirWithProject, existingProject } = platformProcesses()
// A start with `auto` would upgrade the projects by itself.
const env = { PLATFORM_UPGRADE: 'manual' }

interface Member extends CreatedProject {
  ref: string
}

async function query(dataDir: string, text: string, database?: string): Promise<any[]> {
  const client = await connectAsSuperuser(dataDir, database)
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

async function outdate(dataDir: string, projects: readonly Member[]): Promise<void> {
  for (const { id, ref } of projects) {
    const older = `drop function auth.email(); update platform.migrations set hash = 'old' where name = 'auth_claims'`
    await query(dataDir, older, ref)
    await query(dataDir, `update projects set schema_version = 'old' where id = '${id}'`)
  }
}

/** Of each project, whether its database and its record are those of this release. */
const upgraded = (dataDir: string, projects: readonly Member[]) =>
  Promise.all(
    projects.map(async ({ id, ref }) => {
      const [{ version }] = await query(
        dataDir,
        `select schema_version as version from projects where id = '${id}'`,
      )
      const [{ hash, email }] = await query(
        dataDir,
        `select hash, to_regprocedure('auth.email()') is not null as email from platform.migrations where name = 'auth_claims'`,
        ref,
      )
      assert.equal(hash !== 'old', email, 'a migration has happened as a whole')
      assert.equal(version !== 'old', email, 'the record is that of the database')
      return email
    }),
  )

interface Held {
  untilAwaited(): Promise<void>
  release(): Promise<void>
}

async function hold(dataDir: string, { ref }: Member, statement: string): Promise<Held> {
  const client: pg.Client = await connectAsSuperuser(dataDir, ref)
  const { rows } = await client.query('select pg_backend_pid() as pid')
  await client.query(statement)
  const waiting = `select from pg_stat_activity where ${rows[0].pid} = any(pg_blocking_pids(pid))`
  return {
    untilAwaited: async () => {
      await eventually(async () => (await query(dataDir, waiting)).length > 0, 'the upgrade waits')
    },
    release: () => client.end().catch(() => {}),
  }
}

const holdBackup = (dataDir: string, member: Member) =>
  hold(dataDir, member, 'begin; lock table auth.users in access exclusive mode')
const holdMigration = (dataDir: string, member: Member) =>
  hold(dataDir, member, `select pg_advisory_lock(hashtext('plinth: upgrade'))`)

const execute = (platform: RunningPlatform) =>
  manage(platform, 'POST', '/admin/platform/upgrade?execute=true')
const lastManifest = async (platform: RunningPlatform) =>
  (await manage(platform, 'GET', '/admin/platform/upgrade')).body.manifest
const countUpgrades = async (dataDir: string) => (await query(dataDir, 'select from upgrades')).length

async function assertDone(platform: RunningPlatform, projects: readonly Member[]): Promise<void> {
  const { dataDir } = platform
  const { status, body } = await execute(platform)
  assert.equal(status, 200, JSON.stringify(body))
  assert.deepEqual(
    await upgraded(dataDir, projects),
    projects.map(() => true),
  )
  for (const project of projects) assert.equal((await whoami(platform, project)).status, 200)
  await assertNothingLeft(dataDir, projects)
}

/** No other database, task, running backup, lock, or file of an attempt that was not completed. */
async function assertNothingLeft(dataDir: string, projects: readonly Member[]): Promise<void> {
  const names = [...projects.map(({ ref }) => ref), 'plinth', 'plinth_template', 'postgres'].sort()
  // The new backups may be verified meanwhile.
  await eventually(async () => {
    const databases = await query(dataDir, 'select datname from pg_database where datname !~ $$^template$$')
    const tasks = await query(dataDir, 'select from backup_tasks')
    return tasks.length === 0 && isDeepStrictEqual(databases.map(({ datname }) => datname).sort(), names)
  }, 'no other database is left')
  const backups = await query(
    dataDir,
    `select id, status, (manifest ->> 'attempt')::int as attempt from backups`,
  )
  assert.ok(backups.every(({ status }) => status !== 'running'))
  const needed = backups
    .filter(({ status }) => status === 'done')
    .map(({ id, attempt }) => `${id}-${attempt.toString(16)}-`)
  const stray = () =>
    projects
      .flatMap(({ id }) =>
        fs.readdirSync(join(dataDir, 'backups', id), { recursive: true, withFileTypes: true }),
      )
      .filter(each => each.isFile() && /^[0-9a-f-]{36}-/.test(each.name))
      .filter(({ name }) => !needed.some(prefix => name.startsWith(prefix)))
  await eventually(() => stray().length === 0, 'no file of an interrupted backup is left')
  const locks = `select from pg_locks where locktype = 'advisory' and database in (select oid from pg_database where datname like 'p\\_%')`
  assert.deepEqual(await query(dataDir, locks), [])
}

/** The backup of the last project, or that of the control database, does not fit. */
async function assertRefusedWithoutSpace(platform: RunningPlatform, projects: readonly Member[]) {
  const { dataDir } = platform
  const { id, ref } = projects.at(-1)!
  const rows = `select encode(sha512(n::text::bytea), 'hex') as text from generate_series(1, 20000) n`
  await query(dataDir, `set role ${ref}_owner; create table public.filler as ${rows}`, ref)
  const storedFiles = () =>
    fs
      .readdirSync(join(dataDir, 'backups'), { recursive: true, withFileTypes: true })
      .filter(each => each.isFile())
      .map(({ name }) => name)
  const refusals: [fileSize: number, message: string][] = [
    [
      512 * 1024,
      `The project ${id} could not be backed up, so nothing was changed: There is no space left where backups are stored.`,
    ],
    [
      0,
      'The control database could not be backed up, so nothing was changed: there is no space left for files',
    ],
  ]
  for (const [fileSize, message] of refusals) {
    const [files, upgrades] = [storedFiles(), await countUpgrades(dataDir)]
    limitFiles(platform.child.pid!, fileSize)
    const { status, body } = await execute(platform)
    limitFiles(platform.child.pid!, 'unlimited')
    assert.deepEqual([status, body.error], [500, { code: 'upgrade_snapshot_failed', message }])
    assert.equal(await countUpgrades(dataDir), upgrades)
    assert.deepEqual(
      await upgraded(dataDir, projects),
      projects.map(() => false),
    )
    for (const project of projects) assert.equal((await whoami(platform, project)).status, 200)
    // The backup of the first project is a usable one.
    const done = (await query(dataDir, `select id from backups where status = 'done'`)).map(each => each.id)
    const left = storedFiles().filter(name => !files.includes(name) && !done.includes(name.slice(0, 36)))
    assert.deepEqual(left, [])
  }
}

test('upgrade: an execution whose platform or Postgres is killed, or whose disk is full, leaves projects either upgraded or not, and the next one completes', async () => {
  const existing = await existingProject()
  const dataDir = await dataDirWithProject('execute-crash')
  let platform = await start({ dataDir, env })
  const projects: Member[] = []
  for (const project of [existing, await createProject(platform, 'second')]) {
    const [{ ref }] = await query(dataDir, `select ref from projects where id = '${project.id}'`)
    projects.push({ ...project, ref })
  }
  const last = projects[1]!
  async function restart(): Promise<void> {
    platform = await start({ dataDir, env })
    // A backup that was interrupted is made again after its lease.
    await query(dataDir, 'update backup_tasks set leased_until = now()')
  }
  const killPostgres = () => process.kill(postmasterPid(dataDir), 'SIGKILL')

  // The platform, while the second project is backed up.
  await outdate(dataDir, projects)
  let held = await holdBackup(dataDir, last)
  let cut = execute(platform).catch(() => undefined)
  await held.untilAwaited()
  await crash(platform)
  await cut
  assert.deepEqual(await upgraded(dataDir, projects), [false, false])
  assert.equal(await countUpgrades(dataDir), 0)
  await restart()
  await held.release()
  assert.deepEqual(await upgraded(dataDir, projects), [false, false])
  await assertDone(platform, projects)
  const first = await lastManifest(platform)
  assert.deepEqual([first.status, Object.keys(first.snapshots).length], ['done', 2])

  // Postgres, while the second project is backed up.
  await outdate(dataDir, projects)
  held = await holdBackup(dataDir, last)
  const failing = execute(platform)
  await held.untilAwaited()
  killPostgres()
  const failed = await failing
  await held.release()
  assert.deepEqual([failed.status, failed.body.error.code], [500, 'upgrade_snapshot_failed'])
  assert.match(
    failed.body.error.message,
    new RegExp(`${last.id} could not be backed up, so nothing was changed`),
  )
  const answers = () => lastManifest(platform).catch(() => undefined)
  const manifest = await eventually(answers, 'the platform answers again')
  assert.equal(manifest.id, first.id)
  assert.deepEqual(await upgraded(dataDir, projects), [false, false])

  // The platform, while the second project is migrated.
  held = await holdMigration(dataDir, last)
  cut = execute(platform).catch(() => undefined)
  await held.untilAwaited()
  await crash(platform)
  await cut
  assert.deepEqual(await upgraded(dataDir, projects), [true, false])
  await restart()
  await held.release()
  const begun = await lastManifest(platform)
  assert.deepEqual([begun.status, begun.done, begun.pending], ['running', [existing.id], [last.id]])
  await assertDone(platform, projects)
  const continued = await lastManifest(platform)
  assert.equal(continued.status, 'done')
  for (const kept of ['id', 'control_backup_id', 'snapshots'])
    assert.deepEqual(continued[kept], begun[kept], 'the way back stays that of the first execution')

  // Postgres, while the second project is migrated.
  await outdate(dataDir, projects)
  held = await holdMigration(dataDir, last)
  const incomplete = execute(platform)
  await held.untilAwaited()
  killPostgres()
  const { status, body } = await incomplete
  await held.release()
  assert.deepEqual([status, body.error.code], [500, 'upgrade_incomplete'])
  await eventually(answers, 'the platform answers again')
  await assertDone(platform, projects)
  assert.equal((await lastManifest(platform)).id, body.manifest.id)
  assert.equal((await lastManifest(platform)).status, 'done')

  if (process.platform === 'linux') {
    await outdate(dataDir, projects)
    await assertRefusedWithoutSpace(platform, projects)
    await assertDone(platform, projects)
  }
  await stop(platform)
})
