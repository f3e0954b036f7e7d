import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pitrOn, startPitrPlatform } from './pitr-platform.ts'
import { webhookProject } from './webhook-project.ts'

test('pitr: without enough space a recovery fails, says how much it needs, and changes nothing', {
  skip: process.platform !== 'linux' && 'needs a file system without space',
}, async t => {
  // This file system has no free space.
  const platform = await startPitrPlatform(pitrOn, undefined, { home: '/proc' })
  t.after(() => platform.stop())
  const project = await webhookProject(platform)
  await project.sql('create table notes (n int); insert into notes values (1)')
  await platform.untilArchived(project.id)
  const target = await platform.now()
  await project.sql('insert into notes values (2)')
  const job = await platform.recover(project.id, target)
  assert.equal(job.status, 'failed')
  assert.match(
    job.error!,
    /^there is too little space: \d+ MB are needed, and 0 MB are free beyond PLATFORM_DISK_RESERVE_MB$/,
  )
  assert.deepEqual(await project.rows('select n from public.notes order by n'), [{ n: 1 }, { n: 2 }])
  const ref = await platform.refOf(project.id)
  assert.deepEqual(
    await project.rows(`select datname from pg_database where starts_with(datname, '${ref}')`),
    [{ datname: ref }],
  )
})
