// Tasks of backups that another node takes over, that are interrupted again and again, and whose project is deleted.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import {
  createTaskLeases,
  type LeasedTask,
  leaseSeconds,
  pauseSeconds,
} from '#src/archive/task-leases-store.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { claimTasks, insertTask, nextDueMs } from '#src/services/backups/store.ts'
import { holdAt } from './backup-crash-steps.ts'
import { CrashProject, stageOf } from './crash-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

async function newProject(): Promise<CrashProject> {
  const project = new CrashProject(stageOf(platform))
  await project.create()
  return project
}

const databasesOf = async (project: CrashProject) =>
  (
    await project.look<{ datname: string }>(
      'select datname from pg_database where starts_with(datname, $1) order by 1',
      [project.ref],
    )
  ).map(({ datname }) => datname.slice(project.ref.length))

/** As if another node had claimed the task after the lease. */
const claimElsewhere = (project: CrashProject) =>
  project.look(
    `update backup_tasks set attempts = attempts + 1, leased_until = now() + interval '1 hour' where project_id = $1`,
    [project.id],
  )
/** As if the lease of the other node had expired. New settings wake the worker, which looks only every ten seconds. */
async function letGo(project: CrashProject): Promise<void> {
  await project.look('update backup_tasks set leased_until = now() where project_id = $1', [project.id])
  await project.ask('PUT', '/backups/settings', { verify_enabled: false })
}
/** When this node has noticed that the task is not its own any more. */
const untilLost = (project: CrashProject) =>
  eventually(
    () =>
      platform.logged.some(
        line => line.includes('another node has begun the task again') && line.includes(project.id),
      ),
    'the node has lost the task',
  )

for (const step of [
  'restore: rows come in',
  'restore: the copy is migrated',
  'verification: rows come in',
] as const)
  test(`backups: a node that has lost its lease leaves the databases of another node alone (${step})`, async t => {
    const project = await newProject()
    t.after(() => project.close())
    await project.sql(`insert into things values (2000, 'later')`)
    const lock = await holdAt(project, step)
    await claimElsewhere(project)
    const copies = await databasesOf(project)
    await lock.release()
    await untilLost(project)
    assert.deepEqual(await databasesOf(project), copies, 'nothing was dropped or exchanged')
    assert.equal((await project.data('GET', 'rest/*/things?id=eq.2000')).body.length, 1)
    assert.equal(
      (await project.look('select from backup_tasks where project_id = $1', [project.id])).length,
      1,
    )
    // Now the other node dies.
    await letGo(project)
    await project.untilIdle()
    if (step.startsWith('restore')) assert.equal((await project.lastRestore()).status, 'done')
    else assert.ok((await project.backup(project.backupId)).verified_at)
    await project.assertClean()
  })

test('backups: a lease that is extended late does not hold a task that was postponed', async t => {
  const project = await newProject()
  t.after(() => project.close())
  const lock = await holdAt(project, 'verification: rows come in')
  const remaining = await platform.app.control.transaction(async session => {
    const mine = sql`from backup_tasks where project_id = ${project.id}`
    const task = (await session.row<LeasedTask>(sql`select id, attempts ${mine} for update`))!
    const leaseFor = (seconds: number) =>
      session.run(
        sql`update backup_tasks set leased_until = now() + make_interval(secs => ${seconds}) where id = ${task.id}`,
      )
    const extended = async () => {
      await createTaskLeases(session, 'backup_tasks').lease.extend([task])
      const left = sql`select extract(epoch from leased_until - now())::float8 as seconds ${mine}`
      return (await session.row<{ seconds: number }>(left))!.seconds
    }
    const seconds = []
    for (const left of [leaseSeconds / 2, pauseSeconds]) {
      await leaseFor(left)
      seconds.push(await extended())
    }
    await leaseFor(leaseSeconds)
    return seconds
  })
  assert.deepEqual(remaining, [leaseSeconds, pauseSeconds])
  await lock.release()
  await project.untilIdle()
  await project.assertClean()
})

test('backups: no other node begins a restore again while it exchanges databases', async t => {
  const project = await newProject()
  t.after(() => project.close())
  const lock = await holdAt(project, 'restore: the databases are exchanged')
  const claimed = await project.look(
    'select from backup_tasks where project_id = $1 for update skip locked',
    [project.id],
  )
  assert.deepEqual(claimed, [])
  await lock.release()
  await project.untilIdle()
  assert.equal((await project.lastRestore()).status, 'done')
  await project.assertClean()
})

test('backups: a new project is continued by the node that makes it, although its lease is over', async t => {
  const project = await newProject()
  t.after(() => project.close())
  const lock = await holdAt(project, 'new_project: rows come in')
  const { id } = project.made!
  const set = sql`
    update backup_tasks set attempts = 2, leased_until = now() where project_id = ${id} returning leased_until::text as at`
  const { at } = (await platform.app.control.row<{ at: string }>(set))!
  const tried = sql`
    select from backup_tasks where project_id = ${id} and attempts = 2 and leased_until > ${at}::timestamptz`
  const other = await startPlatform({ beside: platform })
  try {
    await eventually(() => platform.app.control.row(tried), 'the other node has found it being made')
  } finally {
    await other.stop()
  }
  await lock.release()
  await project.untilIdle()
  await project.assertMade()
  await project.assertClean()
})

test('backups: a node that has lost its lease leaves the new project of another node alone', async t => {
  const project = await newProject()
  t.after(() => project.close())
  const lock = await holdAt(project, 'new_project: rows come in')
  const { id } = project.made!
  await project.look(
    `update backup_tasks set attempts = attempts + 1, leased_until = now() + interval '1 hour' where project_id = $1`,
    [id],
  )
  // Its statement fails, so this node gives up.
  const cancel = `select pg_cancel_backend(pid) from pg_stat_activity
    where wait_event = 'PgSleep' and datname = (select ref from projects where id = $1)`
  await eventually(async () => (await project.look(cancel, [id])).length > 0, 'its statement is cancelled')
  await eventually(
    () => platform.logged.some(line => line.includes('a task of backups failed') && line.includes(id)),
    'this node has given up',
  )
  await lock.release()
  // The other node dies.
  await project.look('update backup_tasks set leased_until = now() where project_id = $1', [id])
  await project.ask('PUT', '/backups/settings', { verify_enabled: false })
  await project.untilIdle()
  await project.assertMade()
  await project.assertClean()
})

test('backups: a restore that fails leaves the way back of the one before', async t => {
  const project = await newProject()
  t.after(() => project.close())
  await project.sql(`insert into things values (2000, 'later')`)
  await project.begin('restore')
  await project.untilIdle()
  const first = await project.lastRestore()
  const lock = await holdAt(project, 'restore: the copy is migrated')
  await project.look('update backup_tasks set attempts = 9 where project_id = $1', [project.id])
  await lock.release()
  await untilLost(project)
  await letGo(project)
  await project.untilIdle()
  const { status, error } = await project.lastRestore()
  assert.deepEqual([status, error], ['failed', 'the platform or its database stopped 3 times meanwhile'])
  await project.assertClean()
  await project.begin('undo', first.id)
  await project.untilIdle()
  assert.equal((await project.data('GET', 'rest/*/things?id=eq.2000')).body.length, 1)
  await project.assertClean()
})

test('backups: a verification that is interrupted three times does not blame the backup, and is tried again', async t => {
  const project = await newProject()
  t.after(() => project.close())
  const lock = await holdAt(project, 'verification: rows come in')
  await project.look('update backup_tasks set attempts = 3 where project_id = $1', [project.id])
  await lock.release()
  await untilLost(project)
  await letGo(project)
  await project.untilIdle()
  const { verify_error: error, verified_at: at } = await project.backup(project.backupId)
  assert.deepEqual(
    [error, at],
    ['Not verified: the platform or its database stopped 3 times meanwhile', null],
  )
  await project.assertClean()
  const looking = await startPlatform({ beside: platform })
  const health = async () => JSON.stringify((await looking.call('GET', '/health/services')).body)
  try {
    await eventually(async () => (await health()).includes('was interrupted'), 'the warning in health')
    assert.doesNotMatch(await health(), /cannot be verified/)
    const metrics = await looking.call('GET', '/metrics', { token: platform.adminToken })
    assert.match(metrics.body, /^plinth_backups_unverifiable 1$/m)
    assert.match(metrics.body, /^plinth_backup_differences\{kind="interrupted"\} 1$/m)
  } finally {
    await looking.stop()
  }
  // An hour later.
  await project.look(
    `update audit set at = at - interval '1 hour' where project_id = $1 and action = 'backups.not_verified'`,
    [project.id],
  )
  await project.ask('PUT', '/backups/settings', { verify_enabled: true })
  await eventually(async () => (await project.backup(project.backupId)).verified_at, 'it is verified')
  assert.equal((await project.backup(project.backupId)).verify_error, null)
})

test('backups: a node claims nothing of projects without a place, and only so many verifications', async t => {
  const [first, second] = [await newProject(), await newProject()]
  t.after(() => Promise.all([first, second].map(project => project.close())))
  const { control } = platform.app
  const rolledBack = new Error('rolled back')
  const both = sql`array[${first.id}, ${second.id}]::uuid[]`
  const rolling = control.transaction(async session => {
    for (const { id, backupId } of [first, second])
      await insertTask(session, { id: crypto.randomUUID(), projectId: id, kind: 'verification', backupId })
    const claimed = async (full: string[], verifications: number, slow: string[] = []) => {
      await session.run(sql`update backup_tasks set leased_until = null where project_id = any(${both})`)
      return (await claimTasks(session, 9, { full, slow, verifications }, 30)).length
    }
    const counts = [
      await claimed([], 9),
      await claimed([first.id], 9),
      await claimed([], 1),
      await claimed([], 0),
      // The verification of the first project is the older one, and takes no place from the second.
      await claimed([], 1, [first.id]),
      await claimed([], 9, [first.id, second.id]),
    ]
    assert.deepEqual(counts, [2, 1, 1, 0, 1, 0])
    await session.run(sql`update backup_tasks set leased_until = null`)
    const due = async (full: string[], verifications: number, slow: string[] = []) =>
      ((await nextDueMs(session, { full, slow, verifications })) ?? 1) <= 0
    assert.deepEqual(
      [
        await due([first.id], 1),
        await due([first.id, second.id], 1),
        await due([], 0),
        await due([], 1, [first.id]),
        await due([], 1, [first.id, second.id]),
      ],
      [true, false, false, true, false],
    )
    throw rolledBack
  })
  await assert.rejects(rolling, rolledBack)
})

test('backups: a verification gives way to a scheduled backup', async t => {
  const project = await newProject()
  t.after(() => project.close())
  // Otherwise the schedule would wait for the first success.
  await project.begin('verification')
  await project.untilIdle()
  const lock = await holdAt(project, 'verification: rows come in')
  await project.ask('PUT', '/backups/settings', { enabled: true })
  const made = `select from backups where project_id = $1 and kind = 'scheduled' and status = 'done'`
  await eventually(async () => (await project.look(made, [project.id])).length === 1, 'the backup is made')
  await lock.release()
  await project.ask('PUT', '/backups/settings', { enabled: false })
  await project.untilIdle()
  await project.assertClean()
})

for (const step of [
  'backup: rows are read',
  'verification: the copy is analysed',
  'restore: the state before is backed up',
  'restore: the copy is analysed',
  'undo: rows of services are replaced',
  'undo: the databases are exchanged',
  'undo: the replaced state is dropped',
] as const)
  test(`backups: a project can be deleted meanwhile, and its last backup is kept (${step})`, async t => {
    const project = await newProject()
    t.after(() => project.close())
    let restoreId: string | undefined
    if (step.startsWith('undo')) {
      await project.begin('restore')
      await project.untilIdle()
      restoreId = (await project.lastRestore()).id
    }
    const lock = await holdAt(project, step, restoreId)
    let hasEnded = false
    const deletion = project.ask('DELETE', '').finally(() => {
      hasEnded = true
    })
    deletion.catch(() => {})
    // It waits for an exchange of databases.
    await eventually(
      async () => hasEnded || (await isDeletionWaiting(project)),
      'the deletion has ended, or waits',
    )
    await lock.release()
    await deletion
    await project.untilIdle()
    await eventually(async () => (await databasesOf(project)).length === 0, 'no database is left')
    const roles = () =>
      project.look('select rolname from pg_roles where starts_with(rolname, $1)', [project.ref])
    await eventually(async () => (await roles()).length === 0, 'no role is left')
    const verified = `select verify_error from backups where id = $1`
    assert.deepEqual(await project.look(verified, [project.backupId]), [{ verify_error: null }])
    const statuses = await project.look<{ id: string; status: string }>(
      'select id, status from backups where project_id = $1 order by created_at',
      [project.id],
    )
    assert.deepEqual(statuses[0], { id: project.backupId, status: 'done' })
    assert.ok(statuses.every(({ status }) => status !== 'running'))
    const done = statuses.filter(({ status }) => status === 'done').map(({ id }) => id)
    const kept = () => storedFiles(project).filter(name => name.startsWith(project.backupId)).length
    const files = kept()
    assert.ok(files > 5)
    const listed = () => project.look('select from backups where project_id = $1', [project.id])
    const age = (days: number) =>
      project.look(`update projects set deleted_at = now() - make_interval(days => $2) where id = $1`, [
        project.id,
        days,
      ])
    await age(6)
    await eventually(() => storedFiles(project).every(isOf(done)), 'files of the failed backup are removed')
    await restarted(async () => {})
    assert.deepEqual([kept(), (await listed()).length], [files, statuses.length])
    await age(8)
    await restarted(() => eventually(async () => (await listed()).length === 0, 'all backups are removed'))
    await eventually(() => storedFiles(project).length === 0, 'all files are removed')
  })

const isDeletionWaiting = async (project: CrashProject) =>
  (
    await project.look(
      `select from pg_stat_activity where datname = $1 and wait_event_type = 'Lock' and query ~ 'from projects .* for no key update'`,
      [platform.control],
    )
  ).length > 0

/** Of one of the backups, or a file of the project, which all backups share. */
const isOf = (backups: readonly string[]) => (name: string) =>
  backups.some(id => name.startsWith(id)) || !/^[0-9a-f-]{36}-/.test(name)

const storedFiles = ({ id }: CrashProject) =>
  fs
    .readdirSync(join(platform.config.dataDir, 'backups', id), { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(({ name }) => name)

/** A node prunes and sweeps when it starts, before it stops. */
async function restarted(during: () => Promise<unknown>): Promise<void> {
  const node = await startPlatform({ beside: platform })
  try {
    await during()
  } finally {
    await node.stop()
  }
}
