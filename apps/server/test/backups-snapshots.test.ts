// Changes between the snapshot of a project database and that of the control database.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { makeBackup } from '#src/services/backups/make-backup.ts'
import { insertBackup } from '#src/services/backups/store.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import type { ProjectData } from '#src/tenancy/project-data.ts'
import { backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform } from './harness.ts'

test('backups: a file that is deleted between both snapshots makes the backup start again', async t => {
  const platform = await startPlatform()
  t.after(() => platform.stop())
  const project = await backedUpProject(platform)
  const { id, service_role_key: token } = project
  const { control, cluster, projectData, pieces } = platform.app
  await project.sql(`
    insert into storage.buckets (id, name) values ('papers', 'papers');
    insert into storage.objects (bucket_id, name, version) values
      ('papers', 'none', null), ('papers', 'some', 'a text'), ('papers', 'unknown', '${crypto.randomUUID()}')`)
  const object = async (method: string, name: string) => {
    const given = {
      token,
      ...(method === 'POST' && { body: name, headers: { 'content-type': 'text/plain' } }),
    }
    const { status, body } = await platform.call(method, `/v1/${id}/storage/v1/object/papers/${name}`, given)
    assert.equal(status, 200, JSON.stringify(body))
  }
  const stored = () => control.rows(sql`select from stored_files where project_id = ${id}`)
  await object('POST', 'kept')
  await object('POST', 'deleted')

  let attempts = 0
  async function* after(rows: AsyncIterable<any>) {
    if (attempts++ === 0) {
      await object('DELETE', 'deleted')
      await eventually(async () => (await stored()).length === 1, 'its row is removed')
    }
    yield* rows
  }
  const changing: ProjectData = {
    ...projectData,
    export: (session, projectId) =>
      projectData
        .export(session, projectId)
        .map((each, index) => (index === 0 ? { ...each, rows: after(each.rows) } : each)),
  }
  const backup = orderedUuid()
  await insertBackup(control, backup, id, 'manual')
  const deriveKey = keyring(platform.controlPlaneSecret)
  const deps = {
    control,
    cluster,
    projectData: changing,
    live: pieces,
    backups: await openDirectoryPieces(join(platform.config.dataDir, 'backups')),
    deriveKey,
    logins: createLogins(platform.address, deriveKey),
    dataDir: platform.config.dataDir,
  }
  const watching = { signal: t.signal, progress() {} }
  const { files } = await makeBackup(deps, { project: id, backup, attempt: 1 }, watching)
  assert.deepEqual([attempts, files], [2, 1])
})
