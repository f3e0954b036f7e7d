// Restores of backups in the place of the project, and their way back.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type BackedUpProject, backedUpProject, richRows, richSchema } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { allowLoopback, startReceiver } from './webhook-project.ts'

const file = Buffer.alloc(200_000, 'a file that is larger than a frame ')

async function upload(platform: TestPlatform, project: BackedUpProject, name: string): Promise<void> {
  const answer = await fetch(`${platform.url}/v1/${project.id}/storage/v1/object/papers/${name}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${project.service_role_key}`, 'content-type': 'text/plain' },
    body: file,
  })
  assert.equal(answer.status, 200, await answer.text())
}

async function download(platform: TestPlatform, project: BackedUpProject, name: string) {
  const answer = await fetch(`${platform.url}/v1/${project.id}/storage/v1/object/papers/${name}`, {
    headers: { authorization: `Bearer ${project.service_role_key}` },
  })
  return { status: answer.status, bytes: Buffer.from(await answer.arrayBuffer()) }
}

async function untilOver(project: BackedUpProject, restoreId: string, statuses: readonly string[]) {
  let found: Awaited<ReturnType<BackedUpProject['backups']['restores']>>['restores'][number] | undefined
  await eventually(async () => {
    const { restores } = await project.backups.restores({ params: { id: project.id }, query: {} })
    found = restores.find(({ id }) => id === restoreId)
    return (
      found !== undefined &&
      found.progress === null &&
      (statuses.includes(found.status) || found.error !== null)
    )
  }, 'the restore is over')
  return found!
}

test('restore: the whole project has the state of the backup again, and the way back works', async t => {
  const platform = await startPlatform({ settings: allowLoopback })
  t.after(() => platform.stop())
  const receiver = await startReceiver()
  t.after(() => receiver.close())
  const project = await backedUpProject(platform)
  const params = { id: project.id }
  await project.sql(richSchema)
  await project.sql(richRows)
  await project.sql(`insert into storage.buckets (id, name) values ('papers', 'papers')`)
  await upload(platform, project, 'kept.txt')
  await upload(platform, project, 'deleted.txt')
  await project.signUp('before@example.test')
  const webhook = await project.create(receiver.url, ['db.public.things.*', 'user.created'])
  await project.attach(webhook.id, 'things', ['INSERT'])
  const things = () => project.rows<{ count: number }>('select count(*)::int as count from public.things')
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  assert.equal(backup.files, 2)

  await project.sql(`drop table profiles cascade; delete from things where id > 10; alter table things add more int;
    delete from storage.objects where name = 'deleted.txt'`)
  await upload(platform, project, 'later.txt')
  await project.hooks.update({ params: { ...params, wid: webhook.id }, body: { description: 'changed' } })
  const before = receiver.received.length

  const { restore } = await project.backups.restore({
    params: { ...params, backup_id: backup.id },
    body: null,
  })
  assert.equal(restore.status, 'running')
  const restored = await untilOver(project, restore.id, ['done', 'failed'])
  assert.equal(restored.error, null)
  assert.equal(restored.status, 'done')
  assert.deepEqual(await things(), [{ count: 2000 }])
  assert.equal((await project.rows('select from public.profiles')).length, 1)
  assert.equal((await project.signIn('before@example.test')).status, 200)
  assert.deepEqual(await download(platform, project, 'deleted.txt'), { status: 200, bytes: file })
  assert.notEqual((await download(platform, project, 'later.txt')).status, 200)
  assert.equal((await project.hooks.read({ params: { ...params, wid: webhook.id } })).description, '')
  // The row API reads the restored schema, and triggers of webhooks work.
  const rows = await platform.call('GET', `/v1/rest/${project.id}/things?select=id,more&limit=1`, {
    token: project.service_role_key,
  })
  assert.equal(rows.status, 400, 'the column of the later state is gone')
  await project.sql(`insert into things (name, size) values ('after the restore', 5)`)
  await receiver.until(before + 1)
  assert.equal(receiver.received.at(-1)!.body.record.name, 'after the restore')

  await project.backups.undo({ params: { ...params, restore_id: restore.id } })
  const undone = await untilOver(project, restore.id, ['undone'])
  assert.deepEqual([undone.error, undone.status], [null, 'undone'])
  assert.deepEqual(await things(), [{ count: 10 }])
  assert.deepEqual(await download(platform, project, 'later.txt'), { status: 200, bytes: file })
  assert.equal((await project.hooks.read({ params: { ...params, wid: webhook.id } })).description, 'changed')
  const ref = await platform.refOf(project.id)
  const databases = () =>
    platform.app.control.rows(sql`select from pg_database where starts_with(datname, ${ref})`)
  await eventually(async () => (await databases()).length === 1, 'no other database of the project is left')
})
