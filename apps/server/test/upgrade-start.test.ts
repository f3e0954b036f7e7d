// The start on a data directory of an old release backs everything up first, and there is a way back.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { connectAsSuperuser } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { baseUrl, unpackOldDataDirectory } from './fixtures/old-data-directory.ts'
import { occupyPort } from './occupied-port.ts'
import { exitOf, manage, platformProcesses, type RunningPlatform, stop } from './platform-process.ts'

const { start, launch, failureOf, newDataDir } = platformProcesses()
const env = { PLATFORM_BASE_URL: baseUrl }

const ended = (platform: RunningPlatform) =>
  eventually(async () => {
    const { manifest } = (await manage(platform, 'GET', '/admin/platform/upgrade')).body
    return manifest?.status === 'done' && manifest
  }, 'every project is upgraded')

async function query(dataDir: string, text: string, database?: string): Promise<any[]> {
  const client = await connectAsSuperuser(dataDir, database)
  const { rows } = await client.query(text)
  await client.end()
  return rows
}

/** The files of a backup of the control database, the largest first. */
const filesOf = (dataDir: string, backupId: string) =>
  fs
    .globSync(join(dataDir, `backups/c-*/*/${backupId}*`))
    .sort((a, b) => fs.statSync(b).size - fs.statSync(a).size)

test('start of a new release: every database is backed up before its migration, and can be restored', async () => {
  const dataDir = newDataDir('start')
  const facts = unpackOldDataDirectory(dataDir)
  const { id } = facts.projects.shop
  // The control database is migrated, and then the start fails.
  const occupied = await occupyPort()
  assert.match(
    await failureOf({ dataDir, env: { ...env, PLATFORM_PORT: String(occupied.port) } }),
    /is taken/,
  )
  occupied.close()
  const platform = await start({ dataDir, env })
  const manifest: any = await ended(platform)
  assert.ok(manifest.done.includes(id))
  const { backups } = (await manage(platform, 'GET', `/projects/${id}/backups`)).body
  const snapshot = backups.find((each: { id: string }) => each.id === manifest.snapshots[id])
  assert.deepEqual([snapshot.kind, snapshot.status], ['upgrade', 'done'])
  const [{ ref }] = await query(dataDir, `select ref from projects where id = '${id}'`)
  const [{ at }] = await query(dataDir, 'select max(applied_at) as at from platform.migrations', ref)
  assert.ok(new Date(snapshot.finished_at) <= at, 'the backup was made first')

  const { body } = await manage(platform, 'POST', `/projects/${id}/backups/${snapshot.id}/restore`)
  await eventually(async () => {
    const { restores } = (await manage(platform, 'GET', `/projects/${id}/restores`)).body
    const restore = restores.find((each: { id: string }) => each.id === body.restore.id)
    assert.notEqual(restore.status, 'failed', restore.error)
    return restore.status === 'done'
  }, 'the backup is restored')

  const running = await failureOf({ dataDir, env, args: ['restore-control'] })
  assert.match(running, /platform/i)
  await query(dataDir, `update installed_release set version = '99.0.0'`)
  await stop(platform)
  assert.match(await failureOf({ dataDir, env }), /newer release 99\.0\.0.*docs\/upgrades\.md/)
  const wrong = { ...env, CONTROL_PLANE_SECRET: 'another secret that is long enough' }
  for (const args of [['restore-control'], ['restore-control', manifest.control_backup_id]])
    assert.match(await failureOf({ dataDir, env: wrong, args }), /CONTROL_PLANE_SECRET is not the one/)
  const listing = launch({ dataDir, env, args: ['restore-control'] })
  assert.equal(await exitOf(listing), '0', listing.stderr)
  const { backups: listed, damaged } = JSON.parse(listing.stdout)
  const [stored] = listed
  assert.equal(stored.id, manifest.control_backup_id)
  assert.deepEqual(damaged, [])
  assert.ok(stored.bytes > 0 && stored.stored_bytes > 0)
  assert.match(await failureOf({ dataDir, env, args: ['restore-control', 'no-id'] }), /needs the id/)

  const rows = filesOf(dataDir, stored.id).find(path => /-1-[1-9a-f][0-9a-f]*\.0$/.test(path))!
  const intact = fs.readFileSync(rows)
  fs.writeFileSync(
    rows,
    intact.map((byte, at) => (at === intact.length >> 1 ? byte ^ 1 : byte)),
  )
  const failure = await failureOf({ dataDir, env, args: ['restore-control', stored.id] })
  assert.match(
    failure,
    new RegExp(`backup ${stored.id} of the control database is damaged .*restore another backup`),
  )
  fs.writeFileSync(rows, intact)
  assert.match(await failureOf({ dataDir, env }), /newer release 99\.0\.0/, 'the database is as it was')
  // A damaged index of another backup does not matter.
  const lost = stored.id.replace(/^./, '1')
  const [index] = filesOf(dataDir, stored.id).filter(path => path.endsWith('.c'))
  const cut = join(index!, '../..', lost.slice(0, 2), basename(index!).replace(stored.id, lost))
  fs.mkdirSync(join(cut, '..'))
  fs.writeFileSync(cut, fs.readFileSync(index!).subarray(0, 100))
  const listingAgain = launch({ dataDir, env, args: ['restore-control'] })
  assert.equal(await exitOf(listingAgain), '0', listingAgain.stderr)
  const found = JSON.parse(listingAgain.stdout)
  assert.deepEqual(found.backups, [stored])
  assert.deepEqual(
    found.damaged.map(({ id }: { id: string }) => id),
    [lost],
  )
  assert.match(await failureOf({ dataDir, env, args: ['restore-control', lost] }), /The index .* is damaged/)

  const restoring = launch({ dataDir, env, args: ['restore-control', stored.id] })
  assert.equal(await exitOf(restoring), '0', restoring.stderr)
  assert.deepEqual(JSON.parse(restoring.stdout), { restored: stored.id, kept_as: 'plinth_replaced' })

  // The old control database is in its place: the next start upgrades it again.
  const waiting = await start({ dataDir, env: { ...env, PLATFORM_UPGRADE: 'manual' } })
  const { plan } = (await manage(waiting, 'POST', '/admin/platform/upgrade')).body
  assert.ok(plan.platform_migrations.includes('0021_upgrades'))
  await stop(waiting)
  const again = await start({ dataDir, env })
  await ended(again)
  assert.equal((await manage(again, 'GET', `/projects/${id}`)).body.id, id)
})
