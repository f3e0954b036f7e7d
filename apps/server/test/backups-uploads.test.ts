// Backups while files are uploaded and removed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import fs from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Backup } from '@plinth/contract/backups.ts'
import { storedPieceBytes } from '#src/kernel/objects/layout.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform } from './harness.ts'
import { mebibyte } from './tus-files.ts'

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
  const sent = size / 2
  half.write(Buffer.alloc(sent, 'b'))
  const trickled = trickle(t, half)
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

  half.end(Buffer.alloc(size - sent - trickled(), 'b'))
  assert.equal(((await once(half, 'response')) as [IncomingMessage])[0].statusCode, 200)
  assert.equal((await project.backUp()).files, 2)
})

// Of an upload without a length, a little more is reserved than has arrived. The pieces can have just that size later.
for (const [what, first, reserved, next] of [
  ['a step', 300_000, mebibyte, mebibyte],
  ['a whole piece', 8 * mebibyte - 1000, 8 * mebibyte, 100_000],
] as const)
  test(`backups: an upload without a length that goes on during a backup is in the next one (${what})`, async t => {
    const platform = await startPlatform()
    t.after(() => platform.stop())
    const project = await backedUpProject(platform)
    const { id, service_role_key: key } = project
    await project.backups.configure({ params: { id }, body: { verify_enabled: false } })
    await project.sql(`
      create table held (id int);
      insert into storage.buckets (id, name) values ('papers', 'papers')`)
    const upload = request(`${platform.url}/v1/${id}/storage/v1/object/papers/endless`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'text/plain' },
    })
    const answered = once(upload, 'response') as Promise<[IncomingMessage]>
    upload.write(Buffer.alloc(first, 'a'))
    const trickled = trickle(t, upload)
    const { control } = platform.app
    const sized = sql`select from stored_files where project_id = ${id} and size = ${reserved}`
    await eventually(() => control.row(sized), 'the step is reserved')

    let backup: Promise<Backup> | undefined
    await platform.asSuperuser(await platform.refOf(id), async session => {
      await session.run(raw('begin'))
      await session.run(raw('lock table public.held in access exclusive mode'))
      backup = project.backUp()
      const waiting = sql`
        select from pg_stat_activity
         where wait_event_type = 'Lock' and datname = (select ref from projects where id = ${id})`
      await eventually(() => control.row(waiting), 'the backup waits')
      upload.write(Buffer.alloc(next, 'b'))
      const pieces = join(platform.config.dataDir, 'objects', id)
      await eventually(
        () => storedIn(pieces) >= storedPieceBytes(reserved, 0),
        'the piece has the size that was reserved',
      )
      await session.run(raw('rollback'))
    })
    const { id: during, error, files } = await backup!
    assert.deepEqual([error, files], [null, 0])
    assert.equal((await project.verify(during)).verify_error, null)
    trickled()
    upload.end()
    assert.equal((await answered)[0].statusCode, 200)
    const after = await project.backUp()
    assert.equal(after.files, 1)
    assert.equal((await project.verify(after.id)).verify_error, null)
  })

/** The platform ends an upload that is silent for long. Returns what stops it and counts its bytes. */
function trickle(t: TestContext, upload: ClientRequest): () => number {
  let bytes = 0
  const timer = setInterval(() => {
    upload.write('b')
    bytes++
  }, 5000)
  t.after(() => clearInterval(timer))
  return () => {
    clearInterval(timer)
    return bytes
  }
}

const storedIn = (folder: string) =>
  fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .reduce((sum, { parentPath, name }) => sum + fs.statSync(join(parentPath, name)).size, 0)
