// Backups and restores without enough space.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Backup } from '@plinth/contract/backups.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform } from './harness.ts'
import { startOwnServer } from './own-server.ts'
import { StorageNode } from './storage-node.ts'
import { mebibyte, randomFile } from './tus-files.ts'

test('backups: a restore is 507 if the disk of the database has too little space', {
  skip: process.platform !== 'linux' && 'needs a file system without space',
}, async t => {
  const platform = await startPlatform()
  t.after(() => platform.stop())
  const project = await backedUpProject(platform)
  const backup = await project.backUp()
  // This file system has no free space.
  const full = await startPlatform({ beside: platform, clusterDir: '/proc' })
  try {
    const path = `/api/v1/projects/${project.id}/backups/${backup.id}/restore`
    const { status, body } = await full.call('POST', path, { token: full.adminToken })
    assert.deepEqual([status, body.error.code], [507, 'insufficient_space'])
    const asNew = { new_project: { name: 'no space' } }
    const refused = await full.call('POST', path, { token: full.adminToken, body: asNew })
    assert.deepEqual([refused.status, refused.body.error.code], [507, 'insufficient_space'])
    assert.match(
      body.error.message,
      /has 0 bytes beyond PLATFORM_DISK_RESERVE_MB, and a restore of this backup needs \d{7,}; make room/,
    )
  } finally {
    await full.stop()
  }
  const { restores } = await project.backups.restores({ params: { id: project.id }, query: {} })
  assert.deepEqual(restores, [])
  assert.equal((await project.restore(backup.id)).error, null)
})

test('backups: nothing is restored aside without space on the disk of the database', {
  skip: process.platform !== 'linux' && 'needs a file system without space',
}, async t => {
  // This file system has no free space.
  const platform = await startPlatform({ clusterDir: '/proc' })
  t.after(() => platform.stop())
  const project = await backedUpProject(platform)
  const params = { id: project.id }
  const { id } = await project.backUp()
  const noSpace =
    /The disk of the database has 0 bytes beyond PLATFORM_DISK_RESERVE_MB, and a copy from this backup needs \d{4,}\.$/
  const { verify_error: error, verified_at: at } = await project.verify(id)
  assert.match(error!, /^Not verified: /)
  assert.match(error!, noSpace)
  assert.equal(at, null)
  const projects = () => platform.app.control.rows(sql`select id, status from projects`)
  const before = await projects()
  await assert.rejects(
    project.backups.restore({
      params: { ...params, backup_id: id },
      body: { new_project: { name: 'no space' } },
    }),
    { code: 'insufficient_space' },
  )
  assert.deepEqual(await projects(), before)
})

test('backups: nothing is backed up or restored aside while the disk reserve is reached', async t => {
  const platform = await startPlatform({ settings: { PLATFORM_DISK_RESERVE_MB: '1000000000' } })
  t.after(() => platform.stop())
  const maker = await startPlatform({ beside: platform })
  const made = await backedUpProject(maker)
  const params = { id: made.id }
  await made.backups.configure({ params, body: { verify_enabled: false } })
  // The other node may have claimed an earlier one.
  const backup = await eventually(async () => {
    const ended = await made.backUp()
    return ended.error === null ? ended : undefined
  }, 'the node without a reserve makes a backup')
  await maker.stop()

  const manage = async (method: string, path: string) => {
    const url = `/api/v1/projects/${params.id}/${path}`
    const { status, body } = await platform.call(method, url, { token: platform.adminToken })
    assert.ok(status < 300, JSON.stringify(body))
    return body
  }
  const backupOf = async (id: string): Promise<Backup> =>
    (await manage('GET', 'backups')).backups.find((each: Backup) => each.id === id)
  const ended = (id: string) =>
    eventually(async () => {
      const found = await backupOf(id)
      return found.progress === null ? found : undefined
    }, 'the task has ended')
  const shortOfSpace = 'The platform is short of disk space'
  const failed = await ended((await manage('POST', 'backups')).id)
  assert.equal(failed.status, 'failed')
  assert.ok(failed.error!.startsWith(shortOfSpace), failed.error!)
  await manage('POST', `backups/${backup.id}/verify`)
  const { verify_error: error } = await ended(backup.id)
  assert.ok(error!.startsWith(`Not verified: ${shortOfSpace}`), error!)
  await manage('POST', `backups/${backup.id}/restore`)
  await ended(backup.id)
  const [restore] = (await manage('GET', 'restores')).restores
  assert.equal(restore.status, 'failed')
  assert.ok(restore.error.startsWith(shortOfSpace), restore.error)
})

test('backups: without space in the store a backup fails and says so, and earlier ones are unchanged', async t => {
  const node = new StorageNode()
  t.after(() => node.remove())
  await node.start()
  const files = await node.createProject()
  const path = `/projects/${files.project.id}/backups`
  const list = async (): Promise<Backup[]> => (await node.manage('GET', path)).body.backups
  const ended = async (id: string) => {
    const find = async () => (await list()).find(each => each.id === id && each.progress === null)
    return eventually(find, 'the task has ended')
  }
  const start = async () => {
    const { status, body } = await node.manage('POST', path)
    assert.equal(status, 202, JSON.stringify(body))
    return ended(body.id)
  }
  await node.manage('PUT', `${path}/settings`, { verify_enabled: false })
  const earlier = await start()
  assert.equal(earlier.error, null)
  await files.put('large', randomFile(3 * mebibyte))
  await node.kill()
  await node.start({ fileSizeLimit: mebibyte })
  const failed = await start()
  assert.deepEqual(
    [failed.status, failed.error],
    ['failed', 'There is no space left where backups are stored.'],
  )
  await node.kill()
  await node.start()
  assert.equal((await start()).error, null)
  await node.manage('POST', `${path}/${earlier.id}/verify`)
  const verified = await ended(earlier.id)
  assert.deepEqual([verified.verify_error, verified.verified_at !== null], [null, true])
  assert.equal((await files.get('large')).length, 3 * mebibyte)
})

test('backups: a restore during which the disk of the database fills up fails, says why, and changes nothing', {
  skip: process.platform !== 'linux' && 'needs prlimit',
}, async t => {
  const server = await startOwnServer()
  t.after(() => server.stop())
  const platform = await startPlatform({ server })
  t.after(() => platform.stop())
  const project = await backedUpProject(platform)
  await project.sql(`create table large as
    select n, repeat(md5(n::text), 40) as text from generate_series(1, 40000) n`)
  const backup = await project.backUp()
  await project.sql('delete from large where n > 100')
  // A larger file is an error for Postgres like a full disk. Its own user may set the limit.
  const postmaster = readFileSync(join(server.clusterDir, 'postmaster.pid'), 'utf8').split('\n')[0]!
  const { uid, gid } = statSync(server.clusterDir)
  const limitFiles = (bytes: string) =>
    execFileSync('prlimit', ['--pid', postmaster, `--fsize=${bytes}:`], { uid, gid })
  limitFiles(String(32 * mebibyte))
  const failed = await project.restore(backup.id)
  assert.equal(failed.status, 'failed')
  assert.match(failed.error!, /could not extend file .*: File too large/)
  const ref = await platform.refOf(project.id)
  // A verification that the platform begins by itself has a database for a moment.
  const copies = `select datname from pg_database where starts_with(datname, '${ref}_') and datname <> '${ref}_verify'`
  assert.deepEqual(await project.rows(copies), [])
  assert.deepEqual(await project.rows('select count(*)::int from public.large'), [{ count: 100 }])
  limitFiles('unlimited')
  assert.equal((await project.restore(backup.id)).error, null)
  assert.deepEqual(await project.rows('select count(*)::int from public.large'), [{ count: 40_000 }])
})
