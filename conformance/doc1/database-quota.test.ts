// 1 §4, §6 and §7: writes of rows and files while the database of a project is over `max_database_size_mb`.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type RowsApi, rowsProject } from '../rows.ts'
import { type StorageApi, storageOf } from '../storage.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let rows: RowsApi
let files: StorageApi
let bucket: string
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `create table notes (id int primary key); insert into notes values (1), (2);
     create function add_note() returns void language sql as 'insert into notes values (50)';
     create function notes_there() returns bigint language sql as 'select count(*) from notes'`,
  )
  files = storageOf(it, rows.project)
  bucket = await files.bucket()
  await files.store(bucket, 'kept', 'some text')
  // An empty database is larger than one megabyte.
  const quotas = { max_database_size_mb: 1 }
  assert.equal((await it.manage('PATCH', `/projects/${rows.project.id}`, { quotas })).status, 200)
  await until(
    'writes are refused',
    async () => (await rows.patch('notes?id=eq.99', { id: 98 })).status === 413,
  )
})
after(() => it.stop())

test('1 §7 rows: POST, PATCH and PUT are 413 with used_bytes and limit_bytes, in both shapes of the URL', async () => {
  for (const shape of ['native', 'alias'] as const) {
    const replies = [
      await rows.post('notes', { id: 4 }, { shape }),
      await rows.patch('notes?id=eq.1', { id: 5 }, { shape }),
      await rows.put('notes?id=eq.1', { id: 1 }, { shape }),
      await rows.post('rpc/add_note', {}, { shape }),
    ]
    for (const reply of replies) {
      assertDataError(reply, 'database_quota_exceeded')
      const { used_bytes, limit_bytes } = JSON.parse(reply.body.details)
      assert.equal(limit_bytes, 1024 * 1024)
      assert.ok(used_bytes > limit_bytes)
    }
  }
})

test('1 §4 rows: reads, functions that read, DELETE and exec_sql work', async () => {
  assert.equal((await rows.get('notes')).status, 200)
  assert.equal((await rows.post('rpc/notes_there', {})).status, 200)
  assert.equal((await rows.delete('notes?id=eq.2')).status, 204)
  assert.deepEqual(await rows.sql('select id from notes order by id'), [{ id: 1 }])
})

test('1 §6 files: uploads are 413 with the body of a quota error; downloads and deletions work', async () => {
  const { status, body } = await files.upload(bucket, 'new')
  assert.equal(status, 413)
  assert.equal(body.error, 'database_quota_exceeded')
  assert.ok(body.used_bytes > body.limit_bytes)
  assert.equal((await files.read(bucket, 'kept')).toString(), 'some text')
  assert.equal((await files.delete(`object/${bucket}/kept`)).status, 200)
})

test('1 §7 GET /projects/{id} shows the size of the database', async () => {
  const { body } = await it.manage('GET', `/projects/${rows.project.id}`)
  assert.ok(Number.isInteger(body.database_bytes) && body.database_bytes > 1024 * 1024)
})
