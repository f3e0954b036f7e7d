// Backups while files are uploaded and removed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform } from './harness.ts'

const size = 300_000

test('backups: uploads that have not ended are left out, and do not make a backup fail', async t => {
  const platform = await startPlatform()
  t.after(() => platform.stop())
  const project = await backedUpProject(platform)
  const { id, service_role_key: key } = project
  const authorization = `Bearer ${key}`
  await project.sql(`insert into storage.buckets (id, name) values ('papers', 'papers')`)
  const storage = `${platform.url}/v1/${id}/storage/v1`
  const upload = (name: string) =>
    request(`${storage}/object/papers/${name}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'text/plain', 'content-length': size },
    })
  const complete = upload('complete')
  complete.end(Buffer.alloc(size, 'a'))
  assert.equal(((await once(complete, 'response')) as [IncomingMessage])[0].statusCode, 200)

  const half = upload('half')
  half.write(Buffer.alloc(size / 2, 'b'))
  const resumable = await fetch(`${storage}/upload/resumable`, {
    method: 'POST',
    headers: {
      authorization,
      'tus-resumable': '1.0.0',
      'upload-length': String(size),
      'upload-metadata': `bucketName ${btoa('papers')},objectName ${btoa('resumed')}`,
    },
  })
  assert.equal(resumable.status, 201)
  const stored = () =>
    platform.app.control
      .rows(sql`select from stored_files where project_id = ${id}`)
      .then(rows => rows.length)
  await eventually(async () => (await stored()) >= 2, 'the half upload has begun')

  const backup = await project.backUp()
  assert.deepEqual([backup.status, backup.error, backup.files], ['done', null, 1])
  assert.equal((await project.verify(backup.id)).verify_error, null)

  half.end(Buffer.alloc(size / 2, 'b'))
  assert.equal(((await once(half, 'response')) as [IncomingMessage])[0].statusCode, 200)
  assert.equal((await project.backUp()).files, 2)
})
