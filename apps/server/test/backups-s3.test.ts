// Backups on S3.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { backedUpProject } from './backup-project.ts'
import { startPlatform } from './harness.ts'
import { startS3Proxy } from './s3-proxy.ts'
import { startS3 } from './s3-server.ts'

test('backups: on S3 they are verified and restored, and a service that fails is the reason', async t => {
  const s3 = await startS3()
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3.settings
  const proxy = await startS3Proxy(endpoint!)
  t.after(() => proxy.close())
  const node = await startPlatform({
    settings: {
      BACKUP_S3_BUCKET: bucket,
      BACKUP_S3_ENDPOINT: proxy.url,
      BACKUP_S3_ACCESS_KEY_ID: accessKeyId,
      BACKUP_S3_SECRET_ACCESS_KEY: secretAccessKey,
    },
  })
  t.after(() => node.stop())
  const project = await backedUpProject(node)
  await project.sql('create table things (id int); insert into things select generate_series(1, 5000)')
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  assert.equal((await project.verify(backup.id)).verify_error, null)
  await project.sql('truncate things')
  assert.equal((await project.restore(backup.id)).error, null)
  assert.equal((await project.rows('select from public.things')).length, 5000)
  assert.ok(!fs.existsSync(join(node.config.dataDir, 'backups', project.id)), 'nothing is on the disk')
  proxy.mode = 'failing'
  const refused = await project.backUp()
  assert.deepEqual(
    [refused.status, refused.error],
    ['failed', 'The S3 service for backups cannot be reached, or has failed.'],
  )
  proxy.mode = 'forwarding'
  assert.equal((await project.verify(backup.id)).verify_error, null)
  await s3.stop()
  const failed = await project.backUp()
  assert.deepEqual(
    [failed.status, failed.error],
    ['failed', 'The S3 service for backups cannot be reached, or has failed.'],
  )
  const unverified = await project.verify(backup.id)
  assert.match(unverified.verify_error!, /^Not verified: The S3 service/)
  assert.ok(unverified.verified_at, 'it was verified before')
  assert.equal((await project.restore(backup.id)).status, 'failed')
  assert.equal((await project.rows('select from public.things')).length, 5000)
})
