// Which backups are made, kept and removed, and what is left of them.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { tryHoldFiles } from '#src/services/backups/files-store.ts'
import { createRetention } from '#src/services/backups/retention.ts'
import { insertBackup, insertTask } from '#src/services/backups/store.ts'
import { deleteBackup } from '#src/services/backups/upkeep-store.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

const listed = async ({ id, backups }: BackedUpProject) =>
  (await backups.list({ params: { id }, query: {} })).backups
const idsOf = async (project: BackedUpProject) => (await listed(project)).map(({ id }) => id)

async function upload(project: BackedUpProject, name: string): Promise<void> {
  const answer = await fetch(`${platform.url}/v1/${project.id}/storage/v1/object/papers/${name}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${project.service_role_key}`, 'content-type': 'text/plain' },
    body: name,
  })
  assert.equal(answer.status, 200, await answer.text())
}

function stored({ id }: BackedUpProject): string[] {
  const folder = join(platform.config.dataDir, 'backups', id)
  return fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => each.name)
}

/** A new node prunes and sweeps when it starts. */
async function untilPruned(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const node = await startPlatform({ beside: platform })
  try {
    await eventually(isSo, what)
  } finally {
    await node.stop()
  }
}

test('backups: retention removes old ones with the files that only they contain, but not the newest verified one', async () => {
  const project = await backedUpProject(platform)
  const params = { id: project.id }
  await project.backups.configure({ params, body: { verify_enabled: false } })
  await project.sql(`insert into storage.buckets (id, name) values ('papers', 'papers')`)
  await upload(project, 'shared')
  await upload(project, 'old')
  const proof = await project.backUp()
  assert.equal((await project.verify(proof.id)).verify_error, null)
  const second = await project.backUp()
  const removed = await platform.call('DELETE', `/v1/${project.id}/storage/v1/object/papers/old`, {
    token: project.service_role_key,
  })
  assert.equal(removed.status, 200, JSON.stringify(removed.body))
  const third = await project.backUp()
  const fourth = await project.backUp()
  await project.backups.configure({ params, body: { retain_count: 2 } })
  await untilPruned('the second is gone', async () => !(await idsOf(project)).includes(second.id))
  assert.deepEqual(await idsOf(project), [fourth.id, third.id, proof.id])
  const versions = () => stored(project).filter(name => !/^[0-9a-f-]{36}-/.test(name))
  assert.equal(versions().length, 2, 'the proof has both files')
  assert.ok(!stored(project).some(name => name.startsWith(second.id)))

  assert.equal((await project.verify(third.id)).verify_error, null)
  await untilPruned('the first proof is gone', async () => !(await idsOf(project)).includes(proof.id))
  assert.deepEqual(await idsOf(project), [fourth.id, third.id])
  await eventually(() => versions().length === 1, 'only the shared file is left')
  assert.equal((await project.verify(fourth.id)).verify_error, null)
})

test('backups: with retain_count 1 the newest backup keeps its files', async () => {
  const project = await backedUpProject(platform)
  const params = { id: project.id }
  await project.backups.configure({ params, body: { verify_enabled: false } })
  await project.sql(`insert into storage.buckets (id, name) values ('papers', 'papers')`)
  await upload(project, 'shared')
  await project.backUp()
  await upload(project, 'later')
  const last = await project.backUp()
  await project.backups.configure({ params, body: { retain_count: 1 } })
  // The second node has nothing left to do when it has stopped.
  await untilPruned('only the last is left', async () => (await idsOf(project)).length === 1)
  assert.equal((await project.verify(last.id)).verify_error, null)
})

test('backups: retention keeps the backup by which a restore can be undone', async () => {
  const project = await backedUpProject(platform)
  const params = { id: project.id }
  await project.backups.configure({ params, body: { verify_enabled: false } })
  await project.sql('create table kept as select 1 as id')
  const first = await project.backUp()
  await project.sql('insert into kept values (2)')
  const restore = await project.restore(first.id)
  const last = await project.backUp()
  await project.backups.configure({ params, body: { retain_count: 1 } })
  await untilPruned('the first is gone', async () => !(await idsOf(project)).includes(first.id))
  assert.deepEqual(await idsOf(project), [last.id, restore.before_backup_id])
  await project.backups.undo({ params: { ...params, restore_id: restore.id } })
  const undone = await project.restoreEnded(restore.id, ['undone'])
  assert.deepEqual([undone.status, undone.error], ['undone', null])
  assert.deepEqual(await project.rows('select id from public.kept order by id'), [{ id: 1 }, { id: 2 }])
  await untilPruned('nothing needs it any more', async () => (await idsOf(project)).length === 1)
})

test('backups: retention does not remove a backup whose task begins at the same time', async () => {
  const project = await backedUpProject(platform)
  const { control } = platform.app
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  const { id: backupId } = await project.backUp()
  const task = { id: orderedUuid(), projectId: project.id, kind: 'verification' as const, backupId }
  let removal: Promise<boolean> | undefined
  await control.transaction(async session => {
    assert.equal(await insertTask(session, task), true)
    removal = deleteBackup(control, backupId)
    const waiting = sql`
      select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() and query ~ 'from backups'`
    await eventually(() => control.row(waiting), 'the removal waits for the task')
  })
  assert.equal(await removal, false)
  assert.equal((await project.verify(backupId)).verify_error, null)
  assert.equal(await deleteBackup(control, backupId), true)
  assert.equal(await insertTask(control, task), false, 'of a backup that was removed')
})

test('backups: one that begins while files are removed has the bytes of all its files', async t => {
  const project = await backedUpProject(platform)
  const { control } = platform.app
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  await project.sql(`insert into storage.buckets (id, name) values ('papers', 'papers')`)
  await upload(project, 'shared')
  const { id: removed } = await project.backUp()
  assert.equal(await deleteBackup(control, removed), true)
  const pieces = await openDirectoryPieces(join(platform.config.dataDir, 'backups'))
  let begun: string | undefined
  let isHeld: boolean | undefined
  const retention = createRetention(control, {
    ...pieces,
    async remove(names, signal) {
      if (names.some(name => /^[^/]+\/[0-9a-f-]{36}\.0$/.test(name))) {
        isHeld = !(await control.transaction(session => tryHoldFiles(session, project.id)))
        begun ??= (await project.backups.create({ params: { id: project.id } })).id
        // Without waiting for the removal, it would end meanwhile.
        const isOver = async () =>
          (await listed(project)).find(({ id }) => id === begun)?.status !== 'running'
        for (const until = performance.now() + 2000; performance.now() < until && !(await isOver()); )
          await sleep(20)
      }
      await pieces.remove(names, signal)
    },
  })
  await retention.sweep(t.signal)
  assert.ok(begun)
  assert.equal((await project.ended(begun)).error, null)
  assert.equal((await project.verify(begun)).verify_error, null)
  assert.equal(isHeld, false, 'no transaction waits for the store')
})

test('backups: one that begins after a node was killed while it removed files copies them again', async t => {
  const project = await backedUpProject(platform)
  const { control } = platform.app
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  await project.sql(`insert into storage.buckets (id, name) values ('papers', 'papers')`)
  for (const name of ['first', 'second']) await upload(project, name)
  const { id: removed } = await project.backUp()
  assert.equal(await deleteBackup(control, removed), true)
  const pieces = await openDirectoryPieces(join(platform.config.dataDir, 'backups'))
  const removals: (readonly string[])[] = []
  const retention = createRetention(control, {
    ...pieces,
    async remove(names) {
      if (!names.some(name => name.startsWith(project.id) && !name.includes('-1-')))
        return pieces.remove(names)
      removals.push(names)
      await pieces.remove(names.slice(0, 1))
      throw new Error('killed')
    },
  })
  await assert.rejects(retention.sweep(t.signal), /killed/)
  const { id } = await project.backups.create({ params: { id: project.id } })
  const isBegun = sql`
    select from backup_tasks where project_id = ${project.id} and progress->>'step' not in ('waiting', 'starting')`
  const claimed = sql`select from backup_tasks where project_id = ${project.id} and progress->>'step' = 'starting'`
  await eventually(() => control.row(claimed), 'the backup waits')
  assert.equal(await control.row(isBegun), undefined)
  await retention.sweep(t.signal)
  assert.equal(removals.length, 1, 'no other node removes files meanwhile')
  await control.run(
    sql`update backup_file_removals set leased_until = now() where project_id = ${project.id}`,
  )
  assert.equal((await project.ended(id)).error, null)
  assert.equal((await project.verify(id)).verify_error, null)
  assert.equal(stored(project).filter(name => !/^[0-9a-f-]{36}-/.test(name)).length, 2)
  await retention.sweep(t.signal)
  assert.equal((await project.verify(id)).verify_error, null)
  assert.deepEqual(
    await control.rows(sql`select from backup_file_removals where project_id = ${project.id}`),
    [],
  )
})

test('backups: the sweep removes what no backup needs, also of earlier attempts and of failed ones', async () => {
  const project = await backedUpProject(platform)
  const done = await project.backUp()
  const failed = await project.backUp()
  await platform.app.control.run(sql`update backups set status = 'failed' where id = ${failed.id}`)
  const folder = join(platform.config.dataDir, 'backups', project.id, done.id.slice(0, 2))
  fs.writeFileSync(join(folder, `${done.id}-9-0.0`), 'of an attempt whose node was killed')
  const expected = stored(project).filter(name => name.startsWith(`${done.id}-1-`))
  await untilPruned('nothing else is left', async () => stored(project).length === expected.length)
  assert.deepEqual(stored(project).sort(), expected.sort())
  assert.equal((await project.verify(done.id)).verify_error, null)
})

test('backups: one that nothing will end has failed after an hour', async () => {
  const project = await backedUpProject(platform)
  const { control } = platform.app
  const kinds = { scheduled: orderedUuid(), before_restore: orderedUuid() } as const
  for (const kind of ['scheduled', 'before_restore'] as const)
    await insertBackup(control, kinds[kind], project.id, kind)
  await control.run(sql`
    update backups set created_at = now() - interval '61 minutes' where project_id = ${project.id}`)
  const ended = async () => (await listed(project)).find(({ id }) => id === kinds.scheduled)!
  await untilPruned('it has failed', async () => (await ended()).status === 'failed')
  assert.equal((await ended()).error, 'the platform stopped meanwhile')
  assert.deepEqual(
    (await listed(project)).filter(({ status }) => status === 'running').map(({ id }) => id),
    [kinds.before_restore],
    'that of a replacement without a task',
  )
})

test('backups: a schedule that is due makes one backup, on any number of nodes', async () => {
  const project = await backedUpProject(platform)
  const second = await startPlatform({ beside: platform })
  try {
    await project.backups.configure({ params: { id: project.id }, body: { enabled: true } })
    await platform.app.control.run(
      sql`update backup_settings set next_run_at = now() - interval '1 hour' where project_id = ${project.id}`,
    )
    // Wakes the worker of this node. The other one polls.
    await project.backups.configure({ params: { id: project.id }, body: { retain_count: 5 } })
    await eventually(async () => (await listed(project)).some(({ status }) => status === 'done'), 'a backup')
    // It is due twice: when it is enabled, and by the change of its time.
    const unfinished = sql`
      select from backup_tasks where project_id = ${project.id}
      union all select from backup_settings where project_id = ${project.id} and next_run_at <= now()`
    await eventually(
      async () => !(await platform.app.control.row(unfinished)),
      'no task is left, and none is due',
    )
    const made = await listed(project)
    assert.ok(made.every(({ kind, error }) => kind === 'scheduled' && error === null))
    const { count } = (await platform.app.control.row<{ count: number }>(
      sql`select count(*)::int as count from audit where project_id = ${project.id} and action = 'backups.made'`,
    ))!
    assert.equal(count, made.length)
  } finally {
    await second.stop()
  }
})

test('backups: a project has one task at a time, and does not hold up another one', async () => {
  const [project, other] = [await backedUpProject(platform), await backedUpProject(platform)]
  await project.sql('create table held (id int)')
  const params = { id: project.id }
  await platform.asSuperuser(await platform.refOf(project.id), async session => {
    await session.run(raw('begin'))
    await session.run(raw('lock table public.held in access exclusive mode'))
    const { id } = await project.backups.create({ params })
    await assert.rejects(project.backups.create({ params }), { code: 'project_busy' })
    assert.equal((await other.backUp()).error, null)
    await session.run(raw('rollback'))
    assert.equal((await project.ended(id)).error, null)
  })
})
